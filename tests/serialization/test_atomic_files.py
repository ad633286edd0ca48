"""Tests that a process which is killed anywhere within a write leaves the former file whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nbdebug.atomic_files import write_atomically
from nbdebug.records import Record
from nbdebug.run_report.sections import Paragraph, Section
from nbdebug.run_report.writers import write_report
from nbdebug.tools.errors.tags import _SampleTags, _write_tags
from nbdebug.tools.provenance import ProgramSnapshot
from nbdebug.watching.result import WatchResult
from nbdebug.watching.run_folder import RunFolder

FORMER, NEW = b"former" * 1000, b"new" * 5000


def die(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_open() -> None:
    Path.open = die  # type: ignore[method-assign]


def die_within_content() -> None:
    original = Path.open

    def open_half_file(*args: Any, **kwargs: Any) -> Any:
        file: Any = original(*args, **kwargs)
        file.write(NEW[: len(NEW) // 2])
        file.flush()
        die()

    Path.open = open_half_file  # type: ignore[method-assign]


def die_before_flush() -> None:
    os.fsync = die  # type: ignore[assignment]


def die_before_rename() -> None:
    Path.replace = die  # type: ignore[method-assign]


def write_bytes(path: Path, number: int) -> None:
    write_atomically(path, FORMER if number == 1 else NEW)


def write_snapshot(path: Path, number: int) -> None:
    ProgramSnapshot(config={"number": number, "filling": "x" * 20_000}).save(path)


def write_picture(path: Path, number: int) -> None:
    record = Record()
    for step in range(1, 5):
        record.run.append(step, {"loss": 1.0 / (step + number)})
    WatchResult(record, 4).to_markdown(picture=path)


def write_record(path: Path, number: int) -> None:
    record = Record()
    for step in range(1, 400):
        record.run.append(step, {"loss": 1.0 / (step + number)})
    record.save(path)


def write_report_page(path: Path, number: int) -> None:
    write_report(path.with_suffix(".html"), [Section("Report", (Paragraph(f"number {number} " * 1000),))], "Report")


def write_findings(path: Path, number: int) -> None:
    RunFolder(path.parent).write_findings({"number": number, "filling": "x" * 20_000})


def write_tags(path: Path, number: int) -> None:
    _write_tags(path, {sample: _SampleTags(note=f"note {number} " * 10) for sample in range(100)})


WRITERS = [write_bytes, write_snapshot, write_picture, write_record, write_report_page, write_findings, write_tags]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("plan", [die_at_open, die_within_content, die_before_flush, die_before_rename])
def test_killed_writer_leaves_the_former_file(
    plan: Callable[[], None], write: Callable[[Path, int], None], tmp_path: Path
) -> None:
    write(tmp_path / "file.json", 1)
    (path,) = tmp_path.iterdir()
    former = path.read_bytes()
    process = os.fork()
    if process == 0:
        try:
            plan()
            write(tmp_path / "file.json", 2)
        finally:
            os._exit(0)
    assert os.WTERMSIG(os.waitpid(process, 0)[1]) == signal.SIGKILL
    assert path.read_bytes() == former
    write(tmp_path / "file.json", 2)
    assert path.read_bytes() != former


PARQUET = """
import sys, numpy
from pathlib import Path
from nbdebug.predictions.classification import ClassificationTable
numbers = numpy.random.default_rng(0).integers(0, 9, 500_000)
table = ClassificationTable.from_arrays(numbers, numbers, columns={"noise": numpy.random.rand(500_000)})
while True:
    table.to_parquet(Path(sys.argv[1]))
"""
TRACE = """
import sys
from pathlib import Path
from nbdebug.rules.examples import classifier
from nbdebug.tools.profile.trace import write_trace
while True:
    write_trace(classifier(), None, Path(sys.argv[1]))
"""


def read_parquet(path: Path) -> Any:
    return pytest.importorskip("duckdb").read_parquet(str(path)).fetchall()


def read_trace(path: Path) -> Any:
    return json.loads(path.read_text())


@pytest.mark.parametrize(("program", "read"), [(PARQUET, read_parquet), (TRACE, read_trace)])
def test_killed_writer_of_a_library_leaves_the_former_file(
    program: str, read: Callable[[Path], Any], tmp_path: Path
) -> None:
    path = tmp_path / "file.data"
    with subprocess.Popen([sys.executable, "-c", program, str(path)], stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not path.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(0.05)  # further writes follow without a pause, so this is in the middle of one
        process.kill()
    assert len(read(path)) > 1


def test_device_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_atomically(pipe, b"content")
    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert pipe.is_fifo()
