"""A table in files answers as the same table in memory, and says clearly what does not fit."""

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

ODD = 'a "quoted"; DROP TABLE rows --'


def random_table(count: int = 1500, classes: int = 4, seed: int = 0) -> ClassificationTable:
    random = np.random.default_rng(seed)
    target = random.integers(-1, classes, count)
    columns = {
        "loss": np.where(random.random(count) < 0.2, np.nan, random.integers(0, 9, count)).astype(np.float32),
        "age": random.integers(0, 90, count),
        "site": np.array(["north", "it's", None, "east"], object)[random.integers(0, 4, count)],
        "old": random.random(count) < 0.5,
        ODD: random.normal(size=count),
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
    Query(ranges={"age": (20, 40), "loss": (None, 5)}, sort=ODD),
    Query(ranges={"loss": (3, None), ODD: (-1, 1)}, sort=ODD, descending=False),
    Query(ranges={"old": (1, None)}),
    Query(values={"site": ["it's", "None"], "old": ["True"]}),
    Query(values={"age": ["17", "18", "x"]}, sort="site"),
    Query(sort="site", descending=False, start=100),
    Query(rows=[5, 3, 2, 900, 17], sort="site"),
    Query(values={"site": ["nowhere"]}),
]


@pytest.mark.parametrize("start", [0, 30, 5000])
def test_pages_are_those_of_the_table_in_memory(tmp_path: Path, start: int) -> None:
    table = random_table()
    table.to_parquet(tmp_path / "it's.parquet")
    stored = ParquetTable.open(tmp_path / "it's.parquet")
    assert len(stored) == len(table)
    for query in QUERIES:
        asked = Query(**{**vars(query), "start": query.start + start})
        page, wanted = stored.page(asked), table.page(asked)
        assert (page.rows.tolist(), page.total) == (wanted.rows.tolist(), wanted.total), asked
        assert stored.matching_rows(asked).tolist() == table.matching_rows(asked).tolist(), asked
    with pytest.raises(SetupError, match="column is 'no'; expected one of loss, age"):
        stored.page(Query(sort="no"))


def test_all_else_is_that_of_the_table_in_memory(tmp_path: Path) -> None:
    table = random_table()
    table.to_parquet(tmp_path / "table.parquet")
    stored = ParquetTable.open(tmp_path / "table.parquet")
    assert stored.matrix.tolist() == table.matrix.tolist()
    assert stored.grid.rows == table.classes == stored.classes
    assert stored.headline() == table.headline()
    assert {name: one.dtype.kind for name, one in stored.columns.items()} == {
        name: one.dtype.kind for name, one in table.columns.items()
    }
    assert all(len(one) == 0 for one in stored.columns.values())
    assert stored.rows_in_cell(1, 2).tolist() == table.rows_in_cell(1, 2).tolist()
    assert stored.severity_column == "loss"
    rows = [900, 3, 3, 17]
    pd.testing.assert_frame_equal(stored.take(rows).to_frame(), table.take(rows).to_frame())
    pd.testing.assert_frame_equal(stored.to_frame(), table.to_frame())
    assert stored.describe_row(5) == table.describe_row(5)
    assert stored.keys(rows) == table.keys(rows)
    assert stored.rows_with_keys([7, 100, 99999]).tolist() == table.rows_with_keys([7, 100, 99999]).tolist()
    sample = stored.sample(100)
    assert len(sample) == 100
    assert sample.notes[-1] == "these are 100 of 1500 rows, drawn at random"
    pd.testing.assert_frame_equal(sample.to_frame(), table.to_frame().loc[sample.index])


def test_the_likeliest_classes_and_the_notes_come_back(tmp_path: Path) -> None:
    scores = torch.randn(50, 7)
    scores[3] = torch.nan
    table = ClassificationTable.from_arrays(scores, torch.arange(50) % 7)
    table.to_parquet(tmp_path / "table.parquet")
    found = ParquetTable.open(tmp_path / "table.parquet").load()
    np.testing.assert_array_equal(found.top, table.top)
    np.testing.assert_array_equal(found.chances, table.chances)
    assert found.notes == table.notes
    assert found.index is None
    pd.testing.assert_frame_equal(found.to_frame(), table.to_frame())


def test_the_browser_answers_from_files(tmp_path: Path) -> None:
    table = random_table()
    table.to_parquet(tmp_path / "table.parquet")
    stored, memory = Errors(ParquetTable.open(tmp_path / "table.parquet"), ""), Errors(table, "")
    for asked in (
        {"kind": "rows", "query": {"cells": [[1, 2]], "count": 5}},
        {"kind": "rows", "query": {"right": False, "ranges": {"age": [10, 20]}, "sort": "age"}},
        {"kind": "sample", "row": 17},
        {"kind": "mark", "rows": [5, 900], "tag": "wrong label", "note": "look"},
        {"kind": "rows", "query": {"tag": "wrong label"}},
        {"kind": "select", "rows": [3, 4]},
    ):
        assert stored.answer(asked) == memory.answer(asked)
    assert stored.selected == memory.selected == [int(one) for one in table.index[[3, 4]]]
    pd.testing.assert_frame_equal(stored.tagged(), memory.tagged())
    pd.testing.assert_frame_equal(stored.rows(right=False, count=5), memory.rows(right=False, count=5))


