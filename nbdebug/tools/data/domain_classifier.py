"""A classifier that tells the samples of two splits apart, if they differ in any combination of their features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.baselines.input_features import Matrix, feature_matrix
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.metrics.roc import auc_interval
from nbdebug.statistics.intervals import normal_quantile, prediction_limit
from nbdebug.statistics.power import POWER
from nbdebug.tensors.row_search import get_row_keys
from nbdebug.tools.data.comparison_features import FeatureColumn

MIN_ROWS = 40
_MAX_ROWS, _TREES, _MIN_LEAF, _LEVEL = 1000, 100, 5, 0.99
_MIN_AUC, _MAX_NAMED, _MIN_IMPORTANCE = 0.55, 5, 0.02
_PERMUTATIONS, _PERMUTED_LEVEL, _CLEAR_AUC = 20, 0.004, 0.75
_MAX_MATRIX_COLUMNS = 256
_INTERVAL_QUANTILE, _POWER_QUANTILE = normal_quantile(_LEVEL), normal_quantile(2 * POWER - 1)

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DomainClassifier:
    """The area under the ROC curve of a classifier of the split, with its 99% interval; 0.5 if it cannot tell.

    ``features`` are the names and the importances of the features that tell most; ``rows`` is the number of samples.
    ``by_chance`` is the area that forests reach after the splits were permuted, with a probability of 0.4%.
    ``copies`` of the other split bring the area below 0.5 and leave too few other samples; 0 otherwise.
    """

    auc: float
    low: float
    high: float
    rows: int
    features: tuple[tuple[str, float], ...]
    by_chance: float = 0.5
    copies: int = 0

    @property
    def tells_splits_apart(self) -> bool:
        """True if the area exceeds what is reached by chance, and is at least 0.55."""
        return self.low > 0.5 and self.auc >= max(_MIN_AUC, self.by_chance)

    @property
    def detectable_area(self) -> float:
        """The area that would have exceeded chance with 90% probability, by the standard error of the interval."""
        error = (self.high - self.low) / (2 * _INTERVAL_QUANTILE)
        return float(max(_MIN_AUC, 0.5 + (_INTERVAL_QUANTILE + _POWER_QUANTILE) * error))

    def __str__(self) -> str:
        """The area with its interval, and the features that tell most."""
        names = ", ".join(f"{name} ({importance:.0%})" for name, importance in self.features)
        named = f"; most important: {names}" if names and self.tells_splits_apart else ""
        cause = f", below 0.5 because {self.copies:,} of them are in both splits" if self.copies else ""
        return f"AUC {self.auc:.3f} ({self.low:.3f} to {self.high:.3f}) on {self.rows:,} samples{cause}{named}"


@dataclass(frozen=True, eq=False)
class _SharedFeatures:
    """The features that both splits have, of the distinct samples at the positions ``rows`` of their tables."""

    names: tuple[str, ...]
    first: Matrix
    second: Matrix
    rows: tuple[NDArray[np.int64], NDArray[np.int64]]


def share_features(
    tables: tuple[SplitTable, SplitTable], columns: tuple[Sequence[FeatureColumn], Sequence[FeatureColumn]]
) -> _SharedFeatures | None:
    """Return the features of the first 1,000 distinct samples of both splits; None for too few samples or features.

    Copies of a sample within a split count once, since a learner that was fitted to one of them knows the other.
    """
    rows = (_distinct_rows(tables[0]), _distinct_rows(tables[1]))
    if min(map(len, rows)) < MIN_ROWS:
        return None
    names, features = _join_features(tables, columns, rows)
    count = len(rows[0])
    return _SharedFeatures(tuple(names), features[:count], features[count:], rows) if features.shape[1] else None


def fit_domain_classifier(shared: _SharedFeatures) -> tuple[DomainClassifier, _Floats]:
    """Return a random forest's out-of-bag area under the ROC curve on the features of both splits, and its scores.

    The scores are the out-of-bag probabilities of each sample, of both splits, of being one of the second.

    The interval is that of Hanley and McNeil 1982, doi:10.1148/radiology.143.1.7063747; importances are the mean
    decrease of impurity. An area that is neither clear nor due to chance by this interval is compared with permuted
    splits.
    """
    from sklearn.metrics import roc_auc_score

    sizes = len(shared.first), len(shared.second)
    features, is_second = np.vstack([shared.first, shared.second]), np.repeat([0, 1], sizes)
    scores, importances = _fit_forest(features, is_second)
    auc = float(roc_auc_score(is_second, scores))
    low, high = auc_interval(auc, sizes[1], sizes[0], _LEVEL)
    if high < 0.5 and (is_copy := _find_copies(features, is_second)).any():
        return _leave_out_copies(shared, DomainClassifier(auc, low, high, sum(sizes), ()), is_copy), scores
    is_doubtful = low > 0.5 and _MIN_AUC <= auc < _CLEAR_AUC
    by_chance = _area_by_chance(features, is_second) if is_doubtful else 0.5
    order = np.argsort(-importances, kind="stable")[:_MAX_NAMED]
    telling = [(shared.names[index], float(importances[index])) for index in order]
    named = tuple(item for item in telling if item[1] >= _MIN_IMPORTANCE)
    return DomainClassifier(auc, low, high, sum(sizes), named, by_chance), scores


def _find_copies(features: Matrix, is_second: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return the samples whose features are those of a sample of the other split."""
    group = np.unique(features, axis=0, return_inverse=True)[1].reshape(-1)
    found: NDArray[np.bool_] = np.isin(group, np.intersect1d(group[is_second == 0], group[is_second == 1]))
    return found


