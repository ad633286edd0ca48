"""Tells a shift of the relation of inputs and targets (concept) from a shift of the inputs alone (covariates)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.input_features import Matrix
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.statistics.intervals import normal_quantile, prediction_limit
from nbdebug.statistics.power import POWER
from nbdebug.tools.data.feature_leaks import relative_errors

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int64]
_TREES, _MIN_LEAF, _FOLDS, _MAX_ROWS = 50, 3, 5, 600
_MIN_ROWS, _MIN_SHARED, _MIN_OVERLAP = 100, 60, 0.2
_MIN_SIGMAS, _MIN_DIFFERENCE, _POWER_QUANTILE = 3.0, 0.05, normal_quantile(2 * POWER - 1)
_EXCHANGES, _LEVEL = 10, 0.005


@dataclass(frozen=True)
class ConceptShift:
    """Errors on ``rows`` samples of the second split of learners that were fitted to the first and to the second.

    ``transferred`` and ``own`` are the mean errors, relative to those of a constant, and ``error`` is the standard
    error of their difference. Only the samples where both splits have samples are compared, out of ``total``:
    elsewhere, a learner of the first split has seen nothing. With fewer than 60, the question is not decidable.
    ``by_chance`` is the difference that splits of the same relation exceed with one chance in 200, 0 if it was not
    needed.
    """

    transferred: float
    own: float
    error: float
    rows: int
    total: int
    by_chance: float = 0.0

    @property
    def is_decidable(self) -> bool:
        """True if enough samples lie where both splits have samples."""
        return self.rows >= _MIN_SHARED

    @property
    def is_shifted(self) -> bool:
        """True if the learner of the first split is worse by three standard errors, and 5% of a constant's errors."""
        difference = self.transferred - self.own
        return self.is_decidable and difference > max(_MIN_SIGMAS * self.error, _MIN_DIFFERENCE, self.by_chance)

    @property
    def detectable(self) -> float:
        """The difference that would have been shown with 90% probability."""
        return max((_MIN_SIGMAS + _POWER_QUANTILE) * self.error, _MIN_DIFFERENCE)

    def describe(self, first: str, second: str) -> str:
        """Return the errors in words, with the names of the splits."""
        return (
            f"a learner of {first} makes {self.transferred:.0%} of the errors of a constant on {second}, and a "
            f"learner of {second} {self.own:.0%} ({self.rows:,} samples)"
        )


def measure_concept_shift(
    tables: tuple[SplitTable, SplitTable],
    features: tuple[Matrix, Matrix],
    rows: tuple[_Ints, _Ints],
    similarity: _Floats,
) -> ConceptShift | None:
    """Compare learners of both splits on the second; None without one target for each sample, or for few samples.

    ``features`` are those of the samples at the positions ``rows``, of which the first 600 are used; ``similarity`` is
    the probability of each sample of the second split of being one of the first. Both learners are random forests that
    see equally many samples. The learner of the second split predicts folds of neighbors in the dataset, which it did
    not see, so that samples of one source do not help it. A difference beyond three standard errors, which leave out
    how much the forests vary, is compared with the differences after the samples were exchanged between the splits at
    random.
    """
    x = features[0][:_MAX_ROWS], features[1][:_MAX_ROWS]
    targets = tables[0].target_values(), tables[1].target_values()
    if targets[0] is None or targets[1] is None:
        return None
    known, y = targets[0][rows[0][:_MAX_ROWS]], targets[1][rows[1][:_MAX_ROWS]]
    is_class = tables[0].labels is not None
    has_unlabeled = is_class and min(known.min(), y.min()) < 0
    if min(len(known), len(y)) < _MIN_ROWS or not np.ptp(y) or has_unlabeled:
        return None
    folds = _neighboring_folds(np.asarray(tables[1].indices)[rows[1][:_MAX_ROWS]])
    errors = _left_out_errors((x[0], known), (x[1], y), folds, is_class)
    transferred, own = errors[:, similarity[: len(y)] >= _MIN_OVERLAP]
    count = len(own)
    if count < _MIN_SHARED:
        return ConceptShift(float("nan"), float("nan"), float("inf"), count, len(y))
    error = float((transferred - own).std(ddof=1) / np.sqrt(count))
    shift = ConceptShift(float(transferred.mean()), float(own.mean()), error, count, len(y))
    if not shift.is_shifted:
        return shift
    by_chance = _difference_by_chance(np.vstack(x), np.concatenate([known, y]), folds, is_class)
    return replace(shift, by_chance=by_chance)


def _left_out_errors(
    first: tuple[Matrix, _Floats], second: tuple[Matrix, _Floats], folds: _Ints, is_class: bool
) -> _Floats:
    """Return the errors on the second samples of a learner of the first and of one of the other second folds."""
    x, y = second
    generator, predicted = np.random.default_rng(0), np.zeros((2, len(y)))
    for fold in range(_FOLDS):
        is_left_out = folds == fold
        seen = generator.permutation(np.flatnonzero(~is_left_out))[: len(first[1])]
        chosen = generator.permutation(len(first[1]))[: len(seen)]
        for row, (inputs, targets) in enumerate(((first[0][chosen], first[1][chosen]), (x[seen], y[seen]))):
            predicted[row, is_left_out] = _new_forest(is_class).fit(inputs, targets).predict(x[is_left_out])
    return np.stack([relative_errors(values, y, is_class) for values in predicted])


def _difference_by_chance(x: Matrix, y: _Floats, folds: _Ints, is_class: bool) -> float:
    """Return the difference of the errors that is exceeded with 0.5% probability if the relation is the same.

    It is the prediction limit of Student's t from ten random exchanges of the samples between the splits.
    """
    generator, differences = np.random.default_rng(0), []
    for _ in range(_EXCHANGES):
        order = generator.permutation(len(y))
        first, second = order[: -len(folds)], order[-len(folds) :]
        transferred, own = _left_out_errors((x[first], y[first]), (x[second], y[second]), folds, is_class)
        differences.append(float((transferred - own).mean()))
    return prediction_limit(differences, _LEVEL)


def _neighboring_folds(indices: _Ints) -> _Ints:
    """Return the number of the fold of each sample; a fold holds neighbors in the dataset."""
    folds = np.empty(len(indices), np.int64)
    folds[np.argsort(indices, kind="stable")] = np.arange(len(indices)) * _FOLDS // len(indices)
    return folds


def _new_forest(is_class: bool) -> Any:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    forest = RandomForestClassifier if is_class else RandomForestRegressor
    return forest(_TREES, min_samples_leaf=_MIN_LEAF, max_features="sqrt", random_state=0)
