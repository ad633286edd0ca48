"""Pages of random tables are those that a look at every row gives, also deep and repeated ones."""

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


@pytest.mark.parametrize("kind", ["float", "ties", "bool", "uint8", "int64", "same"])
@pytest.mark.parametrize("count", [0, 1, 30, 3000, 70_000])
def test_extremes_are_the_ends_of_a_stable_sort(kind: str, count: int) -> None:
    random = np.random.default_rng(count)
    values = np.zeros(count) if kind == "same" else random_values(kind, count, random)
    real = values.astype(float)
    for most in (0, 1, 7, 500, count, count + 5):
        assert lowest_positions(values, most).tolist() == np.argsort(real, kind="stable")[:most].tolist()
        assert highest_positions(values, most).tolist() == np.argsort(-real, kind="stable")[:most].tolist()


def test_extremes_know_the_ends_of_whole_numbers() -> None:
    ends = np.array([0, -(2**63), 2**63 - 1, -1])
    assert highest_positions(ends, 4).tolist() == [2, 0, 3, 1]
    assert highest_positions(np.array([0, 2**64 - 1, 5], np.uint64), 3).tolist() == [1, 2, 0]


def table(count: int, classes: int, seed: int) -> ClassificationTable:
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


def brute(one: ClassificationTable, query: Query) -> tuple[list[int], int]:
    """The rows of a query by a look at every row."""

    def asked(row: int) -> bool:
        cell = int(one.target[row]), int(one.prediction[row])
        right = cell[0] == cell[1] >= 0
        values = {name: column[row] for name, column in one.columns.items()}
        return (
            (not query.cells or cell in query.cells)
            and (query.right is None or right == query.right)
            and (query.rows is None or row in query.rows)
            and all(low <= values[name] <= high for name, (low, high) in query.ranges.items())
            and all(str(values[name]) in wanted for name, wanted in query.values.items())
        )

    rows = [row for row in range(len(one)) if asked(row)]
    sort = "loss" if query.sort is None else query.sort

    def place(row: int) -> float:
        value = float(one.columns[sort][row])
        return np.inf if np.isnan(value) else -value if query.descending else value

    ordered = sorted(rows, key=place) if sort else rows
    return ordered[query.start : query.start + query.count], len(rows)


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
def test_pages_are_those_of_a_look_at_every_row(classes: int, seed: int) -> None:
    one = table(1500, classes, seed)
    for asked in QUERIES:
        for start in (0, 24, 190, 700, 5000, 0):
            query = Query(start=start, **asked)
            rows, total = brute(one, query)
            page = one.page(query)
            assert (page.rows.tolist(), page.total) == (rows, total), (asked, start)


def test_pages_of_queries_that_alternate_do_not_mix() -> None:
    one = table(1500, 3, 1)
    for asked in (*QUERIES, *reversed(QUERIES)):
        query = Query(**asked)
        assert one.page(query).rows.tolist() == brute(one, query)[0]


def test_a_page_deep_in_a_large_cell_is_right() -> None:
    random = np.random.default_rng(0)
    target = random.integers(0, 2, 600_000)
    loss = random.exponential(size=len(target)).astype(np.float32).round(3)
    one = ClassificationTable.from_arrays(
        np.where(random.random(len(target)) < 0.95, target, 1 - target), target, columns={"loss": loss}
    )
    inside = np.flatnonzero((one.target == 1) & (one.prediction == 1))
    wanted = inside[np.argsort(-loss[inside], kind="stable")]
    assert len(inside) > 2**18
    for start in (0, 5000, 250_000, 0):
        page = one.page(Query(cells=((1, 1),), start=start))
        assert page.rows.tolist() == wanted[start : start + 24].tolist()
        assert page.total == len(inside)


def test_rows_without_scores_stay_in_their_order() -> None:
    one = ClassificationTable.from_arrays([0, 1, 1, 0, 1], [0, 1, 0, 0, 1])
    assert one.page(Query(cells=((1, 1),))).rows.tolist() == [1, 4]
    assert one.page(Query(cells=((0, 0),), start=1)).rows.tolist() == [3]


def test_the_matrix_is_the_same_before_and_after_the_cells_are_known() -> None:
    first, second = table(500, 5, 0), table(500, 5, 0)
    assert second.cell_rows.matrix.tolist() == first.matrix.tolist() == second.matrix.tolist()
    assert first.matrix.sum() == ((first.target >= 0) & (first.prediction >= 0)).sum()
