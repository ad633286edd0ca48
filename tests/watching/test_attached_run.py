"""Tests of runs that are recorded to a folder by one process and followed by another."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import nbdebug
from nbdebug import cli
from nbdebug.commands.check import check_script
from nbdebug.commands.tail import _table, follow_as_text
from nbdebug.finding import Finding, LineChange, Location
from nbdebug.records.record import Record, RecordReader, RecordWriter
from nbdebug.serialization.schema import document, read_findings
from nbdebug.watching.run_folder import RunFolder
from tests.scripts import training_scripts


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("recorded")
    (path / "train.py").write_text(training_scripts.TRAINER.lstrip(), encoding="utf-8")
    check_script(path / "train.py", [], RunFolder(path / "runs" / "42"), runs_checkup=False)
    return path / "runs" / "42"


def test_ended_run_has_record_and_findings(folder: Path) -> None:
    run = nbdebug.attach(folder)
    assert run.is_finished
    assert run.record.steps == 24
    assert run.findings[0].code == "O505"
    assert run.findings[0].where.source == "loss.backward()"
    assert run.result.steps == 24
    assert str(run).startswith("nbdebug run 42: 24 steps; finished")
    assert "O505 zero-grad-missing" in str(run)


def test_ended_run_whose_findings_were_never_written_is_finished_after_a_silence(folder: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "without findings"))
    (copy / "findings.json").unlink()
    os.utime(copy / "record.nbd")
    run = nbdebug.attach(copy)
    assert not run.is_finished
    os.utime(copy / "record.nbd", (0, 0))
    assert run.is_finished
    assert list(follow_as_text([run]))[-1].startswith("nbdebug run without findings: 24 steps; finished")


def test_tail_prints_numbers_and_findings(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["tail", str(folder)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("42  step 24  loss ") for line in lines)
    assert any("O505 zero-grad-missing" in line for line in lines)


def test_table_of_runs_shows_brackets_of_a_name(folder: Path, tmp_path: Path) -> None:
    console = pytest.importorskip("rich.console")
    copy = shutil.copytree(folder, tmp_path / "[red]1")
    output = io.StringIO()
    console.Console(file=output, width=200).print(_table([nbdebug.attach(copy)]))
    assert "[red]1" in output.getvalue()


def test_run_command_ends_with_status_of_script_that_changes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(f"import os\nos.chdir('/')\n{training_scripts.EXIT}", encoding="utf-8")
    assert cli.main(["run", "train.py", "--record", "run"]) == 3
    run = nbdebug.attach("run")
    assert (run.is_finished, run.status) == (True, "no training pass")
    assert list(follow_as_text([run])) == ["nbdebug run run: no training pass"]


def grow(record: Record, writer: RecordWriter, steps: range) -> None:
    for step in steps:
        record.run.append(step, {"loss": 1 / step, "lr": 0.1})
    writer.update(record)


def test_several_runs_are_followed_while_they_grow_and_start_again(tmp_path: Path) -> None:
    folders = [RunFolder(tmp_path / name) for name in ("1", "2")]
    for item in folders:
        item.prepare()
    runs = [nbdebug.attach(item.path) for item in folders]
    assert runs[0].status == "waiting for the first training pass"
    records = [Record(about={"run": str(number)}) for number in range(2)]
    writers = [RecordWriter(item.record) for item in folders]
    for record, writer in zip(records, writers, strict=True):
        grow(record, writer, range(1, 4))
    lines = follow_as_text(runs)
    assert next(lines) == "1  step 3  loss 0.3333  lr 0.1"
    assert next(lines) == "2  step 3  loss 0.3333  lr 0.1"
    grow(records[1], writers[1], range(4, 6))
    assert next(lines) == "2  step 5  loss 0.2  lr 0.1"
    records[0].about["finished"] = True
    writers[0].update(records[0])
    folders[0].write_findings(document("Check", []))
    assert next(lines) == "nbdebug run 1: 3 steps; finished, loss 1 at the first step and 0.3333 at the last"
    folders[1].prepare()  # the job starts again
    grow(Record(about={"run": "again"}), RecordWriter(folders[1].record), range(1, 2))
    assert next(line for line in lines if line.startswith("2  ")) == "2  step 1  loss 1  lr 0.1"


def test_reader_takes_only_new_complete_chunks(tmp_path: Path) -> None:
    path, record = tmp_path / "run.nbd", Record()
    writer, reader = RecordWriter(path), RecordReader(path)
    grow(record, writer, range(1, 4))
    assert reader.update()
    first = reader.record
    grow(record, writer, range(4, 9))
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    assert not reader.update()
    path.write_bytes(whole)
    assert not reader.update()
    assert reader.record is first
    assert first.run.steps.tolist() == list(range(1, 9))
    assert nbdebug.load(path).run.steps.tolist() == list(range(1, 9))


def test_findings_survive_their_schema() -> None:
    where = Location(module="a", file="/x.py", line=3, source="y = f(x)", context=((3, "y = f(x)"),))
    cause = Finding(
        "message", where, "cause", "fix", code="L201", name="n", severity="error", explains=("T601",), evidence={"a": 1}
    )
    changed = Finding(
        "m", changes=(LineChange("x.py, line 3", ("a",), ("b",)),), code="T601", name="t", severity="note"
    )
    assert read_findings(json.loads(json.dumps(document("Check", [cause, changed])))) == [cause, changed]
    with pytest.raises(nbdebug.SetupError, match=r"expected 'nbdebug\.findings/1'"):
        read_findings({"schema": "nbdebug.findings/9"})


def test_folder_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(nbdebug.SetupError, match="expected that of a run"):
        nbdebug.attach(tmp_path / "none")


def test_step_of_other_process_is_shown_before_it_ends(tmp_path: Path) -> None:
    endless = training_scripts.HEALTHY.replace("range(12)", "range(10_000)")
    text = f"import time\n{endless.lstrip()}    time.sleep(0.05)\n"
    (tmp_path / "train.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "nbdebug", "run", "train.py", "--record", "run"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.DEVNULL) as process:
        try:
            while not (tmp_path / "run" / "record.nbd").exists():
                assert process.poll() is None
                time.sleep(0.1)
            run = nbdebug.attach(tmp_path / "run")
            while run.record.steps < 5:
                assert process.poll() is None
                run.update()
                time.sleep(0.1)
            assert "steps; running" in str(run)
        finally:
            process.kill()
