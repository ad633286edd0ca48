"""How fast the error browser is: from the confusion matrix to the samples behind it.

    python benchmarks/errors.py [--only matrix,cells,queries,slices,pass,page,stored] [--large]

Functions that are compared take turns in one process with one thread; times are CPU time of the process, which others
on the machine disturb least, unless a column says wall. A ratio is to the first line of its table: the median of the
rounds, with the lowest and the highest.

matrix   The confusion matrix against one numpy bincount of the same columns, scikit-learn and pandas.
cells    From a table of labels and losses to a browsable one: building the index, the first click on each cell, then
         the 50 worst of a cell; pandas filters and sorts instead.
queries  Pages of 24 rows with filters and sorts over 1e7 rows: the first page, then the next one.
slices   The search for slices in 1e5 rows of twenty columns, against the mean of each cell of each pair by pandas.
pass     The pass that fills the table, and the whole tool, against bare inference over the same loader.
page     What the page holds and what the static page weighs, from 1e3 to 1e7 rows; 50 cards with images.
stored   A table in a Parquet file: to open it, a click, and the peak of memory of a fresh process. 1e7 rows, with
         --large 1e8, which takes 1.7 GB of disk meanwhile.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import torch
from errors_page import page
from errors_pass import inference
from errors_stored import stored
from errors_timing import Work, cpu, micro, ratios

from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.classification import ConfusionCells
from nbdebug.predictions.table import Query
from nbdebug.slices.search import search_slices

SIZES = ((10**6, 10), (10**6, 1000), (10**7, 10))


def labels(rows: int, classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Targets, predictions of which nine in ten are right, and losses."""
    random = np.random.default_rng(0)
    target = random.integers(0, classes, rows).astype(np.int32)
    prediction = np.where(random.random(rows) < 0.9, target, random.integers(0, classes, rows)).astype(np.int32)
    return target, prediction, random.exponential(size=rows).astype(np.float32)


def each_size(table: Callable[[int, int], None]) -> Callable[[], None]:
    """A table for each number of rows and classes."""

    def tables() -> None:
        for rows, classes in SIZES:
            print(f"\n{table.__name__}, {rows:.0e} rows × {classes} classes", flush=True)
            table(rows, classes)

    return tables


def told(works: Mapping[str, Work], rounds: int) -> None:
    """Prints times and ratios."""
    for name, said in ratios(works, rounds).items():
        print(f"  {name:16} {said}", flush=True)


def matrix(rows: int, classes: int) -> None:
    """The confusion matrix against other ways to it."""
    import pandas as pd
    from sklearn.metrics import confusion_matrix

    a, b, _ = labels(rows, classes)

    def numpy() -> Any:
        return np.bincount(a * classes + b, minlength=classes * classes)

    told({"numpy bincount": numpy, "nbdebug": lambda: confusion_matrix(a, b, classes)}, 15)
    peers = {
        "scikit-learn": lambda: confusion_matrix(a, b, labels=range(classes)),
        "pandas crosstab": lambda: pd.crosstab(a, b),
    }
    told({"numpy bincount": numpy, **peers}, 3)


def cells(rows: int, classes: int) -> None:
    """The index: built, clicked on, and clicked on again."""
    import pandas as pd

    a, b, loss = labels(rows, classes)

    def numpy() -> Any:
        return np.bincount(a * classes + b, minlength=classes * classes)

    told({"numpy bincount": numpy, "index": lambda: ConfusionCells(a, b, classes, loss)}, 5)
    found = ConfusionCells(a, b, classes, loss)
    some = range(min(classes, 30))
    clicks = [cpu(partial(found.rows, i, j)) for i in some for j in some]
    frame = pd.DataFrame({"target": a, "prediction": b, "loss": loss})
    theirs = cpu(lambda: frame[(frame.target == 1) & (frame.prediction == 1)].nlargest(50, "loss"))
    held = found.order.nbytes / rows, found.starts.nbytes / classes**2
    print(f"  first click      {max(clicks) * 1e3:9.2f} ms the slowest of {len(clicks)} cells")
    print(f"  then 50 worst    {micro(lambda: found.rows(1, 1)):9.2f} µs; pandas {theirs * 1e3:.1f} ms")
    print(f"  index            {held[0]:.1f} bytes a row and {held[1]:.1f} a cell", flush=True)


