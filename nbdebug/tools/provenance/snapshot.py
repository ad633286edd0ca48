"""A snapshot of a program: versions, hardware, settings, code, data and configuration, as JSON on disk."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from nbdebug.atomic_files import write_atomically
from nbdebug.exceptions import SetupError
from nbdebug.result import Result
from nbdebug.setup import Setup
from nbdebug.source.references import user_files
from nbdebug.tensors.hashing import hash_value
from nbdebug.tools.provenance.data_fingerprint import fingerprint_data
from nbdebug.tools.provenance.machine import git_state, hardware, plain_config, settings, versions
from nbdebug.validation import validate_int
from nbdebug.views.table import Column, FoldableTable, TableRow

if TYPE_CHECKING:
    import pandas

    from nbdebug.views.page import View

FORMAT = "nbdebug snapshot 1"
SECTIONS = ("versions", "hardware", "settings", "config", "data", "git", "state")
_SECONDS = 10.0  # of reading each set
_MAX_SOURCE = 1_000_000  # characters of one file


@dataclass(frozen=True)
class ProgramSnapshot(Result):
    """The makings of a run; ``cells`` are the cells of the notebook or the files of the program with their source.

    ``state`` has a hash of each module with tensors of its own, and of each optimizer and scheduler. ``watched`` names
    the last run that was watched, with its steps.
    """

    has_chart = False

    versions: dict[str, Any] = field(default_factory=dict)
    hardware: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    git: dict[str, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    cells: tuple[tuple[str, str], ...] = ()
    taken: str = ""
    watched: str = ""

    def save(self, path: str | Path) -> Path:
        """Write the snapshot as JSON, at once and completely: an interrupted write leaves the former file."""
        target = Path(path)
        content = json.dumps({"format": FORMAT, **asdict(self)}, indent=1, default=str, ensure_ascii=False)
        write_atomically(target, content.encode("utf-8"))
        return target

    def rows(self) -> list[tuple[str, str, str]]:
        """Return section, name and value of each fact, without code."""
        facts = [
            (s, n, _value_text(v)) for s in SECTIONS for n, v in getattr(self, s).items() if (s, n) != ("git", "diff")
        ]
        return [*facts, *(("code", name, f"{len(source.splitlines())} lines") for name, source in self.cells)]

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per fact."""
        import pandas as pd

        return pd.DataFrame(self.rows(), columns=["section", "name", "value"])

    def view(self) -> View:
        """A table of all facts."""
        rows: list[TableRow] = []
        for section in (*SECTIONS, "code"):
            own = [(name, value) for s, name, value in self.rows() if s == section]
            rows.append(TableRow(section, (f"{len(own)} entries",), folded=len(own) > 8))
            rows += [TableRow(name, (value,), level=1) for name, value in own]
        columns = (Column("name"), Column("value", "code"))
        return FoldableTable(title="Snapshot", status=self.taken, columns=columns, rows=rows, noun="facts")

    def to_text(self) -> str:
        """The number of facts in each section, and the most important of them."""
        counts = ", ".join(f"{len(getattr(self, section))} {section}" for section in SECTIONS)
        lines = [f"nbdebug snapshot: {counts}, {len(self.cells)} cells or files of code."]
        lines += [f"  {name}: {self.versions[name]}" for name in ("python", "torch") if name in self.versions]
        lines += [f"  data {name}: {value}" for name, value in self.data.items()]
        if self.git:
            changed = " with changes" if self.git.get("diff") else ""
            lines.append(f"  git: {self.git['commit'][:12]} on {self.git['branch']}{changed}")
        return "\n".join([*lines, f"  taken {self.taken}; compare two with nbdebug.compare(before, after)"])


def _value_text(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)


