"""Tests of runs that are recorded to an object store and followed from there."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fsspec
import pytest

import nbdebug
from nbdebug.exceptions import SetupError
from nbdebug.records.record import Record, RecordWriter
from nbdebug.serialization.schema import document
from nbdebug.watching.remote_folder import RemoteRunFolder
from tests.tools.try_fix.programs import debugger


@pytest.fixture
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"/runs/{request.node.name}"
    yield f"memory://{name.lstrip('/')}"
    files = fsspec.filesystem("memory")
    if files.exists(name):
        files.rm(name, recursive=True)


def wait_until(is_true: Callable[[], bool], seconds: float = 20.0) -> float:
    started = time.monotonic()
    while not is_true():
        assert time.monotonic() < started + seconds
        time.sleep(0.05)
    return time.monotonic() - started


def grow(record: Record, writer: RecordWriter, steps: range) -> None:
    for step in steps:
        record.run.append(step, {"loss": 1 / step})
    writer.update(record)


def test_growing_record_is_followed_and_ends(url: str) -> None:
    folder = RemoteRunFolder(url)
    folder.prepare()
    run = nbdebug.attach(url)
    assert run.status == "waiting for the first training pass"
    record, writer = Record(about={"run": "1"}), RecordWriter(folder.record)
    for end in range(2, 80, 7):
        grow(record, writer, range(end - 7 if end > 7 else 1, end))
        wait_until(lambda: bool(run.update()) or run.record.steps == record.steps)
    assert run.record.run.steps.tolist() == record.run.steps.tolist()
    assert not run.is_finished
    record.about["finished"] = True
    writer.update(record)
    folder.write_findings(document("Check", []))
    late = nbdebug.attach(url)
    assert late.is_finished
    assert late.record.run.steps.tolist() == record.run.steps.tolist()
    assert str(late).startswith(f"nbdebug run {folder.path.name}: {record.steps} steps; finished")


def test_file_that_is_replaced_replaces_the_parts(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.watching.remote_folder._MAX_PARTS", 3)
    folder, reader = RemoteRunFolder(url), None
    folder.prepare()
    record = Record(about={"run": "1"})
    record.run.max_rows = 40
    writer = RecordWriter(folder.record)
    for start in range(1, 150, 10):
        grow(record, writer, range(start, start + 10))
        assert folder._upload is not None
        folder._upload._upload_new()
        reader = reader or nbdebug.attach(url)
        reader.update()
        assert reader.record.run.steps.tolist() == record.run.steps.tolist()
    assert record.run.stride > 1
    assert len(fsspec.filesystem("memory").ls(url.removeprefix("memory:/"), detail=False)) <= 3


def test_watch_writes_to_a_url_and_another_run_takes_its_place(url: str) -> None:
    for steps in (6, 3):
        dbg = debugger()
        setup = dbg.setup
        with dbg.watch(save=url):
            for (x, y), _ in zip(setup.train_loader, range(steps), strict=False):
                setup.optimizers[0].zero_grad()
                setup.loss_fn(setup.model(x), y).backward()
                setup.optimizers[0].step()
        assert nbdebug.attach(url).record.steps == steps


def test_unknown_protocol_and_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="expected a URL that fsspec opens"):
        nbdebug.attach("nowhere://runs/1")
    with pytest.raises(SetupError, match="expected that of a run"):
        nbdebug.attach((tmp_path / "none").as_uri())
