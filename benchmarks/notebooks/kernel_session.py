"""A kernel that runs the cells of notebooks and the debugger in them, as a user would."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from jupyter_client.manager import start_new_kernel

_TIMEOUT = 300
_BEGIN = "%reset -f\n%load_ext nbdebug\nimport nbdebug"
# Prints the findings that matter, with the cells as they read after the fix.
_DESCRIBE = """
def _describe_faults(findings):
    import json, linecache
    from nbdebug.source.edits import apply_edits
    from nbdebug.finding import is_code
    from nbdebug.source.location import get_cell_number
    faults = []
    for finding in findings.faults:
        cells = {}
        for file in {edit.file for edit in finding.edits}:
            own = [edit for edit in finding.edits if edit.file == file]
            cells[get_cell_number(file)] = apply_edits("".join(linecache.getlines(file)), own)
        faults.append({
            "code": finding.code, "message": finding.message, "cell": finding.where.cell, "line": finding.where.line,
            "source": finding.where.source, "cause": finding.cause, "fix": finding.fix, "is_code": is_code(finding.fix),
            "cells": cells, "trial": finding.trial,
        })
    print(json.dumps(faults))

"""


class CellError(Exception):
    """A cell raised."""


@dataclass
class Run:
    """What a run of a notebook showed: the faults found before and after the training, and the score."""

    checkup: list[dict[str, Any]] = field(default_factory=list)
    watch: list[dict[str, Any]] = field(default_factory=list)
    score: float = float("nan")
    numbers: list[int] = field(default_factory=list)

    @property
    def first(self) -> dict[str, Any] | None:
        """The first fault that a user reads: that of the checkup, else the first after the training.

        If the checkup has only a sentence as its fix, that of the same fault after the training counts.
        """
        faults = [*self.checkup, *self.watch]
        same = [fault for fault in faults if fault["code"] == faults[0]["code"]]
        return next((fault for fault in same if fault["cells"] or fault["is_code"]), same[0]) if faults else None


@dataclass
class KernelSession:
    """A running kernel; each notebook begins in an empty namespace."""

    client: Any

    def run_cell(self, source: str) -> tuple[str, int]:
        """Run a cell; return its printed text and its number. Raises CellError."""
        printed: list[str] = []

        def hook(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                printed.append(message["content"]["text"])

        reply = self.client.execute_interactive(source, timeout=_TIMEOUT, output_hook=hook)["content"]
        if reply["status"] != "ok":
            raise CellError(f"{reply['ename']}: {reply['evalue']}")
        return "".join(printed), int(reply["execution_count"])

    def run(self, cells: Sequence[str], arguments: str = "", extra: str = "") -> Run:
        """Run a notebook; with ``arguments`` of a Debugger also a checkup before and a watch around the training.

        ``extra`` is a cell that runs before the training.
        """
        run = Run()
        self.run_cell(_BEGIN)
        run.numbers = [self.run_cell(cell)[1] for cell in cells[:-2]]
        if arguments:
            self.run_cell(_DESCRIBE)
            self.run_cell(f"dbg = nbdebug.Debugger({arguments})\ndbg.checkup();")
            run.checkup = self._read("_describe_faults(dbg.findings)")
        if extra:
            self.run_cell(extra)
        run.numbers.append(self.run_cell(f"%%watch dbg\n{cells[-2]}" if arguments else cells[-2])[1])
        if arguments:
            run.watch = self._read("_describe_faults(dbg.findings)")
        run.numbers.append(self.run_cell(cells[-1])[1])
        run.score = float(self._read("import json; print(json.dumps(float(score)))"))
        return run

    def _read(self, source: str) -> Any:
        return json.loads(self.run_cell(source)[0].strip().splitlines()[-1])


@contextmanager
def open_kernel() -> Iterator[KernelSession]:
    """Start a kernel of this interpreter, and end it with the block."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        yield KernelSession(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
