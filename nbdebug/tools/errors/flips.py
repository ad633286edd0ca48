"""Flips by class and by pair: counted for the panel and the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.metrics.confusion import Counts, confusion
from nbdebug.predictions.classes import Predictions
from nbdebug.views.bars import bars

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST = 20  # classes in the picture


@dataclass(frozen=True)
class Moved:
    """How many rows of each class are fixed and broken; how many went from which class to which, classes × classes.

    ``wrong`` counts those of the latter that are wrong now. ``names`` holds the classes of both models.
    """

    fixed: Counts
    broken: Counts
    moves: Counts
    wrong: Counts
    names: Sequence[str]


def moved(table: Predictions) -> Moved:
    """What moved in a table with the columns ``before`` and ``change``."""
    import pandas as pd

    change = table.columns["change"]
    which, different = pd.factorize(table.columns["before"])
    names = list(dict.fromkeys([*table.classes, *(str(name) for name in different if name)]))
    places = {name: i for i, name in enumerate(names)}
    old = np.array([places.get(str(name), -1) for name in different], np.int32)[which]
    known = table.target >= 0
    wrong = known & ~table.right
    return Moved(
        per_target(table, change == "fixed"),
        per_target(table, change == "broken"),
        confusion(old[known], table.prediction[known], len(names)),
        confusion(old[wrong], table.prediction[wrong], len(names)),
        names,
    )


def per_target(table: Predictions, rows: np.ndarray) -> Counts:
    """How many of some rows are of each class."""
    target = table.target[rows]
    return np.bincount(target[target >= 0], minlength=len(table.classes)).astype(np.int64)


def most_moved(found: Moved, most: int) -> list[int]:
    """The classes with the most flips, the most first."""
    order = np.argsort(-(found.fixed + found.broken), kind="stable")[:most]
    return [int(one) for one in order if found.fixed[one] + found.broken[one]]


def draw(table: Predictions, ax: Axes) -> None:
    """A bar to the right for the fixed rows of each class, and one to the left for the broken."""
    found = moved(table)
    order = most_moved(found, MOST)
    names = [found.names[one] for one in order]
    bars(ax, names, found.fixed[order], color="tab:green", label="fixed")
    bars(ax, names, -found.broken[order], color="tab:red", label="broken")
    ax.xaxis.set_major_formatter(lambda value, _: f"{abs(value):g}")
    ax.axvline(0, color="0.5", linewidth=0.8)
    ax.set_xlabel("samples")
    if order:
        ax.legend()