def _leave_out_copies(
    shared: _SharedFeatures, with_copies: DomainClassifier, is_copy: NDArray[np.bool_]
) -> DomainClassifier:
    """Return the classifier of the samples that only one split has; that of all if these are too few.

    A tree that knows one of two copies takes the other one for a sample of the wrong split.
    """
    is_own = np.split(~is_copy, [len(shared.first)])
    if min(part.sum() for part in is_own) < MIN_ROWS:
        return replace(with_copies, copies=int(is_copy.sum()))
    rest = replace(shared, first=shared.first[is_own[0]], second=shared.second[is_own[1]])
    return fit_domain_classifier(rest)[0]


def _fit_forest(features: Matrix, is_second: NDArray[np.int64]) -> tuple[_Floats, _Floats]:
    """Return the out-of-bag scores of a random forest, and the importances of the features."""
    from sklearn.ensemble import RandomForestClassifier

    forest = RandomForestClassifier(
        _TREES, min_samples_leaf=_MIN_LEAF, class_weight="balanced_subsample", oob_score=True, random_state=0
    )
    forest.fit(features, is_second)
    scores: _Floats = np.nan_to_num(forest.oob_decision_function_[:, 1], nan=0.5)
    return scores, forest.feature_importances_


def _area_by_chance(features: Matrix, is_second: NDArray[np.int64]) -> float:
    """Return the area that a forest exceeds with probability 0.4% if the splits have the same distribution.

    The interval of the area treats the scores as independent, but the trees share samples, so that the areas of equal
    splits vary more. The bound is the prediction limit of Student's t from the areas of twenty permuted splits.
    """
    from sklearn.metrics import roc_auc_score

    generator, areas = np.random.default_rng(0), []
    for _ in range(_PERMUTATIONS):
        permuted = generator.permutation(is_second)
        areas.append(float(roc_auc_score(permuted, _fit_forest(features, permuted)[0])))
    return prediction_limit(areas, _PERMUTED_LEVEL)


def _distinct_rows(table: SplitTable) -> NDArray[np.int64]:
    """Return the positions of the first distinct rows."""
    parts = [part for part in table.inputs if part.numel()]
    if not parts:
        return np.zeros(0, np.int64)
    first: dict[object, int] = {}
    for position, key in enumerate(get_row_keys([part[: 4 * _MAX_ROWS] for part in parts])):
        first.setdefault(key, position)
    return np.array(list(first.values())[:_MAX_ROWS], np.int64)


def _join_features(
    tables: tuple[SplitTable, SplitTable],
    columns: tuple[Sequence[FeatureColumn], Sequence[FeatureColumn]],
    rows: Sequence[NDArray[np.int64]],
) -> tuple[list[str], Matrix]:
    """Return names and values of the features of both splits: those that are compared, and small inputs as they are."""
    shared = set.intersection(*({column.title for column in side if column.role == "input"} for side in columns))
    own = [[column for column in side if column.title in shared] for side in columns]
    names = [column.name for column in own[0]]
    sides = []
    for table, side, positions in zip(tables, own, rows, strict=True):
        compared = np.stack([column.values[positions] for column in side], 1) if side else np.zeros((len(positions), 0))
        sides.append([np.nan_to_num(compared, nan=-1e9).astype(np.float32), _raw_columns(table, positions)])
    raw = [parts[1] for parts in sides]
    if raw[0].shape[1] == raw[1].shape[1]:
        joined = [np.hstack(parts) for parts in sides]
        names += [f"value {index} of the input" for index in range(raw[0].shape[1])]
    else:
        joined = [parts[0] for parts in sides]
    return names, np.vstack(joined)


def _raw_columns(table: SplitTable, positions: NDArray[np.int64]) -> Matrix:
    """Return inputs with several axes as a matrix of few columns; those of tables are compared anyway."""
    parts = [part[torch.as_tensor(positions)] for part in table.inputs if part.dim() > 2 and not part.is_complex()]
    try:
        matrix = feature_matrix(parts)
    except NotChecked:
        return np.zeros((len(positions), 0), np.float32)
    stride = -(-matrix.shape[1] // _MAX_MATRIX_COLUMNS)
    return matrix[:, :: max(stride, 1)]
