"""The columns of a table as levels: numbers cut at quantiles, categories by value, the class of the target."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.table import Table
from nbdebug.predictions.texts import numbered
from nbdebug.slices.condition import MISSING, Condition, cut

# What is computed from the prediction: it says that a row is wrong, and not why.
SAID = frozenset(
    (
        "change",
        "before",
        "chance",
        "neighbors_disagree",
        "loss",
        "confidence",
        "margin",
        "entropy",
        "prediction",
        "residual",
        "wrong labels",
        "iou",
        "dice",
    )
)
SAID_OF = ("prediction ", "residual ", "worst ")
FINE = (0.02, *(i / 20 for i in range(1, 20)), 0.98)
COARSE = (0.2, 0.4, 0.6, 0.8)
MOST = 30  # values of a category that are looked at each by itself
MOST_RARE = 50  # values that may be put together as the rare ones
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Feature:
    """A column in levels: ``codes`` has the level of each row, ``levels`` what each of them stands for.

    Levels up to ``ordered`` follow each other, and may be put together with their neighbors; the others stand alone,
    and one without a condition is not looked at.
    """

    name: str
    codes: Codes
    levels: tuple[Condition | None, ...]
    ordered: int = 0

    @property
    def is_target(self) -> bool:
        """Whether it is the class of the target, which is not known before the answer is."""
        return any(one is not None and one.cells for one in self.levels)

    def condition(self, first: int, last: int) -> Condition | None:
        """What the levels from one to another stand for together."""
        a, b = self.levels[first], self.levels[last]
        if first == last or a is None or b is None:
            return a
        return Condition(self.name, a.low, b.high)


def features(table: Table, rows: NDArray[np.int64], fewest: int) -> list[tuple[Feature, Feature]]:
    """The columns in fine levels and in coarse ones; those that are computed from the prediction are left out."""
    found = []
    for name, values in table.columns.items():
        if not is_said(name) and values.ndim == 1:
            found.append(levels(name, values[rows], fewest))
    if isinstance(table, Predictions):
        classes = by_class(table, rows, fewest)
        found.append((classes, classes))
    return [both for both in found if len(both[0].levels) > 1]


def is_said(name: str) -> bool:
    """Whether a column is computed from the prediction; of several outputs each has its name behind."""
    return name in SAID or name.startswith(SAID_OF)


def levels(name: str, values: NDArray[Any], fewest: int) -> tuple[Feature, Feature]:
    """A column in fine levels and in coarse ones."""
    if values.dtype.kind in "fiu":
        return by_quantiles(name, values, FINE), by_quantiles(name, values, COARSE)
    one = by_value(name, values, fewest)
    return one, one


def by_quantiles(name: str, values: NDArray[Any], shares: tuple[float, ...]) -> Feature:
    """Numbers in bins that hold about the same share of rows each; each value by itself where there are few."""
    known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), bool)
    ordered = np.sort(values[known])
    if not len(ordered):
        return Feature(name, np.zeros(len(values), np.int64), (Condition(name, values=MISSING),))
    different = np.unique(ordered)
    places = (np.asarray(shares) * (len(ordered) - 1)).astype(int)
    tops = different[:-1] if len(different) <= len(shares) + 1 else np.unique(ordered[places])
    tops = tops[tops < ordered[-1]]
    nexts = ordered[np.searchsorted(ordered, tops, "right")]
    cuts = [cut(a, b, values.dtype) for a, b in zip(tops, nexts, strict=True)]
    lows, highs = [None, *(b for _, b in cuts)], [*(a for a, _ in cuts), None]
    bins: tuple[Condition | None, ...] = tuple(Condition(name, *ends) for ends in zip(lows, highs, strict=True))
    codes = np.where(known, np.searchsorted(tops, values), len(bins))
    missing = () if known.all() else (Condition(name, values=MISSING),)
    return Feature(name, codes, (*bins, *missing), len(bins))


def by_value(name: str, values: NDArray[Any], fewest: int) -> Feature:
    """A level for each value that is frequent enough; the rare ones together, if they can still be told."""
    numbers, found = numbered(values)
    found = np.where(np.isin(found, MISSING), MISSING[0], found)
    names, which = np.unique(found, return_inverse=True)
    codes = which[numbers]
    counts = np.bincount(codes, minlength=len(names))
    kept = np.argsort(-counts, kind="stable")[:MOST]
    kept = kept[counts[kept] >= min(fewest, len(values))]
    places = np.full(len(names), len(kept))
    places[kept] = np.arange(len(kept))
    rare = tuple(text for one in names[(places == len(kept)) & (counts > 0)].tolist() for text in whole(one))
    rest = (Condition(name, values=rare) if len(rare) <= MOST_RARE else None,) if rare else ()
    return Feature(name, places[codes], (*(Condition(name, values=whole(str(names[i]))) for i in kept), *rest))


def whole(text: str) -> tuple[str, ...]:
    """The texts of a value: one, or all by which a missing one is known."""
    return MISSING if text in MISSING else (text,)


def by_class(table: Predictions, rows: NDArray[np.int64], fewest: int) -> Feature:
    """A level for each class of the target that is frequent enough."""
    target, count = table.target[rows], len(table.classes)
    counts = np.bincount(target[target >= 0], minlength=count)
    kept = np.sort(np.argsort(-counts, kind="stable")[:MOST])
    kept = kept[counts[kept] >= fewest]
    places = np.full(count + 1, len(kept))
    places[kept] = np.arange(len(kept))
    rows_of = [tuple((int(i), j) for j in range(count)) for i in kept]
    named = [
        Condition("target", values=(table.classes[i],), cells=cells) for i, cells in zip(kept, rows_of, strict=True)
    ]
    return Feature("target", places[target], (*named, None))
