"""Search for weak slices with false discovery control."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nbdebug.predictions.table import PredictionTable, Rows
from nbdebug.slices.row_scores import (
    RowErrors,
    RowScores,
    SliceFeature,
    count_unscored_rows,
    measure_slice,
    score_rows,
    slice_features,
)
from nbdebug.slices.slice import Condition, Slice, Slices
from nbdebug.statistics.intervals import Floats, benjamini_hochberg, excess_and_variance, excess_z_score, normal_tail

_ROWS_PER_CHUNK = 1 << 14
_MIN_Z_SCORE = 2.0  # z-score below which a slice only counts as tested
_PAIR_DISCOUNT = 0.9
_LevelRange = tuple[SliceFeature, int, int]
_MAX_CONSIDERED, _MAX_JACCARD = 200, 0.5
_FALSE_DISCOVERY_RATE, _MIN_RELATIVE_DIFFERENCE = 0.05, 0.25
_MIN_SLICE_ROWS, _MIN_SLICE_SHARE = 20, 0.01  # minimum size of a slice: in rows, and as a share of all rows
_MAX_SEARCHED_ROWS, _MAX_COARSE_LEVELS = (
    100_000,
    160,
)  # rows searched in a large table, given this total number of coarse levels
_FineAndCoarse = list[tuple[SliceFeature, SliceFeature]]


@dataclass(frozen=True, eq=False)
class _SliceCandidate:
    """A slice: levels of one or two features, with its z-score against the rest and the p-value ``p``.

    For two features, ``p`` is the largest of three: against all other rows, and within the rows of each feature alone.
    """

    parts: tuple[_LevelRange, ...]
    z: float
    p: float

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions that hold for its rows."""
        return tuple(condition for feature, *ends in self.parts if (condition := feature.condition(*ends)) is not None)

    @property
    def has_target(self) -> bool:
        """Return whether the target class is one of its features."""
        return any(feature.is_target for feature, *_ in self.parts)

    @property
    def sort_key(self) -> tuple[bool, float]:
        """Return the sort key: slices without the target class first, then by ``z``, reduced for two features.

        The reduction prefers one finer feature to two coarse ones that describe the same rows.
        """
        return self.has_target, -self.z * (1 if len(self.parts) == 1 else _PAIR_DISCOUNT)

    def mask(self) -> NDArray[np.bool_]:
        """Return a mask of its rows."""
        in_slice = np.ones(len(self.parts[0][0].codes), bool)
        for feature, first, last in self.parts:
            in_slice &= (feature.codes >= first) & (feature.codes <= last)
        return in_slice


def _level_runs(feature: SliceFeature) -> list[tuple[int, int]]:
    """Return all runs of adjacent levels except the whole range, and each unordered level."""
    count = feature.ordered
    pairs = [(i, j) for i in range(count) for j in range(i, count) if j - i + 1 < count]
    return pairs + [(i, i) for i in range(count, len(feature.levels)) if feature.levels[i] is not None]


def _single_feature_slices(
    features: Sequence[SliceFeature], row_errors: RowErrors, min_rows: int
) -> tuple[list[_SliceCandidate], int]:
    """Return the notable slices of one feature, and the number of tests."""
    candidates, tests = list[_SliceCandidate](), 0
    rows, total, variance = row_errors.totals
    for feature in features:
        ends = np.array(_level_runs(feature), int).reshape(-1, 2)
        n, k = (_run_sums(feature, weights, ends) for weights in (None, row_errors.values))
        is_allowed = (n >= min_rows) & (n <= rows / 2)
        tests += int(is_allowed.sum())
        z = np.where(is_allowed, excess_z_score(n, k, rows, total, variance), -np.inf)
        notable = np.flatnonzero(z > _MIN_Z_SCORE)
        p = row_errors.p_values(
            z[notable], n[notable], k[notable], np.full(len(notable), rows), np.full(len(notable), total)
        )
        candidates += [
            _SliceCandidate(((feature, *ends[i].tolist()),), z[i], p_value)
            for i, p_value in zip(notable, p, strict=True)
        ]
    return candidates, tests


def _run_sums(feature: SliceFeature, weights: Floats | None, ends: NDArray[np.int64]) -> Floats:
    """Return the sum over each run of levels."""
    sums = np.cumsum([0, *np.bincount(feature.codes, weights, len(feature.levels))])
    return np.asarray(sums[ends[:, 1] + 1] - sums[ends[:, 0]], np.float64)


