"""Tests of ParquetTable, against the same table in memory."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import nbdebug
from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.parquet_table import ParquetTable
from nbdebug.predictions.table import Query
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.panels.registry import DISK_TABLE_PANELS

duckdb = pytest.importorskip("duckdb")

QUOTED_COLUMN = 'a "quoted"; DROP TABLE rows --'


def random_table(count: int = 1500, classes: int = 4, seed: int = 0) -> ClassificationTable:
    random = np.random.default_rng(seed)
    target = random.integers(-1, classes, count)
    columns = {
        "loss": np.where(random.random(count) < 0.2, np.nan, random.integers(0, 9, count)).astype(np.float32),
        "age": random.integers(0, 90, count),
        "site": np.array(["north", "it's", None, "east"], object)[random.integers(0, 4, count)],
        "old": random.random(count) < 0.5,
        QUOTED_COLUMN: random.normal(size=count),
    }
    return ClassificationTable.from_arrays(
        np.where(random.random(count) < 0.6, target, random.integers(-1, classes, count)),
        target,
        class_names=["cat", "dog", "o'clock", "<b>"][:classes],
        index=random.permutation(count) + 7,
        columns=columns,
    )


QUERIES = [
    Query(),
    Query(right=False),
    Query(right=True, sort="age", descending=False),
    Query(cells=((1, 1),)),
    Query(cells=((0, 1), (2, 2), (2, 2)), sort=""),
    Query(cells=((0, 1), (2, 2)), right=True),
    Query(ranges={"age": (20, 40), "loss": (None, 5)}, sort=QUOTED_COLUMN),
    Query(ranges={"loss": (3, None), QUOTED_COLUMN: (-1, 1)}, sort=QUOTED_COLUMN, descending=False),
    Query(ranges={"old": (1, None)}),
    Query(values={"site": ["it's", "None"], "old": ["True"]}),
    Query(values={"age": ["17", "18", "x"]}, sort="site"),
    Query(sort="site", descending=False, start=100),
    Query(rows=[5, 3, 2, 900, 17], sort="site"),
    Query(values={"site": ["nowhere"]}),
]


@pytest.mark.parametrize("start", [0, 30, 5000])
def test_parquet_table_pages_equal_table_in_memory(tmp_path: Path, start: int) -> None:
    table = random_table()
    table.to_parquet(tmp_path / "it's.parquet")
    parquet_table = ParquetTable.open(tmp_path / "it's.parquet")
    assert len(parquet_table) == len(table)
    for query in QUERIES:
        shifted_query = Query(**{**vars(query), "start": query.start + start})
        page, expected = parquet_table.page(shifted_query), table.page(shifted_query)
        assert (page.rows.tolist(), page.total) == (expected.rows.tolist(), expected.total), shifted_query
        assert parquet_table.matching_rows(shifted_query).tolist() == table.matching_rows(shifted_query).tolist(), (
            shifted_query
        )
    with pytest.raises(SetupError, match="column is 'no'; expected one of loss, age"):
        parquet_table.page(Query(sort="no"))


def test_parquet_table_metrics_and_rows_equal_table_in_memory(tmp_path: Path) -> None:
    table = random_table()
    table.to_parquet(tmp_path / "table.parquet")
    parquet_table = ParquetTable.open(tmp_path / "table.parquet")
    assert parquet_table.matrix.tolist() == table.matrix.tolist()
    assert parquet_table.grid.rows == table.classes == parquet_table.classes
    assert parquet_table.headline() == table.headline()
    assert {name: column.dtype.kind for name, column in parquet_table.columns.items()} == {
        name: column.dtype.kind for name, column in table.columns.items()
    }
    assert all(len(column) == 0 for column in parquet_table.columns.values())
    assert parquet_table.rows_in_cell(1, 2).tolist() == table.rows_in_cell(1, 2).tolist()
    assert parquet_table.severity_column == "loss"
    rows = [900, 3, 3, 17]
    pd.testing.assert_frame_equal(parquet_table.take(rows).to_frame(), table.take(rows).to_frame())
    pd.testing.assert_frame_equal(parquet_table.to_frame(), table.to_frame())
    assert parquet_table.describe_row(5) == table.describe_row(5)
    assert parquet_table.keys(rows) == table.keys(rows)
    assert parquet_table.rows_with_keys([7, 100, 99999]).tolist() == table.rows_with_keys([7, 100, 99999]).tolist()
    sample = parquet_table.sample(100)
    assert len(sample) == 100
    assert sample.notes[-1] == "these are 100 of 1500 rows, drawn at random"
    pd.testing.assert_frame_equal(sample.to_frame(), table.to_frame().loc[sample.index])


def test_parquet_table_load_restores_top_classes_and_notes(tmp_path: Path) -> None:
    scores = torch.randn(50, 7)
    scores[3] = torch.nan
    table = ClassificationTable.from_arrays(scores, torch.arange(50) % 7)
    table.to_parquet(tmp_path / "table.parquet")
    loaded_table = ParquetTable.open(tmp_path / "table.parquet").load()
    np.testing.assert_array_equal(loaded_table.top, table.top)
    np.testing.assert_array_equal(loaded_table.chances, table.chances)
    assert loaded_table.notes == table.notes
    assert loaded_table.index is None
    pd.testing.assert_frame_equal(loaded_table.to_frame(), table.to_frame())


def test_errors_of_parquet_table_answers_page_requests(tmp_path: Path) -> None:
    table = random_table()
    table.to_parquet(tmp_path / "table.parquet")
    parquet_errors, memory_errors = Errors(ParquetTable.open(tmp_path / "table.parquet"), ""), Errors(table, "")
    for request in (
        {"kind": "rows", "query": {"cells": [[1, 2]], "count": 5}},
        {"kind": "rows", "query": {"right": False, "ranges": {"age": [10, 20]}, "sort": "age"}},
        {"kind": "sample", "row": 17},
        {"kind": "mark", "rows": [5, 900], "tag": "wrong label", "note": "look"},
        {"kind": "rows", "query": {"tag": "wrong label"}},
        {"kind": "select", "rows": [3, 4]},
    ):
        assert parquet_errors.answer(request) == memory_errors.answer(request)
    assert parquet_errors.selected == memory_errors.selected == [int(index) for index in table.index[[3, 4]]]
    pd.testing.assert_frame_equal(parquet_errors.tagged(), memory_errors.tagged())
    pd.testing.assert_frame_equal(parquet_errors.rows(right=False, count=5), memory_errors.rows(right=False, count=5))


@pytest.mark.parametrize("label_kind", ["numbers", "real", "texts", "bools"])
def test_parquet_table_of_foreign_file_uses_named_columns(tmp_path: Path, label_kind: str) -> None:
    labels = {
        "numbers": ([0, 2, 1, -100, 2], [0, 1, 1, 0, 2]),
        "real": ([0.0, 2.0, 1.0, np.nan, 2.0], [0, 1, 1, 0, 2]),
        "texts": (["a", "c", "b", None, "c"], ["a", "b", "b", "a", "c"]),
        "bools": ([False, True, True, None, True], [False, False, True, False, True]),
    }[label_kind]
    frame = pd.DataFrame({"my label": labels[0], "guess": labels[1], "size": [3, 1, 4, 1, 5]})
    path = str(tmp_path / "mine.parquet")
    duckdb.from_df(frame).write_parquet(path)
    parquet_table = ParquetTable.open(path, "my label", "guess")
    classes = {"texts": ("a", "b", "c"), "bools": ("0", "1")}.get(label_kind, ("0", "1", "2"))
    assert parquet_table.classes == classes
    assert parquet_table.matrix.sum() == 4
    assert parquet_table.page(Query(right=False, sort="size")).rows.tolist() == [1, 3]
    errors = nbdebug.errors(predictions=path, target="my label", prediction="guess")
    assert isinstance(errors.table, ClassificationTable)
    assert errors.table.matrix.tolist() == parquet_table.matrix.tolist()
    assert errors.headline.startswith("75.0% of 4 samples correct")
    assert errors.table.columns["size"].tolist() == [3, 1, 4, 1, 5]
    renamed_errors = nbdebug.errors(predictions=path, targets="my label", prediction="guess", class_names=[*classes])
    assert renamed_errors.table.classes == classes
    with pytest.raises(SetupError, match="class_names"):
        ParquetTable.open(path, "my label", "guess", ["a"])
    with pytest.raises(SetupError, match="column is 'target'; expected one of my label, guess, size"):
        nbdebug.errors(predictions=path)


def test_parquet_table_of_folder_joins_its_files(tmp_path: Path) -> None:
    table = random_table()
    for number, rows in enumerate((range(0, 700), range(700, 1500))):
        table.take(rows).to_parquet(tmp_path / f"{number}.parquet")
    parquet_table = ParquetTable.open(tmp_path)
    pd.testing.assert_frame_equal(parquet_table.to_frame(), table.to_frame())
    assert parquet_table.page(Query(right=False)).rows.tolist() == table.page(Query(right=False)).rows.tolist()


def test_parquet_table_with_invalid_path_or_columns_raises(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="expected a Parquet file or a folder of them"):
        nbdebug.errors(predictions=str(tmp_path / "none.parquet"))
    with pytest.raises(SetupError, match="expected a name that the table does not use itself"):
        ClassificationTable.from_arrays([0, 1], [1, 1], columns={"target": [1, 2]}).to_parquet(tmp_path / "x.parquet")
    ClassificationTable.from_arrays([0, 1], [1, 1]).to_parquet(tmp_path / "a.parquet")
    ClassificationTable.from_arrays([0, 1], [1, 1], columns={"size": [1, 2]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(SetupError, match=r"b.parquet has the columns .* as a.parquet has"):
        nbdebug.errors(predictions=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_parquet_table_without_duckdb_names_package_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SetupError, match=r"duckdb is not installed; .* pip install duckdb"):
        ClassificationTable.from_arrays([0, 1], [1, 1]).to_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.parquet").touch()
    with pytest.raises(SetupError, match="duckdb is not installed"):
        nbdebug.errors(predictions=tmp_path / "x.parquet")


def test_errors_view_of_parquet_table_equals_view_of_table_in_memory(tmp_path: Path) -> None:
    table = random_table()
    table.to_parquet(tmp_path / "table.parquet")
    parquet_table = ParquetTable.open(tmp_path / "table.parquet")
    state = Errors(parquet_table, parquet_table.headline()).view().state()
    expected = Errors(table, table.headline()).view().state()
    for name in ("headline", "samples", "grid", "first", "sort"):
        assert state[name] == expected[name], name
    assert {*state["columns"]} == {*expected["columns"]}
    names = [panel["name"] for panel in state["panels"]]
    assert names[0] == "classes"
    assert {*names} <= {*DISK_TABLE_PANELS}
    assert all(panel["state"] is None for panel in state["panels"])
    errors = Errors(parquet_table, "")
    assert errors.per_class().equals(Errors(table, "").per_class())
    assert errors.pairs().equals(Errors(table, "").pairs())
    for name in names:
        assert errors.answer({"kind": "panel", "name": name})["state"]
    assert errors.slices().tried > 0
    sample_errors = nbdebug.errors(predictions=parquet_table.sample(500))
    assert sample_errors.view().state()["panels"]
    assert "these are 500 of 1500 rows, drawn at random" in str(sample_errors)