def take_snapshot(data: Mapping[str, Any], config: Any, samples: int, frame: Any) -> ProgramSnapshot:
    """Return a snapshot of the running program; ``data`` are loaders or datasets by name, ``frame`` is the caller's."""
    validate_int("samples", samples)
    files = user_files(frame)
    return ProgramSnapshot(
        versions=versions(),
        hardware=hardware(),
        settings=settings(),
        config=plain_config(config),
        data={name: fingerprint_data(source, samples, _SECONDS).text for name, source in data.items()},
        git=git_state(_folder(files)),
        cells=_notebook_cells() or _program_files(files),
        taken=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def setup_state(setup: Setup) -> dict[str, str]:
    """Return a hash of each part of a setup by name; parts without tensors of their own are left out."""
    state: dict[str, str] = {}
    modules: list[tuple[str, Any]] = [("model", setup.eager_model)]
    modules += [("loss_fn", setup.loss_fn)] if isinstance(setup.loss_fn, nn.Module) else []
    for name, root in modules:
        for path, module in root.named_modules():
            if tensors := _own_tensors(module):
                state[".".join(filter(None, [name, path]))] = _hash_text(tensors)
    for number, optimizer in enumerate(setup.optimizers):
        name = "optimizer" if len(setup.optimizers) == 1 else f"optimizer {number}"
        state[name] = _hash_text(optimizer.state_dict())
    for number, scheduler in enumerate(setup.schedulers):
        if hasattr(scheduler, "state_dict"):
            name = "scheduler" if len(setup.schedulers) == 1 else f"scheduler {number}"
            state[name] = _hash_text(_plain(scheduler.state_dict()))
    return state


def _own_tensors(module: nn.Module) -> dict[str, Any]:
    named = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    return {name: tensor.detach() for name, tensor in named}


def _plain(state: Any) -> dict[str, Any]:
    """Return the entries of a state that are values: some schedulers keep functions, which have no hash."""
    return {key: value for key, value in state.items() if not callable(value)} if isinstance(state, dict) else {}


def _hash_text(value: Any) -> str:
    return f"{hash_value(value) % 2**64:016x}"


def _folder(files: set[str]) -> Path:
    return next((Path(file).parent for file in sorted(files) if Path(file).is_file()), Path.cwd())


def _notebook_cells() -> tuple[tuple[str, str], ...]:
    """Return number and source of each cell that was run in this kernel; empty in a script."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    sources = getattr(shell, "user_ns", {}).get("In", []) if shell is not None else []
    return tuple((f"In[{number}]", str(source)) for number, source in enumerate(sources) if number and source)


def _program_files(files: set[str]) -> tuple[tuple[str, str], ...]:
    """Return name and source of the user's files on the stack, and of the modules next to them."""
    paths = {Path(file).resolve() for file in files if Path(file).is_file()}
    folders = {path.parent for path in paths}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if file and file.endswith(".py") and Path(file).parent in folders:
            paths.add(Path(file).resolve())
    return tuple((path.name, path.read_text("utf-8", "replace")[:_MAX_SOURCE]) for path in sorted(paths))


def load_snapshot(path: str | Path) -> ProgramSnapshot:
    """Return the snapshot in a file; raises SetupError if it is missing, incomplete or no snapshot."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise SetupError(
            f"the snapshot {path} cannot be read ({error.strerror}); expected a file. Check its path."
        ) from error
    except ValueError as error:
        raise SetupError(f"{path} is not valid JSON ({error}); expected a snapshot. Take another one.") from error
    if not isinstance(content, dict) or content.pop("format", None) != FORMAT:
        raise SetupError(f"{path} is another kind of file; expected a snapshot. Write one with snapshot(path).")
    known = {name: content[name] for name in ProgramSnapshot.__dataclass_fields__ if name in content}
    try:
        cells = tuple((str(name), str(source)) for name, source in known.get("cells", ()))
    except (TypeError, ValueError):
        cells = None
    odd = [name for name in SECTIONS if not isinstance(known.get(name, {}), dict)] + ["cells"] * (cells is None)
    if odd:
        raise SetupError(f"{path} has no readable {odd[0]}; expected a snapshot as it was written. Take another one.")
    return ProgramSnapshot(**{**known, "cells": cells})