def _feature_pair_slices(
    features: Sequence[SliceFeature], row_errors: RowErrors, min_rows: int
) -> tuple[list[_SliceCandidate], int]:
    """Return the notable slices of two features, and the number of tests."""
    parts = [(i, *ends) for i, feature in enumerate(features) for ends in _level_runs(feature)]
    if not parts:
        return [], 0
    feature_indices = np.array([i for i, *_ in parts])
    n, k, squares = _pair_sums(features, parts, row_errors)
    rows, total, variance = row_errors.totals
    is_allowed = (feature_indices[:, None] < feature_indices) & (n >= min_rows) & (n <= rows / 2)
    z = np.where(is_allowed, excess_z_score(n, k, rows, total, variance), -np.inf)
    feature_totals = [np.diag(item) for item in (n, k, squares)]
    for feature_part in ([item[:, None] for item in feature_totals], [item[None, :] for item in feature_totals]):
        z = np.where(
            is_allowed & (n < feature_part[0]), np.minimum(z, _within_group_z_scores(n, k, *feature_part)), -np.inf
        )
    first, second = np.nonzero(z > _MIN_Z_SCORE)
    pair_indices = (first, second)
    sizes = [
        (np.full(len(first), rows), np.full(len(first), total)),
        *((feature_totals[0][i], feature_totals[1][i]) for i in pair_indices),
    ]
    p = (
        np.max(
            [
                row_errors.p_values(z[pair_indices], n[pair_indices], k[pair_indices], size, size_total)
                for size, size_total in sizes
            ],
            axis=0,
        )
        if len(first)
        else []
    )
    strength = excess_z_score(n[pair_indices], k[pair_indices], rows, total, variance)
    candidate_parts = [
        ((features[parts[i][0]], *parts[i][1:]), (features[parts[j][0]], *parts[j][1:]))
        for i, j in zip(*pair_indices, strict=True)
    ]
    return [
        _SliceCandidate(parts_pair, float(z_score), float(item))
        for parts_pair, z_score, item in zip(candidate_parts, strength, p, strict=True)
    ], int(is_allowed.sum())


