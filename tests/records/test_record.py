"""Tests of Record: series, files, and files read while they are written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.records import Record, RecordedModule, load
from nbdebug.records.record import RecordWriter, RunEvent, layer_columns
from nbdebug.records.table import StepTable
from nbdebug.tensors.histogram_bins import BIN_COUNT, bin_shares, pack_counts


def make_record(steps: int, layers: int = 3) -> Record:
    histogram_names = [f"weight|layer{i}.weight" for i in range(layers)]
    record = Record(
        about={"model": "Net"},
        modules=[RecordedModule("layer0", "Linear", ("layer0.weight",), seen=True)],
        histogram_names=histogram_names,
    )
    record.layers = StepTable(layer_columns(histogram_names), record.layers.max_rows)
    random = np.random.default_rng(0)
    for step in range(steps):
        append_step(record, step, random)
    return record


def append_step(record: Record, step: int, random: np.random.Generator) -> None:
    record.run.append(step, {"loss": 1 / (step + 1), "lr": 0.1})
    record.layers.append(step, random.normal(size=len(record.layers.columns)).astype(np.float32))
    record.shapes.append(step, pack_counts(random.integers(0, 9, (len(record.histogram_names), BIN_COUNT))))


def test_series_of_signal_that_starts_late_has_only_its_steps() -> None:
    record = Record()
    record.run.append(0, {"loss": 1.0})
    record.run.append(1, {"loss": float("inf"), "accuracy": 0.5})
    steps, values = record.series("accuracy")
    assert (steps.tolist(), values.tolist()) == ([1], [0.5])
    assert record.series("loss")[1].tolist() == [1.0, float("inf")]
    assert record.series("no such signal")[1].size == 0


def test_loaded_record_equals_saved_record(tmp_path: Path) -> None:
    record = make_record(700)
    record.events.append(RunEvent(3, "epoch", "epoch 1"))
    record.save(tmp_path / "run.nbd")
    loaded = load(tmp_path / "run.nbd")
    assert loaded.metadata() == record.metadata()
    assert loaded.to_frame().equals(record.to_frame())
    steps, histograms = record.histograms("weight", "layer1.weight")
    assert (loaded.histograms("weight", "layer1.weight")[1] == histograms).all()
    assert len(steps) == len(histograms) <= record.shapes.max_rows
    assert bin_shares(histograms).sum(-1) == pytest.approx(1)


def test_record_writer_file_is_readable_while_it_grows_and_when_truncated(tmp_path: Path) -> None:
    path, record, random = tmp_path / "run.nbd", make_record(0), np.random.default_rng(1)
    writer = RecordWriter(path)
    for step in range(3000):
        append_step(record, step, random)
        if step % 50 == 0:
            writer.update(record)
            assert load(path).to_frame().equals(record.to_frame())
    content = path.read_bytes()
    path.write_bytes(content[:-7])
    truncated = load(path)
    assert truncated.steps >= record.steps - 100
    assert len(content) < 2_000_000


@pytest.mark.parametrize("is_rewritten", [False, True])
def test_record_is_complete_after_a_full_disk(
    is_rewritten: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, record, random = tmp_path / "run.nbd", make_record(3), np.random.default_rng(1)
    writer = RecordWriter(path)
    writer.update(record)
    append_step(record, 3, random)
    if is_rewritten:
        writer.written_rows = {}

    def fail(file: object, header: object, body: object) -> None:
        file.write(b"half a chunk")  # type: ignore[attr-defined]
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("nbdebug.records.record._write_chunk", fail)
        with pytest.raises(SetupError, match="No space left"):
            writer.update(record)
    assert load(path).steps == 2
    writer.update(record)
    assert load(path).to_frame().equals(record.to_frame())
    assert [file.name for file in tmp_path.iterdir()] == ["run.nbd"]


def test_load_and_save_with_wrong_paths_raise_setup_error(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"PK\x03\x04")
    with pytest.raises(SetupError, match="expected an nbdebug record"):
        load(tmp_path / "other")
    with pytest.raises(SetupError, match="expected a record"):
        load(tmp_path / "nothing")
    with pytest.raises(SetupError, match="can be written"):
        Record().save(tmp_path / "no folder" / "run.nbd")
