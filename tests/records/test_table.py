"""Tests of StepTable: thinning, new columns, and rows appended in chunks."""

from __future__ import annotations

import sys
from threading import Event, Thread

import numpy as np
import pytest

from nbdebug.records.table import StepTable


def test_step_table_over_max_rows_is_thinned_evenly() -> None:
    table = StepTable(["loss"], max_rows=100)
    for step in range(10_000):
        table.append(step, {"loss": float(step)})
    assert 50 <= table.rows <= 100
    assert table.steps[0] == 0
    assert table.steps[-1] > 9_000
    assert len(set(np.diff(table.steps))) == 1
    assert table.values[:, 0].tolist() == table.steps.tolist()


def test_step_table_with_alternating_kinds_of_rows_thins_each_kind_evenly() -> None:
    table = StepTable(max_rows=100)
    for step in range(5_000):
        table.append(step, {"loss": float(step)}, "loss")
        table.append(step, {"score": float(step)}, "score")
    for name in ("loss", "score"):
        steps, values = table.column(name)
        assert 25 <= len(steps) <= 51
        assert len(set(np.diff(steps))) == 1
        assert values.tolist() == steps.tolist()


def test_step_table_widened_by_many_columns_copies_its_rows_once(monkeypatch: pytest.MonkeyPatch) -> None:
    table, names = StepTable(["loss"]), [f"weight.norm|{i}" for i in range(1000)]
    table.append(0, {"loss": 1.0})
    copies: list[int] = []
    concatenate = np.concatenate
    monkeypatch.setattr(np, "concatenate", lambda *args, **options: copies.append(1) or concatenate(*args, **options))
    table.widen([*names, "loss"])
    table.widen(names)
    assert copies == [1]
    assert list(table.columns) == ["loss", *names]
    assert table.column("loss")[1].tolist() == [1.0]
    assert table.column(names[-1])[1].size == 0


@pytest.mark.parametrize("chunk_size", [1, 3, 7, 40])
def test_step_table_extended_in_chunks_equals_table_extended_by_rows(chunk_size: int) -> None:
    rows = [(step, {"loss": float(step)} | ({"norm": 2.0 * step} if step % 3 else {})) for step in range(1, 200)]
    expected, table = StepTable(max_rows=32), StepTable(max_rows=32)
    for step, row in rows:
        expected.append(step, row)
    for start in range(0, len(rows), chunk_size):
        table.extend(rows[start : start + chunk_size])
    assert table.stride == expected.stride > 1
    assert table.steps.tolist() == expected.steps.tolist()
    assert table.total_rows == expected.total_rows
    for name in ("loss", "norm"):
        assert np.array_equal(table.column(name), expected.column(name))


def test_step_table_column_is_read_whole_while_another_thread_appends() -> None:
    table, is_ended = StepTable(["loss"], max_rows=10**6), Event()

    def append_rows() -> None:
        step = 0
        while not is_ended.is_set():
            table.append(step, {"loss": float(step)})
            step += 1

    switch_interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread = Thread(target=append_rows)
    thread.start()
    try:
        for _ in range(500):
            steps, values = table.column("loss")
            assert steps.tolist() == values.tolist()
    finally:
        is_ended.set()
        thread.join()
        sys.setswitchinterval(switch_interval)
