"""Tests of table pages, against a search of every row of random tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.table import Query, highest_positions, lowest_positions


def random_values(kind: str, count: int, random: np.random.Generator) -> np.ndarray:
    if kind == "float":
        return np.where(random.random(count) < 0.1, np.nan, random.normal(size=count)).astype(np.float32)
    if kind == "ties":
        return np.where(random.random(count) < 0.3, np.nan, random.integers(0, 3, count)).astype(float)
    if kind == "bool":
        return random.random(count) < 0.4
    return random.integers(0, 200, count).astype(kind)


@pytest.mark.parametrize("kind", ["float", "ties", "bool", "uint8", "int64", "constant"])
@pytest.mark.parametrize("count", [0, 1, 30, 3000, 70_000])
def test_lowest_and_highest_positions_equal_stable_sort(kind: str, count: int) -> None:
    random = np.random.default_rng(count)
    values = np.zeros(count) if kind == "constant" else random_values(kind, count, random)
    floats = values.astype(float)
    for limit in (0, 1, 7, 500, count, count + 5):
        assert lowest_positions(values, limit).tolist() == np.argsort(floats, kind="stable")[:limit].tolist()
        assert highest_positions(values, limit).tolist() == np.argsort(-floats, kind="stable")[:limit].tolist()


def test_highest_positions_of_extreme_integers_are_exact() -> None:
    ends = np.array([0, -(2**63), 2**63 - 1, -1])
    assert highest_positions(ends, 4).tolist() == [2, 0, 3, 1]
    assert highest_positions(np.array([0, 2**64 - 1, 5], np.uint64), 3).tolist() == [1, 2, 0]


def make_table(count: int, classes: int, seed: int) -> ClassificationTable:
    random = np.random.default_rng(seed)
    target = random.integers(-1, classes, count)
    prediction = np.where(random.random(count) < 0.7, target, random.integers(-1, classes, count))
    columns = {
        "loss": random_values("ties" if seed % 2 else "float", count, random),
        "age": random.integers(0, 90, count),
        "site": np.array(["north", "south", None, "east"], object)[random.integers(0, 4, count)],
        "name": np.array(["ann", "bob"])[random.integers(0, 2, count)],
        "old": random.random(count) < 0.5,
    }
    return ClassificationTable.from_arrays(
        prediction, target, class_names=[f"c{i}" for i in range(classes)], columns=columns
    )


def search_rows(table: ClassificationTable, query: Query) -> tuple[list[int], int]:
    """Return a page of rows, and the number of all rows, by testing every row."""

    def is_selected(row: int) -> bool:
        cell = int(table.target[row]), int(table.prediction[row])
        is_correct = cell[0] == cell[1] >= 0
        values = {name: column[row] for name, column in table.columns.items()}
        return (
            (not query.cells or cell in query.cells)
            and (query.right is None or is_correct == query.right)
            and (query.rows is None or row in query.rows)
            and all(low <= values[name] <= high for name, (low, high) in query.ranges.items())
            and all(str(values[name]) in allowed for name, allowed in query.values.items())
        )

    rows = [row for row in range(len(table)) if is_selected(row)]
    sort = "loss" if query.sort is None else query.sort

    def sort_key(row: int) -> float:
        value = float(table.columns[sort][row])
        return np.inf if np.isnan(value) else -value if query.descending else value

    sorted_rows = sorted(rows, key=sort_key) if sort else rows
    return sorted_rows[query.start : query.start + query.count], len(rows)


QUERIES: list[dict[str, Any]] = [
    {},
    {"right": False},
    {"right": True, "sort": "age", "descending": False},
    {"cells": ((1, 1),)},
    {"cells": ((1, 1),), "descending": False},
    {"cells": ((0, 1), (2, 2), (2, 1))},
    {"ranges": {"age": (20, 40), "loss": (0, 1)}, "sort": "age"},
    {"values": {"site": ["north", "None"], "old": ["True"]}},
    {"values": {"name": ["bob"], "age": ["17", "18", "19"]}, "sort": ""},
    {"rows": [5, 3, 2, 900, 17], "right": False},
    {"values": {"site": ["nowhere"]}},
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [3, 40])
def test_page_equals_search_of_every_row(classes: int, seed: int) -> None:
    table = make_table(1500, classes, seed)
    for options in QUERIES:
        for start in (0, 24, 190, 700, 5000, 0):
            query = Query(start=start, **options)
            rows, total = search_rows(table, query)
            page = table.page(query)
            assert (page.rows.tolist(), page.total) == (rows, total), (options, start)


def test_page_of_alternating_queries_equals_search_of_every_row() -> None:
    table = make_table(1500, 3, 1)
    for options in (*QUERIES, *reversed(QUERIES)):
        query = Query(**options)
        assert table.page(query).rows.tolist() == search_rows(table, query)[0]


def test_page_far_into_large_cell_equals_stable_sort() -> None:
    random = np.random.default_rng(0)
    target = random.integers(0, 2, 600_000)
    loss = random.exponential(size=len(target)).astype(np.float32).round(3)
    table = ClassificationTable.from_arrays(
        np.where(random.random(len(target)) < 0.95, target, 1 - target), target, columns={"loss": loss}
    )
    cell_rows = np.flatnonzero((table.target == 1) & (table.prediction == 1))
    expected = cell_rows[np.argsort(-loss[cell_rows], kind="stable")]
    assert len(cell_rows) > 2**18
    for start in (0, 5000, 250_000, 0):
        page = table.page(Query(cells=((1, 1),), start=start))
        assert page.rows.tolist() == expected[start : start + 24].tolist()
        assert page.total == len(cell_rows)


def test_page_of_cell_without_scores_keeps_row_order() -> None:
    table = ClassificationTable.from_arrays([0, 1, 1, 0, 1], [0, 1, 0, 0, 1])
    assert table.page(Query(cells=((1, 1),))).rows.tolist() == [1, 4]
    assert table.page(Query(cells=((0, 0),), start=1)).rows.tolist() == [3]


def test_matrix_is_equal_before_and_after_cell_rows_are_built() -> None:
    table, indexed_table = make_table(500, 5, 0), make_table(500, 5, 0)
    assert indexed_table.cell_rows.matrix.tolist() == table.matrix.tolist() == indexed_table.matrix.tolist()
    assert table.matrix.sum() == ((table.target >= 0) & (table.prediction >= 0)).sum()
