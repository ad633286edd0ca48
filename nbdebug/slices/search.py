"""The search for weak slices: parts of the data on which the model is worse than chance allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.intervals import LEVEL, Floats
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.query import Rows
from nbdebug.predictions.table import Table
from nbdebug.slices.candidates import Badness, Candidate, pairs, singles
from nbdebug.slices.condition import Condition, query_of
from nbdebug.slices.explained import strongest
from nbdebug.slices.features import features
from nbdebug.slices.slice import Slice, Slices
from nbdebug.slices.statistics import excess, false_discovery, newcombe, welch

RATE, LEAST = 0.05, 0.25
FEWEST, SHARE = 20, 0.01  # a slice has at least so many rows, and such a share of all
SEARCHED, LEVELS = 100_000, 160  # rows that are searched of a large table, at so many coarse levels in all


@dataclass(frozen=True, eq=False)
class Judged:
    """The rows that can be judged, how bad each is, and what that is called."""

    rows: Rows
    values: Floats
    measure: str

    def part(self, mask: NDArray[np.bool_], size: int) -> tuple[Floats, Floats]:
        """The values of some rows of a table of ``size`` rows, and those of the rest."""
        inside = mask[self.rows] if len(self.rows) < size else mask
        return self.values[inside], self.values[~inside]


def search(
    table: Table, *, most: int = 10, rate: float = RATE, least: float = LEAST, searched: int = SEARCHED, seed: int = 0
) -> Slices:
    """The slices of one or two features on which rows are wrong more often, or have a larger loss, than elsewhere.

    Numbers are cut at quantiles and neighboring bins put together, categories taken by value, rare ones together;
    a slice holds 20 rows and 1 % of all at least, and half of them at most. A test asks whether it is worse than the
    rest, one of two features also whether it is worse than each of both alone; the rate of false discoveries among all
    that were tried is held under ``rate``. Kept are those at least ``least`` worse than the rest, of these the
    strongest, and then those which the kept ones do not explain. A table of more than ``searched`` rows is searched in
    a random part of them; the numbers are of all.

    After Slice Finder (Chung et al. 2019, arXiv:1807.06068), with false discoveries controlled over all slices at once
    in place of the order of the search. Raises SetupError for a table in which nothing says how bad a row is.
    """
    judged = badness(table)
    chosen = sample(judged, searched, seed)
    small = max(FEWEST, int(np.ceil(SHARE * len(chosen))))
    both = features(table, judged.rows[chosen], small)
    levels = sum(len(coarse.levels) for _, coarse in both)
    if levels > LEVELS:  # the product of all pairs of levels grows with their square
        chosen = chosen[:: int(np.ceil((levels / LEVELS) ** 2 * len(chosen) / max(searched, len(chosen))))]
        small = max(FEWEST, int(np.ceil(SHARE * len(chosen))))
        both = features(table, judged.rows[chosen], small)
    bad = as_badness(judged.values[chosen], judged.measure)
    single, tried_single = singles([fine for fine, _ in both], bad, small)
    double, tried_double = pairs([coarse for _, coarse in both], bad, small)
    tried = tried_single + tried_double
    kept, level, qs = discovered([*single, *double], tried, rate)
    found = strongest(kept, judged.values[chosen], bad, least, most)
    slices = [replace(measured(table, judged, one.conditions, level), p=one.p, q=qs[id(one)]) for one in found]
    names = tuple(fine.name for fine, _ in both)
    overall = float(judged.values.mean()) if len(judged.values) else float("nan")
    return Slices(
        tuple(slices),
        tried,
        names,
        len(table),
        len(chosen),
        judged.measure,
        overall,
        level,
        notes(table, judged, len(chosen), tried),
    )


def badness(table: Table) -> Judged:
    """How bad each row is: wrong or right where that is known, else its loss."""
    if table.right is not None:
        known = np.ones(len(table), bool)
        if isinstance(table, Predictions):
            known = (table.target >= 0) & (table.prediction >= 0)
        rows = np.flatnonzero(known)
        return Judged(rows, 1.0 - table.right[rows], "wrong")
    if not table.worst:
        raise SetupError("the table has no right and wrong and no loss; expected one of them. Give a column 'loss'.")
    values = table.columns[table.worst].astype(np.float64)
    values = np.abs(values) if table.worst == "residual" else values
    rows = np.flatnonzero(np.isfinite(values))
    return Judged(rows, values[rows], table.worst)


def as_badness(values: Floats, measure: str) -> Badness:
    """Shares as they are; of losses the ranks, since a few huge ones would outweigh all."""
    from scipy.stats import rankdata

    if measure == "wrong" or not len(values):
        return Badness(values, exact=True)
    return Badness(rankdata(values) / len(values), exact=False)


def sample(judged: Judged, most: int, seed: int) -> Rows:
    """All rows that can be judged, in a random order, or so many of them."""
    order = np.random.default_rng(seed).permutation(len(judged.rows))
    return order[:most]


def discovered(
    candidates: Sequence[Candidate], tried: int, rate: float
) -> tuple[list[Candidate], float, dict[int, float]]:
    """Those that are no chance finds, the level at which their intervals hold all the same, and their q-values.

    The level is that of Benjamini and Yekutieli 2005, doi:10.1198/016214504000001907: of the intervals of what was
    picked, a share ``rate`` misses.
    """
    p = np.array([one.p for one in candidates])
    q = false_discovery(p, tried)
    kept = [one for one, value in zip(candidates, q, strict=True) if value <= rate]
    level = 1 - rate * len(kept) / tried if kept else 1 - rate
    return kept, level, {id(one): float(value) for one, value in zip(candidates, q, strict=True)}


def measured(table: Table, judged: Judged, conditions: Sequence[Condition], level: float = LEVEL) -> Slice:
    """A slice with its numbers, of all rows of the table that its query finds; its chance is that of a single test.

    Raises SetupError where less than two rows, or all but one, are in it.
    """
    mask = np.zeros(len(table), bool)
    mask[table.found(query_of(conditions))] = True
    inside, rest = judged.part(mask, len(table))
    if min(len(inside), len(rest)) < 2:
        raise SetupError(f"the slice has {len(inside)} of {len(judged.rows)} rows; expected some. Choose another.")
    bad = as_badness(judged.values, judged.measure)
    rows, total, spread = bad.whole
    n, k = len(inside), bad.values[mask[judged.rows]].sum()
    p = float(bad.p(*np.atleast_2d(excess(n, k, rows, total, spread), n, k, rows, total))[0, 0])
    if judged.measure == "wrong":
        ends = newcombe(inside.sum(), n, rest.sum(), len(rest), level)
    else:
        ends = welch(inside, rest, level)
    low, high = (float(end) for end in ends)
    return Slice(tuple(conditions), n, float(inside.mean()), float(rest.mean()), low, high, p, p)


def notes(table: Table, judged: Judged, searched: int, tried: int) -> tuple[str, ...]:
    """What a reader must know of the search."""
    left = len(table) - len(judged.rows)
    return tuple(
        text
        for text, said in (
            (f"{left} rows without a target or a prediction are left out", left),
            (
                f"searched in {searched} random rows of {len(judged.rows)}; the numbers are of all",
                searched < len(judged.rows),
            ),
            ("no column and no row is left to search in; pass columns= with what is known of the samples", not tried),
        )
        if said
    )