def _within_group_z_scores(n: Floats, sums: Floats, rows: Floats, total: Floats, sums_of_squares: Floats) -> Floats:
    """Return the z-scores of parts of groups, from the sum and the sum of squares of each group."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return excess_z_score(n, sums, rows, total, sums_of_squares / rows - (total / rows) ** 2)


def _pair_sums(
    features: Sequence[SliceFeature], parts: Sequence[tuple[int, int, int]], row_errors: RowErrors
) -> tuple[Floats, Floats, Floats]:
    """Return counts, sums and sums of squares of the rows in every pair of parts, by one matrix product."""
    widths = [len(item.levels) for item in features]
    starts = np.cumsum([0, *widths])
    membership = np.zeros((len(parts), starts[-1]))
    for row, (i, first, last) in enumerate(parts):
        membership[row, starts[i] + first : starts[i] + last + 1] = 1
    codes = np.stack([item.codes + start for item, start in zip(features, starts, strict=False)], 1)
    sums = np.zeros((3, starts[-1], starts[-1]))
    for chunk_start in range(0, len(codes), _ROWS_PER_CHUNK):
        chunk, values = (
            codes[chunk_start : chunk_start + _ROWS_PER_CHUNK],
            row_errors.values[chunk_start : chunk_start + _ROWS_PER_CHUNK, None].astype(np.float32),
        )
        one_hot = np.zeros((len(chunk), starts[-1]), np.float32)
        np.put_along_axis(one_hot, chunk, 1, 1)
        for power in range(2 if row_errors.is_binary else 3):
            sums[power] += one_hot.T @ (one_hot * values**power)
    if row_errors.is_binary:
        sums[2] = sums[1]
    n, k, squares = (membership @ item @ membership.T for item in sums)
    return n, k, squares


def _select_independent_slices(
    candidates: Mapping[_SliceCandidate, float],
    values: Floats,
    row_errors: RowErrors,
    tests: int,
    rate: float,
    min_difference: float,
    max_slices: int,
) -> dict[_SliceCandidate, float]:
    """Select the strongest slice, then each that is worse than the slices selected before it explain.

    Expected is the mean of the rows that lie in the same selected slices. This second test is corrected for the number
    of tests too, divided by the number of selected slices plus one: a real slice produces many overlapping discoveries,
    which would otherwise admit false ones. ``candidates`` maps each candidate to its q-value, and so does the result.
    ``min_difference`` is the minimum difference from the rest, relative to the value of the rest.
    """
    selected, masks = dict[_SliceCandidate, float](), list[NDArray[np.bool_]]()
    strata, considered = np.zeros(len(values), np.int64), Counter[bool]()
    for candidate in sorted(candidates, key=lambda candidate: candidate.sort_key):
        if (
            len(selected) == max_slices
            or considered[candidate.has_target] == _MAX_CONSIDERED
            or any(_is_adjacent(candidate, selected_candidate) for selected_candidate in selected)
        ):
            continue
        considered[candidate.has_target] += 1
        mask = candidate.mask()
        if not _is_worse(values, mask, min_difference) or any(_is_same_slice(mask, other) for other in masks):
            continue
        uncovered, q = ~_covered_rows(candidate, selected, masks), candidates[candidate]
        if selected:
            q = max(
                q,
                _stratified_p_value(mask[uncovered], strata[uncovered], row_errors.subset(uncovered))
                * tests
                / (len(selected) + 1),
            )
        if q <= rate:
            selected[candidate] = q
            masks.append(mask)
            strata = np.unique(strata * 2 + mask, return_inverse=True)[1]
    return selected


def _covered_rows(
    candidate: _SliceCandidate, selected: Iterable[_SliceCandidate], masks: Sequence[NDArray[np.bool_]]
) -> NDArray[np.bool_]:
    """Return the rows of selected slices that use at least the same features."""
    names = {part[0].name for part in candidate.parts}
    rows = np.zeros(len(candidate.parts[0][0].codes), bool)
    for selected_candidate, mask in zip(selected, masks, strict=True):
        if names <= {part[0].name for part in selected_candidate.parts}:
            rows |= mask
    return rows


def _is_adjacent(candidate: _SliceCandidate, other: _SliceCandidate) -> bool:
    """Return whether two slices of the same features overlap or are adjacent."""
    if [part[0].name for part in candidate.parts] != [part[0].name for part in other.parts]:
        return False
    return all(_runs_touch(a, b) for a, b in zip(candidate.parts, other.parts, strict=True))


def _runs_touch(a: tuple[object, int, int], b: tuple[object, int, int]) -> bool:
    """Return whether two runs of levels overlap or, if ordered, are adjacent."""
    return a[1] <= b[2] + _adjacency_margin(a, b) and b[1] <= a[2] + _adjacency_margin(a, b)


def _adjacency_margin(a: tuple[object, int, int], b: tuple[object, int, int]) -> int:
    """Return 1 if both runs are of ordered levels, else 0."""
    ordered = getattr(a[0], "ordered", 0)
    return int(a[2] < ordered and b[2] < ordered)


def _is_worse(values: Floats, mask: NDArray[np.bool_], min_difference: float) -> bool:
    inside, rest = values[mask].mean(), values[~mask].mean()
    return bool(inside - rest > min_difference * abs(rest))


def _is_same_slice(mask: NDArray[np.bool_], other: NDArray[np.bool_]) -> bool:
    """Return whether two slices are mostly the same rows."""
    return bool((mask & other).sum() > _MAX_JACCARD * (mask | other).sum())


def _stratified_p_value(mask: NDArray[np.bool_], strata: NDArray[np.int64], row_errors: RowErrors) -> float:
    """Return the p-value of rows being worse than the others in their strata; an upper bound for 0/1 values.

    The number of wrong rows is a sum of hypergeometric variables, whose upper tail is below that of a binomial with the
    same mean (Hoeffding 1956, doi:10.1214/aoms/1177728178).
    """
    from scipy.stats import binom

    if not mask.any():
        return 1.0
    values = row_errors.values
    rows, total, squares = np.bincount(strata), np.bincount(strata, values), np.bincount(strata, values**2)
    rows = np.maximum(rows, 1)
    n, k = np.bincount(strata[mask], minlength=len(rows)), np.bincount(strata[mask], values[mask], len(rows))
    excess, variance = excess_and_variance(n, k, rows, total, squares / rows - (total / rows) ** 2)
    if variance.sum() <= 0 or excess.sum() <= 0:
        return 1.0
    if row_errors.is_binary:
        return float(binom.sf(k.sum() - 1, n.sum(), (k.sum() - excess.sum()) / n.sum()))
    return float(normal_tail(excess.sum() / np.sqrt(variance.sum())))


def search_slices(
    table: PredictionTable,
    *,
    most: int = 10,
    rate: float = _FALSE_DISCOVERY_RATE,
    least: float = _MIN_RELATIVE_DIFFERENCE,
    searched: int = _MAX_SEARCHED_ROWS,
    seed: int = 0,
) -> Slices:
    """Find the slices of one or two features with a higher error rate, or a larger loss, than the rest.

    Numbers are binned at quantiles and adjacent bins may be merged; categories are taken by value, rare ones together.
    A slice has at least 20 rows and 1% of all rows, and at most half of them. Each slice is tested against the rest; a
    slice of two features also within each of the two. The false discovery rate over all tests is held under ``rate``. A
    slice must be worse than the rest by the relative difference ``least``. The strongest slices are returned, without
    those that they explain. The target class is only used as a single feature: together with a second feature it would
    repeat the confusion matrix. In a table of more than ``searched`` rows a random part is searched; the reported
    numbers are of all rows.

    After Slice Finder (Chung et al. 2019, arXiv:1807.06068), but with false discoveries controlled over all slices at
    once instead of in the order of the search. Raises SetupError for a table that has neither correctness nor a loss.
    """
    row_scores = score_rows(table)
    sampled_rows, feature_pairs, min_rows = _sample_and_bin(table, row_scores, searched, seed)
    row_errors = row_scores.row_errors(sampled_rows)
    single_candidates, single_tests = _single_feature_slices([fine for fine, _ in feature_pairs], row_errors, min_rows)
    pair_candidates, pair_tests = _feature_pair_slices(
        [coarse for _, coarse in feature_pairs if not coarse.is_target], row_errors, min_rows
    )
    tests = single_tests + pair_tests
    discoveries, level = _control_false_discoveries([*single_candidates, *pair_candidates], tests, rate)
    selected = _select_independent_slices(
        discoveries, row_scores.values[sampled_rows], row_errors, tests, rate, least, most
    )
    slices = [
        replace(measure_slice(table, row_scores, candidate.conditions, level), p=candidate.p, q=q)
        for candidate, q in selected.items()
    ]
    return _build_result(table, row_scores, slices, tests, feature_pairs, len(sampled_rows), level)


def _sample_and_bin(
    table: PredictionTable, row_scores: RowScores, max_rows: int, seed: int
) -> tuple[Rows, _FineAndCoarse, int]:
    """Return the rows to search in, their features, and the minimum size of a slice.

    All pairs of levels are counted, so the time grows with the square of their number; with many levels fewer rows are
    searched.
    """
    sampled_rows = np.random.default_rng(seed).permutation(len(row_scores.rows))[:max_rows]
    feature_pairs, min_rows = _bin_features(table, row_scores, sampled_rows)
    levels = sum(len(coarse.levels) for _, coarse in feature_pairs)
    step = int(
        np.ceil((levels / _MAX_COARSE_LEVELS) ** 2 * len(sampled_rows) / max(_MAX_SEARCHED_ROWS, len(sampled_rows)))
    )
    if levels > _MAX_COARSE_LEVELS and step > 1:
        sampled_rows = sampled_rows[::step]
        feature_pairs, min_rows = _bin_features(table, row_scores, sampled_rows)
    return sampled_rows, feature_pairs, min_rows


def _bin_features(table: PredictionTable, row_scores: RowScores, sampled_rows: Rows) -> tuple[_FineAndCoarse, int]:
    """Return the features of some rows, and the minimum size of a slice."""
    min_rows = max(_MIN_SLICE_ROWS, int(np.ceil(_MIN_SLICE_SHARE * len(sampled_rows))))
    return slice_features(table, row_scores.rows[sampled_rows], min_rows), min_rows


def _control_false_discoveries(
    candidates: Sequence[_SliceCandidate], tests: int, rate: float
) -> tuple[dict[_SliceCandidate, float], float]:
    """Return the discoveries with their q-values, and the level of intervals that accounts for the selection.

    The level is that of Benjamini and Yekutieli 2005, doi:10.1198/016214504000001907: of the intervals of the selected
    slices, a share ``rate`` misses.
    """
    q = benjamini_hochberg(np.array([candidate.p for candidate in candidates]), tests)
    discoveries = {candidate: float(value) for candidate, value in zip(candidates, q, strict=True) if value <= rate}
    return discoveries, 1 - rate * max(len(discoveries), 1) / max(tests, 1)


def _build_result(
    table: PredictionTable,
    row_scores: RowScores,
    slices: Sequence[Slice],
    tests: int,
    feature_pairs: _FineAndCoarse,
    searched: int,
    level: float,
) -> Slices:
    n_left_out, rows = count_unscored_rows(table, row_scores), len(row_scores.rows)
    notes = (
        (f"{n_left_out} rows without a target or a prediction are left out", n_left_out > 0),
        (f"searched {searched} random rows of {rows}; the reported numbers are of all rows", searched < rows),
        ("nothing to search: too few rows or no columns; pass columns= with attributes of the samples", not tests),
    )
    return Slices(
        tuple(slices),
        tried=tests,
        features=tuple(fine.name for fine, _ in feature_pairs),
        rows=len(table),
        searched=searched,
        measure=row_scores.measure,
        overall=float(row_scores.values.mean()) if rows else float("nan"),
        level=level,
        notes=tuple(text for text, holds in notes if holds),
    )
