"""How bad each row of a table is, and the numbers of a slice of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.intervals import LEVEL, Floats
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.query import Rows
from nbdebug.predictions.table import Table
from nbdebug.slices.candidates import Badness
from nbdebug.slices.condition import Condition, query_of
from nbdebug.slices.slice import Slice
from nbdebug.slices.statistics import excess, newcombe, welch

WRONG = "wrong"


@dataclass(frozen=True, eq=False)
class Judged:
    """The rows that can be judged, how bad each is, and what that is called: "wrong", or the column that says it."""

    rows: Rows
    values: Floats
    measure: str

    def bad(self, chosen: Rows | None = None) -> Badness:
        """What a test looks at: shares as they are; of losses the ranks, since a few huge ones would outweigh all."""
        from scipy.stats import rankdata

        values = self.values if chosen is None else self.values[chosen]
        if self.measure == WRONG or not len(values):
            return Badness(values, exact=True)
        return Badness(rankdata(values) / len(values), exact=False)


def judged(table: Table) -> Judged:
    """How bad each row is: wrong or right where that is known, else its loss.

    Raises SetupError for a table in which nothing says so.
    """
    if table.right is not None:
        known = np.ones(len(table), bool)
        if isinstance(table, Predictions):
            known = (table.target >= 0) & (table.prediction >= 0)
        rows = np.flatnonzero(known)
        return Judged(rows, (~table.right[rows]).astype(np.float64), WRONG)
    if not table.worst:
        raise SetupError("the table says neither right nor wrong, nor a loss; expected one. Give a column 'loss'.")
    values = table.columns[table.worst].astype(np.float64)
    rows = np.flatnonzero(np.isfinite(values))
    return Judged(rows, values[rows], table.worst)


def measured(table: Table, found: Judged, conditions: Sequence[Condition], level: float = LEVEL) -> Slice:
    """A slice with its numbers, of all rows of the table that its query finds; its chance is that of a single test.

    Raises SetupError where less than two rows, or all but one, are in it.
    """
    mask = np.zeros(len(table), bool)
    mask[table.found(query_of(conditions))] = True
    mask = mask[found.rows]
    inside, rest = found.values[mask], found.values[~mask]
    if min(len(inside), len(rest)) < 2:
        raise SetupError(f"the slice has {len(inside)} of {len(mask)} rows; expected some of them. Choose others.")
    low, high = interval(found.measure, inside, rest, level)
    p = chance_of(found.bad(), mask)
    return Slice(tuple(conditions), len(inside), float(inside.mean()), float(rest.mean()), low, high, p, p)


def interval(measure: str, inside: Floats, rest: Floats, level: float) -> tuple[float, float]:
    """By how much rows are worse than the rest: of shares, or of means."""
    if measure != WRONG:
        return welch(inside, rest, level)
    low, high = newcombe(inside.sum(), len(inside), rest.sum(), len(rest), level)
    return float(low), float(high)


def chance_of(bad: Badness, mask: NDArray[np.bool_]) -> float:
    """The chance that some rows are so bad."""
    rows, total, spread = bad.whole
    n, k = np.array([mask.sum()], np.float64), np.array([bad.values[mask].sum()])
    z = excess(n, k, rows, total, spread)
    return float(bad.p(z, n, k, np.array([float(rows)]), np.array([total]))[0])


def unjudged(table: Table, found: Judged) -> int:
    """How many rows cannot be judged."""
    return len(table) - len(found.rows)