def queries() -> None:
    """Pages with filters and sorts."""
    a, b, loss = labels(10**7, 10)
    random = np.random.default_rng(1)
    columns = {
        "loss": loss,
        "age": random.integers(0, 100, len(a)),
        "site": np.array(["north", "south", "east", "west"], object)[random.integers(0, 4, len(a))],
    }
    table = ClassificationTable.from_arrays(b, a, columns=columns)
    print(f"\nqueries, 1e7 rows\n  browsable {cpu(lambda: table.grid) * 1e3:.0f} ms")
    asked: dict[str, dict[str, Any]] = {
        "all, by loss": {},
        "wrong ones": {"right": False},
        "the first use of a text": {"right": False, "sort": "site"},
        "a range": {"ranges": {"age": (20, 40)}},
        "a text": {"values": {"site": ["north"]}},
        "another text": {"values": {"site": ["south", "west"]}},
        "a row of cells": {"cells": tuple((1, j) for j in range(10))},
        "cells, range, text": {"cells": ((1, 1), (2, 3)), "ranges": {"age": (20, 60)}, "values": {"site": ["east"]}},
        "a cell, row 5,000": {"cells": ((1, 1),), "start": 5000},
        "all, row 5,000": {"sort": "age", "start": 5000},
    }
    print(f"  {'':24} {'first':>12} {'next page':>9}")
    for name, one in asked.items():
        query = Query(**one)
        first = cpu(partial(table.page, query))
        later = cpu(partial(table.page, replace(query, start=query.start + 24)))
        print(f"  {name:24} {first * 1e3:9.1f} ms {later * 1e3:9.2f}", flush=True)


def slices() -> None:
    """The search for slices, beside pandas' group means of all pairs of columns."""
    rows, random = 10**5, np.random.default_rng(2)
    columns: dict[str, Any] = {f"number {i}": random.normal(size=rows) for i in range(15)}
    columns |= {f"text {i}": random.choice(list("abcde"), rows) for i in range(5)}
    target = random.integers(0, 2, rows)
    table = ClassificationTable.from_arrays(
        np.where(random.random(rows) < 0.1, 1 - target, target), target, columns=columns
    )
    cut = {name: pd_codes(values) for name, values in columns.items()}
    wrong = table.target != table.prediction

    def theirs() -> None:
        for one, other in combinations(cut, 2):
            wrong_mean(wrong, cut[one], cut[other])

    print("\nslices, 1e5 rows × 20 columns")
    told({"pandas": theirs, "nbdebug": lambda: search_slices(table)}, 3)


def pd_codes(values: Any) -> Any:
    """The fifth of its column, or the text, of each row."""
    import pandas as pd

    return pd.qcut(values, 5, labels=False) if values.dtype.kind == "f" else pd.factorize(values)[0]


def wrong_mean(wrong: Any, one: Any, other: Any) -> Any:
    """The share of errors in each cell of two columns."""
    import pandas as pd

    return pd.Series(wrong).groupby([one, other]).mean()


PARTS: dict[str, Callable[[], None]] = {
    "matrix": each_size(matrix),
    "cells": each_size(cells),
    "queries": queries,
    "slices": slices,
    "pass": inference,
    "page": page,
}


def main() -> None:
    """The tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join([*PARTS, "stored"]), help="names, with commas between")
    parser.add_argument("--large", action="store_true", help="1e8 rows in the stored table")
    given = parser.parse_args()
    torch.set_num_threads(1)
    for name in given.only.split(","):
        if name == "stored":
            stored(10**8 if given.large else 10**7)
        else:
            PARTS[name]()


if __name__ == "__main__":
    main()
