"""The record of a run: bounded, saved, and read while it grows."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.records import Record, RecordedModule, load
from nbdebug.records.record import RecordWriter, RunEvent, layer_columns
from nbdebug.records.table import StepTable
from nbdebug.tensors.histogram_bins import BIN_COUNT, bin_shares, pack_counts


def recorded(steps: int, places: int = 3) -> Record:
    drawn = [f"weight|layer{i}.weight" for i in range(places)]
    record = Record(
        about={"model": "Net"},
        modules=[RecordedModule("layer0", "Linear", ("layer0.weight",), seen=True)],
        histogram_names=drawn,
    )
    record.layers = StepTable(layer_columns(drawn), record.layers.max_rows)
    random = np.random.default_rng(0)
    for step in range(steps):
        grow(record, step, random)
    return record


def grow(record: Record, step: int, random: np.random.Generator) -> None:
    record.run.append(step, {"loss": 1 / (step + 1), "lr": 0.1})
    record.layers.append(step, random.normal(size=len(record.layers.columns)).astype(np.float32))
    record.shapes.append(step, pack_counts(random.integers(0, 9, (len(record.histogram_names), BIN_COUNT))))


def test_a_table_is_thinned_and_never_cut() -> None:
    table = StepTable(["loss"], max_rows=100)
    for step in range(10_000):
        table.append(step, {"loss": float(step)})
    assert 50 <= table.rows <= 100
    assert table.steps[0] == 0
    assert table.steps[-1] > 9_000
    assert len(set(np.diff(table.steps))) == 1
    assert table.values[:, 0].tolist() == table.steps.tolist()


def test_kinds_of_rows_that_alternate_are_thinned_each_by_itself() -> None:
    table = StepTable(max_rows=100)
    for step in range(5_000):
        table.append(step, {"loss": float(step)}, "loss")
        table.append(step, {"score": float(step)}, "score")
    for name in ("loss", "score"):
        steps, values = table.column(name)
        assert 25 <= len(steps) <= 51
        assert len(set(np.diff(steps))) == 1
        assert values.tolist() == steps.tolist()


def test_a_column_may_come_later() -> None:
    record = Record()
    record.run.append(0, {"loss": 1.0})
    record.run.append(1, {"loss": float("inf"), "accuracy": 0.5})
    steps, values = record.series("accuracy")
    assert (steps.tolist(), values.tolist()) == ([1], [0.5])
    assert record.series("loss")[1].tolist() == [1.0, float("inf")]
    assert record.series("what is not there")[1].size == 0


def test_columns_that_come_together_take_one_copy_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    table, names = StepTable(["loss"]), [f"weight.norm|{i}" for i in range(1000)]
    table.append(0, {"loss": 1.0})
    copied: list[int] = []
    concatenate = np.concatenate
    monkeypatch.setattr(np, "concatenate", lambda *given, **more: copied.append(1) or concatenate(*given, **more))
    table.widen([*names, "loss"])
    table.widen(names)
    assert copied == [1]
    assert list(table.columns) == ["loss", *names]
    assert table.column("loss")[1].tolist() == [1.0]
    assert table.column(names[-1])[1].size == 0


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    record = recorded(700)
    record.events.append(RunEvent(3, "epoch", "epoch 1"))
    record.save(tmp_path / "run.nbd")
    same = load(tmp_path / "run.nbd")
    assert same.metadata() == record.metadata()
    assert same.to_frame().equals(record.to_frame())
    steps, bytes_ = record.histograms("weight", "layer1.weight")
    assert (same.histograms("weight", "layer1.weight")[1] == bytes_).all()
    assert len(steps) == len(bytes_) <= record.shapes.max_rows
    assert bin_shares(bytes_).sum(-1) == pytest.approx(1)


def test_a_growing_file_can_be_read_at_any_time_and_loses_the_last_chunk_at_most(tmp_path: Path) -> None:
    path, record, random = tmp_path / "run.nbd", recorded(0), np.random.default_rng(1)
    writer = RecordWriter(path)
    for step in range(3000):
        grow(record, step, random)
        if step % 50 == 0:
            writer.update(record)
            assert load(path).to_frame().equals(record.to_frame())
    whole = path.read_bytes()
    path.write_bytes(whole[:-7])
    cut = load(path)
    assert cut.steps >= record.steps - 100
    assert len(whole) < 2_000_000


def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"PK\x03\x04")
    with pytest.raises(SetupError, match="expected an nbdebug record"):
        load(tmp_path / "other")
    with pytest.raises(SetupError, match="expected a record"):
        load(tmp_path / "nothing")
    with pytest.raises(SetupError, match="can be written"):
        Record().save(tmp_path / "no folder" / "run.nbd")


@pytest.mark.parametrize("together", [1, 3, 7, 40])
def test_rows_that_come_together_are_kept_as_if_they_came_alone(together: int) -> None:
    rows = [(step, {"loss": float(step)} | ({"norm": 2.0 * step} if step % 3 else {})) for step in range(1, 200)]
    alone, found = StepTable(max_rows=32), StepTable(max_rows=32)
    for step, row in rows:
        alone.append(step, row)
    for start in range(0, len(rows), together):
        found.extend(rows[start : start + together])
    assert found.stride == alone.stride > 1
    assert found.steps.tolist() == alone.steps.tolist()
    assert found.total_rows == alone.total_rows
    for name in ("loss", "norm"):
        assert np.array_equal(found.column(name), alone.column(name))
