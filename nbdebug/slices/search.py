"""The search for weak slices: parts of the data on which the model is worse than chance allows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from nbdebug.predictions.query import Rows
from nbdebug.predictions.table import Table
from nbdebug.slices.candidates import Candidate, pairs, singles
from nbdebug.slices.explained import strongest
from nbdebug.slices.features import Feature, features
from nbdebug.slices.judged import Judged, judged, measured, unjudged
from nbdebug.slices.slice import Slice, Slices
from nbdebug.slices.statistics import false_discovery

RATE, LEAST = 0.05, 0.25
FEWEST, SHARE = 20, 0.01  # a slice has at least so many rows, and such a share of all
SEARCHED, LEVELS = 100_000, 160  # rows that are searched of a large table, at so many coarse levels in all
Both = list[tuple[Feature, Feature]]


def search(
    table: Table, *, most: int = 10, rate: float = RATE, least: float = LEAST, searched: int = SEARCHED, seed: int = 0
) -> Slices:
    """The slices of one or two features on which rows are wrong more often, or have a larger loss, than elsewhere.

    Numbers are cut at quantiles and neighboring bins put together, categories taken by value, rare ones together;
    a slice holds 20 rows and 1 % of all at least, and half of them at most. A test asks whether it is worse than the
    rest, one of two features also whether it is worse than each of both alone; the rate of false discoveries among all
    that were tried is held under ``rate``. Kept are those at least ``least`` worse than the rest, of these the
    strongest, and then those which the kept ones do not explain. The class of the target is a feature by itself alone:
    with a second one it would say what the matrix says, that one class is taken for another. A table of more than
    ``searched`` rows is searched in a random part of them; the numbers are of all.

    After Slice Finder (Chung et al. 2019, arXiv:1807.06068), with false discoveries controlled over all slices at once
    in place of the order of the search. Raises SetupError for a table in which nothing says how bad a row is.
    """
    found = judged(table)
    chosen, both, fewest = prepared(table, found, searched, seed)
    bad = found.bad(chosen)
    single, tried_single = singles([fine for fine, _ in both], bad, fewest)
    double, tried_double = pairs([coarse for _, coarse in both if not coarse.is_target], bad, fewest)
    tried = tried_single + tried_double
    real, level = discovered([*single, *double], tried, rate)
    kept = strongest(real, found.values[chosen], bad, tried, rate, least, most)
    slices = [replace(measured(table, found, one.conditions, level), p=one.p, q=q) for one, q in kept.items()]
    return result(table, found, slices, tried, both, len(chosen), level)


def prepared(table: Table, found: Judged, most: int, seed: int) -> tuple[Rows, Both, int]:
    """The rows to search in, their features, and how many rows a slice needs.

    All pairs of levels are counted, which takes time with the square of their number; many are searched in less rows.
    """
    chosen = np.random.default_rng(seed).permutation(len(found.rows))[:most]
    both, fewest = cut_up(table, found, chosen)
    levels = sum(len(coarse.levels) for _, coarse in both)
    step = int(np.ceil((levels / LEVELS) ** 2 * len(chosen) / max(SEARCHED, len(chosen))))
    if levels > LEVELS and step > 1:
        chosen = chosen[::step]
        both, fewest = cut_up(table, found, chosen)
    return chosen, both, fewest


def cut_up(table: Table, found: Judged, chosen: Rows) -> tuple[Both, int]:
    """The features of some rows, and how many of them a slice needs."""
    fewest = max(FEWEST, int(np.ceil(SHARE * len(chosen))))
    return features(table, found.rows[chosen], fewest), fewest


def discovered(candidates: Sequence[Candidate], tried: int, rate: float) -> tuple[dict[Candidate, float], float]:
    """Those that are no chance finds with their q-values, and the level at which their intervals hold all the same.

    The level is that of Benjamini and Yekutieli 2005, doi:10.1198/016214504000001907: of the intervals of what was
    picked, a share ``rate`` misses.
    """
    q = false_discovery(np.array([one.p for one in candidates]), tried)
    real = {one: float(value) for one, value in zip(candidates, q, strict=True) if value <= rate}
    return real, 1 - rate * max(len(real), 1) / max(tried, 1)


def result(
    table: Table, found: Judged, slices: Sequence[Slice], tried: int, both: Both, searched: int, level: float
) -> Slices:
    """What the search came to."""
    left, rows = unjudged(table, found), len(found.rows)
    said = (
        (f"{left} rows without a target or a prediction are left out", left > 0),
        (f"searched in {searched} random rows of {rows}; the numbers are of all", searched < rows),
        (
            "nothing to search in: too few rows, or no columns; pass columns= with what is known of the samples",
            not tried,
        ),
    )
    return Slices(
        tuple(slices),
        tried=tried,
        features=tuple(fine.name for fine, _ in both),
        rows=len(table),
        searched=searched,
        measure=found.measure,
        overall=float(found.values.mean()) if rows else float("nan"),
        level=level,
        notes=tuple(text for text, holds in said if holds),
    )
