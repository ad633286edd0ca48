"""The grid of the overview as a page holds it: cells that are not zero, orders of the classes, confused pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.metrics.intervals import wilson
from nbdebug.metrics.pairs import by_similarity, confused_pairs

if TYPE_CHECKING:
    from nbdebug.metrics.confusion import Counts
    from nbdebug.predictions.grid import Grid

MOST_CELLS = 50_000  # in a page: 350 kB at most
MOST_PAIRS = 30
QUICK = 1_000  # classes: up to here an order by similarity takes less than 0.1 s
NAMES = 150_000  # letters of all class names in a page


def overview(grid: Grid) -> dict[str, Any]:
    """The grid, ready for JSON.

    ``cells`` are pairs of numbers: how far a cell lies behind the one before, row by row, and its count. ``left_out``
    counts cells that are not there, the smallest. ``pairs`` are [row, column, count, share, low, high, back].
    """
    cells, left_out = packed(grid.counts)
    return {
        "rows": shortened(grid.rows),
        "columns": shortened(grid.columns) if grid.columns != grid.rows else None,
        "row_title": grid.row_title,
        "column_title": grid.column_title,
        "unit": grid.unit,
        "diagonal": grid.diagonal,
        "good": list(grid.good),
        "cells": cells,
        "left_out": left_out,
        "row_sums": grid.counts.sum(1).tolist(),
        "column_sums": grid.counts.sum(0).tolist(),
        "orders": orders(grid),
        "pairs": pairs(grid),
    }


def packed(counts: Counts) -> tuple[list[int], int]:
    """Cells that are not zero as steps and counts, and how many were left out."""
    flat = counts.ravel()
    where = np.flatnonzero(flat)
    left_out = max(0, len(where) - MOST_CELLS)
    if left_out:
        where = np.sort(where[np.argsort(-flat[where], kind="stable")[:MOST_CELLS]])
    steps = np.diff(where, prepend=0)
    return [int(one) for one in np.stack([steps, flat[where]], 1).ravel()], left_out


def wrong(grid: Grid) -> Counts:
    """The counts without those that are right."""
    counts = grid.counts.copy()
    if grid.diagonal:
        np.fill_diagonal(counts, 0)
    counts[:, list(grid.good)] = 0
    return counts


def orders(grid: Grid) -> dict[str, list[int]]:
    """Orders of the rows, and of the columns where these are the same classes: by errors, by similarity."""
    errors = wrong(grid)
    weight = errors.sum(1) + (errors.sum(0) if grid.diagonal else 0)
    found = {"errors": np.argsort(-weight, kind="stable").tolist()}
    if grid.diagonal and 2 < len(grid.rows) <= QUICK:
        found["similarity"] = by_similarity(grid.counts)
    return found


def pairs(grid: Grid) -> list[list[Any]]:
    """The wrong cells with the most in them, each with its share of the row and the count of the way back."""
    if grid.diagonal:
        found = confused_pairs(grid.counts, MOST_PAIRS)
        return [
            [one.target, one.prediction, one.count, *_rounded(one.share, one.low, one.high), one.back] for one in found
        ]
    counts, rows = wrong(grid), grid.counts.sum(1)
    where = np.flatnonzero(counts)
    order = where[np.argsort(-counts.ravel()[where], kind="stable")[:MOST_PAIRS]]
    cells = [divmod(int(one), counts.shape[1]) for one in order]
    numbers = [int(counts[cell]) for cell in cells]
    lows, highs = wilson(numbers, [int(rows[i]) for i, _ in cells])
    return [
        [i, j, number, *_rounded(number / rows[i], float(low), float(high)), None]
        for (i, j), number, low, high in zip(cells, numbers, lows, highs, strict=True)
    ]


def shortened(names: tuple[str, ...]) -> list[str]:
    """Names, cut where they are too long for all of them to stand in a page."""
    most = max(12, NAMES // max(1, len(names)))
    return [one if len(one) <= most else one[: most - 1] + "…" for one in names]


def _rounded(*shares: Any) -> list[float]:
    return [round(float(one), 4) for one in shares]
