"""Speed of the error browser, from the confusion matrix to the samples of a cell.

    python benchmarks/errors.py [--only matrix,cells,queries,slices,inference,page,parquet]
                                [--rows 1e7] [--rounds 40]

Functions that are compared alternate in one process on one thread. Times are CPU times of the process, unless a column
says wall. A ratio is relative to the first line of its table: the median of the rounds, with minimum and maximum.

matrix     The confusion matrix, compared with numpy.bincount of the same columns, scikit-learn and pandas.
cells      The index of a table of labels and losses, the first click on each cell, and the 50 worst rows of a cell;
           pandas filters and sorts instead.
queries    Pages of 24 rows with filters and sorts: the first page, then the next one.
slices     The slice search in 1e5 rows of twenty columns, compared with the mean of each cell of each pair by pandas.
inference  The pass that fills the prediction table, and the whole tool, compared with bare inference.
page       The size of the page and of the static page, and 50 cards with images.
parquet    A table in a Parquet file: opening it, clicks, and the peak memory of a fresh process.

--rows limits the tables of all parts except slices and inference; matrix and cells need at least 1e6 rows. With 1e8
rows only the table in the Parquet file grows; it takes 1.7 GB on disk during the run. --rounds limits the rounds of
inference.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import sklearn.metrics
import torch
from errors_data import random_predictions
from errors_inference import measure_inference
from errors_page import measure_page
from errors_parquet import measure_parquet
from timing import cpu_seconds, describe_ratios, microseconds_per_call, print_lines

from nbdebug.metrics.classification import confusion_matrix
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.classification import ConfusionCells
from nbdebug.predictions.table import Query
from nbdebug.slices.search import search_slices

SIZES = ((10**6, 10), (10**6, 1000), (10**7, 10))
MAX_ROWS = 10**7
QUERIES: dict[str, dict[str, Any]] = {
    "all, by loss": {},
    "wrong": {"right": False},
    "first sort by a text": {"right": False, "sort": "site"},
    "a range": {"ranges": {"age": (20, 40)}},
    "a text": {"values": {"site": ["north"]}},
    "two texts": {"values": {"site": ["south", "west"]}},
    "a row of cells": {"cells": tuple((1, j) for j in range(10))},
    "cells, range, text": {"cells": ((1, 1), (2, 3)), "ranges": {"age": (20, 60)}, "values": {"site": ["east"]}},
    "a cell, row 5,000": {"cells": ((1, 1),), "start": 5000},
    "all, row 5,000": {"sort": "age", "start": 5000},
}


def for_each_size(print_table: Callable[[int, int], None], title: str, max_rows: int) -> None:
    """Print a table for each number of rows and classes."""
    for rows, classes in SIZES:
        if rows <= max_rows:
            print(f"\n{title}, {rows:.0e} rows × {classes} classes", flush=True)
            print_table(rows, classes)


def bincount_matrix(targets: np.ndarray, predictions: np.ndarray, classes: int) -> np.ndarray:
    """Return the counts of all cells with a single call of numpy.bincount."""
    return np.bincount(targets * classes + predictions, minlength=classes * classes)


def measure_matrix(rows: int, classes: int) -> None:
    """Compare the confusion matrix with other implementations."""
    targets, predictions, _ = random_predictions(rows, classes)
    baseline = {"numpy.bincount": partial(bincount_matrix, targets, predictions, classes)}
    print_lines(describe_ratios({**baseline, "nbdebug": partial(confusion_matrix, targets, predictions, classes)}, 15))
    peers = {
        "scikit-learn": lambda: sklearn.metrics.confusion_matrix(targets, predictions, labels=range(classes)),
        "pandas.crosstab": lambda: pd.crosstab(targets, predictions),
    }
    print_lines(describe_ratios({**baseline, **peers}, 3))


def measure_cells(rows: int, classes: int) -> None:
    """Measure building the index of cells, and clicks on cells."""
    targets, predictions, loss = random_predictions(rows, classes)
    tasks = {
        "numpy.bincount": partial(bincount_matrix, targets, predictions, classes),
        "index": partial(ConfusionCells, targets, predictions, classes, loss),
    }
    print_lines(describe_ratios(tasks, 5))
    index = ConfusionCells(targets, predictions, classes, loss)
    clicked = range(min(classes, 30))
    clicks = [cpu_seconds(partial(index.rows, i, j)) for i in clicked for j in clicked]
    again = microseconds_per_call(lambda: index.rows(1, 1))
    frame = pd.DataFrame({"target": targets, "prediction": predictions, "loss": loss})
    pandas = cpu_seconds(lambda: frame[(frame.target == 1) & (frame.prediction == 1)].nlargest(50, "loss"))
    row_bytes, cell_bytes = index.order.nbytes / rows, index.starts.nbytes / classes**2
    print(f"  first click      {max(clicks) * 1e3:9.2f} ms, slowest of {len(clicks)} cells")
    print(f"  50 worst, again  {again:9.2f} µs; pandas {pandas * 1e3:.1f} ms")
    print(f"  index            {row_bytes:.1f} bytes per row and {cell_bytes:.1f} per cell", flush=True)


def measure_queries(rows: int) -> None:
    """Measure pages with filters and sorts."""
    targets, predictions, loss = random_predictions(rows, 10)
    rng = np.random.default_rng(1)
    columns = {
        "loss": loss,
        "age": rng.integers(0, 100, len(targets)),
        "site": np.array(["north", "south", "east", "west"], object)[rng.integers(0, 4, len(targets))],
    }
    table = ClassificationTable.from_arrays(predictions, targets, columns=columns)
    print(f"\nqueries, {rows:.0e} rows\n  index {cpu_seconds(lambda: table.grid) * 1e3:.0f} ms")
    print(f"  {'':24} {'first':>12} {'next page':>9}")
    for name, fields in QUERIES.items():
        query = Query(**fields)
        first = cpu_seconds(partial(table.page, query))
        following = cpu_seconds(partial(table.page, replace(query, start=query.start + 24)))
        print(f"  {name:24} {first * 1e3:9.1f} ms {following * 1e3:9.2f}", flush=True)


def measure_slices() -> None:
    """Compare the slice search with the group means of all pairs of columns by pandas."""
    rows, rng = 10**5, np.random.default_rng(2)
    columns: dict[str, Any] = {f"number {i}": rng.normal(size=rows) for i in range(15)}
    columns |= {f"text {i}": rng.choice(list("abcde"), rows) for i in range(5)}
    targets = rng.integers(0, 2, rows)
    predictions = np.where(rng.random(rows) < 0.1, 1 - targets, targets)
    table = ClassificationTable.from_arrays(predictions, targets, columns=columns)
    codes = {name: column_codes(values) for name, values in columns.items()}
    wrong = pd.Series(table.target != table.prediction)

    def group_means() -> None:
        for first, second in combinations(codes, 2):
            wrong.groupby([codes[first], codes[second]]).mean()

    print("\nslices, 1e5 rows × 20 columns")
    print_lines(describe_ratios({"pandas": group_means, "nbdebug": lambda: search_slices(table)}, 3))


def column_codes(values: np.ndarray) -> Any:
    """Return the quintile of each number, or a code of each text."""
    return pd.qcut(values, 5, labels=False) if values.dtype.kind == "f" else pd.factorize(values)[0]


PARTS: dict[str, Callable[[int, int], None]] = {
    "matrix": lambda rows, _: for_each_size(measure_matrix, "matrix", rows),
    "cells": lambda rows, _: for_each_size(measure_cells, "cells", rows),
    "queries": lambda rows, _: measure_queries(min(rows, MAX_ROWS)),
    "slices": lambda *_: measure_slices(),
    "inference": lambda _, rounds: measure_inference(rounds),
    "page": lambda rows, _: measure_page(rows),
    "parquet": lambda rows, _: measure_parquet(rows),
}


def main() -> None:
    """Print the tables of the selected parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(PARTS), help="comma-separated parts")
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=MAX_ROWS, help="maximum number of rows")
    parser.add_argument("--rounds", type=int, default=40, help="maximum number of rounds of inference")
    options = parser.parse_args()
    torch.set_num_threads(1)
    for name in options.only.split(","):
        PARTS[name](options.rows, options.rounds)


if __name__ == "__main__":
    main()
