"""Correlated features, interactions of features, and the skill of single features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.tools.importance.features import InputFeature

_Floats = NDArray[np.float64]
_MIN_RANK_CORRELATION, _MAX_CLUSTERED_COLUMNS, _VALUE_BINS, _MIN_RESIDUAL_SHARE = 0.9, 500, 10, 0.02
_CV_FOLDS, _MAX_LEAVES, _MIN_SAMPLES_PER_LEAF = 5, 32, 4


def correlated_clusters(
    features: Sequence[InputFeature], values: _Floats, min_correlation: float = _MIN_RANK_CORRELATION
) -> list[list[int]]:
    """Group columns whose rank correlations are at least ``min_correlation``, directly or through others."""
    from scipy.sparse.csgraph import connected_components

    columns = [j for j, item in enumerate(features) if item.kind == "column" and np.ptp(values[:, j]) > 0]
    if len(columns) < 2 or len(columns) > _MAX_CLUSTERED_COLUMNS or len(values) < 10:
        return []
    _, labels = connected_components(np.abs(_column_rank_correlations(values[:, columns])) >= min_correlation)
    groups = [[columns[i] for i in np.flatnonzero(labels == item)] for item in range(labels.max() + 1)]
    return [item for item in groups if len(item) > 1]


def _column_rank_correlations(values: _Floats) -> _Floats:
    """Return Spearman's correlations of non-constant columns."""
    from scipy.stats import rankdata

    return np.asarray(np.atleast_2d(np.corrcoef(rankdata(values, axis=0), rowvar=False)))


def interaction_partner(attributions: Any, values: _Floats, j: int, considered: Sequence[int]) -> int | None:
    """Return the feature that best explains the residual of a feature's attributions at similar values of its own.

    A line is removed in each tenth of the feature's own values; for an additive model, little is left. None if no other
    feature correlates with the residual by more than four standard errors.
    """
    residual = attributions[:, j] - _own_effect(attributions[:, j], values[:, j])
    if len(residual) < 2 * _VALUE_BINS or residual.std() <= _MIN_RESIDUAL_SHARE * max(attributions[:, j].std(), 1e-12):
        return None
    candidates = [i for i in considered if i != j and np.ptp(values[:, i]) > 0]
    correlations = [_residual_correlation(residual, values[:, i], values[:, j]) for i in candidates]
    return (
        candidates[int(np.argmax(correlations))]
        if correlations and max(correlations) > 4 / np.sqrt(len(residual))
        else None
    )


def _residual_correlation(residual: _Floats, other: _Floats, own: _Floats) -> float:
    """Return the largest correlation of the residual with another feature, in each half of the feature's values."""
    upper = own > np.median(own)
    halves = [
        half
        for half in (upper, ~upper)
        if half.sum() > _VALUE_BINS and np.ptp(other[half]) > 0 and residual[half].std() > 0
    ]
    return max((abs(float(np.corrcoef(residual[half], other[half])[0, 1])) for half in halves), default=0.0)


def _own_effect(attributions: _Floats, values: _Floats) -> _Floats:
    """Fit the attributions by the feature's own value: a line in each tenth."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, _VALUE_BINS + 1)[1:-1]))
    bin_index, fit = np.searchsorted(edges, values), np.zeros(len(values))
    for bin_number in np.unique(bin_index):
        in_bin = bin_index == bin_number
        x, y = values[in_bin] - values[in_bin].mean(), attributions[in_bin]
        slope = (x * y).sum() / max((x * x).sum(), 1e-12)
        fit[in_bin] = y.mean() + slope * x
    return fit


def single_feature_skill(values: NDArray[Any], target: NDArray[Any]) -> float:
    """Return the share of the error of a constant prediction that a tree on one feature removes, out of sample.

    For classes, accuracy relative to the most frequent class; for numbers, R². NaN for fewer than 20 samples, or a
    single class. Breiman et al. 1984, Classification and Regression Trees.
    """
    from sklearn.model_selection import KFold, cross_val_predict
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    if len(target) < 4 * _CV_FOLDS or np.ptp(target) == 0:
        return float("nan")
    classes = target.dtype.kind in "iu"
    tree = (DecisionTreeClassifier if classes else DecisionTreeRegressor)(
        max_leaf_nodes=_MAX_LEAVES, min_samples_leaf=_MIN_SAMPLES_PER_LEAF, random_state=0
    )
    folds = KFold(_CV_FOLDS, shuffle=True, random_state=0)
    predictions = cross_val_predict(tree, np.asarray(values).reshape(len(target), -1), target, cv=folds)
    if not classes:
        return float(1 - np.mean((target - predictions) ** 2) / np.var(target))
    constant = np.bincount(target - target.min()).max() / len(target)
    return float((np.mean(predictions == target) - constant) / (1 - constant))