@pytest.mark.parametrize("kind", ["numbers", "real", "texts", "bools"])
def test_files_of_others_name_their_columns(tmp_path: Path, kind: str) -> None:
    labels = {
        "numbers": ([0, 2, 1, -100, 2], [0, 1, 1, 0, 2]),
        "real": ([0.0, 2.0, 1.0, np.nan, 2.0], [0, 1, 1, 0, 2]),
        "texts": (["a", "c", "b", None, "c"], ["a", "b", "b", "a", "c"]),
        "bools": ([False, True, True, None, True], [False, False, True, False, True]),
    }[kind]
    frame = pd.DataFrame({"my label": labels[0], "guess": labels[1], "size": [3, 1, 4, 1, 5]})
    path = str(tmp_path / "mine.parquet")
    duckdb.from_df(frame).write_parquet(path)
    stored = ParquetTable.open(path, "my label", "guess")
    classes = {"texts": ("a", "b", "c"), "bools": ("0", "1")}.get(kind, ("0", "1", "2"))
    assert stored.classes == classes
    assert stored.matrix.sum() == 4
    assert stored.page(Query(right=False, sort="size")).rows.tolist() == [1, 3]
    found = nbdebug.errors(predictions=path, target="my label", prediction="guess")
    assert isinstance(found.table, ClassificationTable)
    assert found.table.matrix.tolist() == stored.matrix.tolist()
    assert found.headline.startswith("75.0% of 4 samples correct")
    assert found.table.columns["size"].tolist() == [3, 1, 4, 1, 5]
    renamed = nbdebug.errors(predictions=path, targets="my label", prediction="guess", class_names=[*classes])
    assert renamed.table.classes == classes
    with pytest.raises(SetupError, match="class_names"):
        ParquetTable.open(path, "my label", "guess", ["a"])
    with pytest.raises(SetupError, match="column is 'target'; expected one of my label, guess, size"):
        nbdebug.errors(predictions=path)


def test_a_folder_is_one_table(tmp_path: Path) -> None:
    table = random_table()
    for number, rows in enumerate((range(0, 700), range(700, 1500))):
        table.take(rows).to_parquet(tmp_path / f"{number}.parquet")
    stored = ParquetTable.open(tmp_path)
    pd.testing.assert_frame_equal(stored.to_frame(), table.to_frame())
    assert stored.page(Query(right=False)).rows.tolist() == table.page(Query(right=False)).rows.tolist()


def test_what_does_not_fit_is_said(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="expected a Parquet file or a folder of them"):
        nbdebug.errors(predictions=str(tmp_path / "none.parquet"))
    with pytest.raises(SetupError, match="expected a name that the table does not use itself"):
        ClassificationTable.from_arrays([0, 1], [1, 1], columns={"target": [1, 2]}).to_parquet(tmp_path / "x.parquet")
    ClassificationTable.from_arrays([0, 1], [1, 1]).to_parquet(tmp_path / "a.parquet")
    ClassificationTable.from_arrays([0, 1], [1, 1], columns={"size": [1, 2]}).to_parquet(tmp_path / "b.parquet")
    with pytest.raises(SetupError, match=r"b.parquet has the columns .* as a.parquet has"):
        nbdebug.errors(predictions=tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.parquet", "b.parquet"]


def test_without_duckdb_it_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "duckdb", None)
    with pytest.raises(SetupError, match=r"duckdb is not installed; .* pip install duckdb"):
        ClassificationTable.from_arrays([0, 1], [1, 1]).to_parquet(tmp_path / "x.parquet")
    (tmp_path / "x.parquet").touch()
    with pytest.raises(SetupError, match="duckdb is not installed"):
        nbdebug.errors(predictions=tmp_path / "x.parquet")


def test_the_page_opens_on_files(tmp_path: Path) -> None:
    table = random_table()
    table.to_parquet(tmp_path / "table.parquet")
    stored = ParquetTable.open(tmp_path / "table.parquet")
    state = Errors(stored, stored.headline()).view().state()
    wanted = Errors(table, table.headline()).view().state()
    for name in ("headline", "samples", "grid", "first", "sort"):
        assert state[name] == wanted[name], name
    assert {*state["columns"]} == {*wanted["columns"]}
    names = [one["name"] for one in state["panels"]]
    assert names[0] == "classes"
    assert {*names} <= {*DISK_TABLE_PANELS}
    assert all(one["state"] is None for one in state["panels"])
    errors = Errors(stored, "")
    assert errors.per_class().equals(Errors(table, "").per_class())
    assert errors.pairs().equals(Errors(table, "").pairs())
    for name in names:
        assert errors.answer({"kind": "panel", "name": name})["state"]
    assert errors.slices().tried > 0
    part = nbdebug.errors(predictions=stored.sample(500))
    assert part.view().state()["panels"]
    assert "these are 500 of 1500 rows, drawn at random" in str(part)
