"""Whether the targets of the training rows only have more noise than those of the validation rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.baselines.input_features import Matrix, concatenate_padded, feature_matrix, standardize
from nbdebug.baselines.reference_learner import Floats, ReferenceLearner
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.reference import Reference

_MAX_ROWS = 1000  # of each split
_MAX_ERROR_RATIO = 0.5  # between the validation and the training errors of the learner
_MIN_EXPLAINED_SHARE = 0.6  # of the excess: by nearby training rows, and by the variance of the targets
_SLOPES = (0.85, 1.12)  # of validation targets on predictions; targets of other samples flatten the predictions
_MIN_VAL_SCORE = 0.5  # explained variance, from which the slope is known well
_MAX_SHARED = 0.02  # of the validation rows that are training rows, too


@dataclass(frozen=True)
class TargetNoise:
    """Errors of a kernel ridge regression of training rows: mean squared errors for each target value.

    ``train`` is that of training rows that were left out, ``nearby`` that of the training rows next to the validation
    rows, and ``val`` that of validation rows. ``median_ratio`` compares the medians of ``val`` and ``nearby``.
    ``slope`` is that of the validation targets as a function of the predictions, ``val_score`` their explained
    variance, and ``extra_variance`` the variance of the training targets minus that of the validation targets.
    """

    train: float
    nearby: float
    val: float
    median_ratio: float
    slope: float
    val_score: float
    extra_variance: float

    @property
    def explains_gap(self) -> bool:
        """True if the learner has the gap, too, and independent noise of the training targets explains it.

        Noise adds as much to the variance of the targets as to the error, for rows with the same inputs as well, and it
        leaves their mean as it is. Targets of other samples flatten the mean, and hard samples have other inputs.
        """
        excess = self.train - self.val
        return (
            self.val < _MAX_ERROR_RATIO * self.train
            and self.median_ratio < _MAX_ERROR_RATIO
            and min(self.nearby - self.val, self.extra_variance) > _MIN_EXPLAINED_SHARE * excess
            and _SLOPES[0] < self.slope < _SLOPES[1]
            and self.val_score > _MIN_VAL_SCORE
        )


def compare_target_noise(reference: Reference) -> TargetNoise | None:
    """Return the errors of a learner of the training rows on both splits; None if they cannot be compared.

    Takes a tenth of a second for 1,000 rows of each split. The targets must be numbers, and the splits must not share
    rows.
    """
    try:
        train, val = reference.rows("train"), reference.rows("val")
        if train.targets.kind != "values" or train.targets.columns.shape[1:] != val.targets.columns.shape[1:]:
            return None
        if [part.shape[2:] for part in train.parts] != [part.shape[2:] for part in val.parts]:
            return None
        features = feature_matrix([concatenate_padded(pair) for pair in zip(train.parts, val.parts, strict=True)])
    except NotChecked:
        return None
    train_rows, val_rows = train.kept[:_MAX_ROWS], len(train.parts[0]) + val.kept[:_MAX_ROWS]
    train_x, val_x = standardize(features[train_rows], features[val_rows])
    train_y, val_y = (rows.targets.columns[:_MAX_ROWS] for rows in (train, val))
    nearest, distances = _nearest_rows(val_x, train_x)
    if (distances == 0).mean() > _MAX_SHARED:
        return None
    learner = ReferenceLearner(train_x, train.targets.take(slice(_MAX_ROWS)))
    return _compare(learner.kernel_ridge.predictions - train_y, learner.predict(val_x), train_y, val_y, nearest)


def _compare(
    train_residuals: Floats, val_predictions: Floats, train_y: Floats, val_y: Floats, nearest: NDArray[np.int64]
) -> TargetNoise:
    """Return the comparison of the residuals of left-out training rows with those of validation rows."""
    train_errors, val_errors = (train_residuals**2).mean(1), ((val_predictions - val_y) ** 2).mean(1)
    centered = val_predictions - val_predictions.mean(0)
    slope = (centered * (val_y - val_y.mean(0))).sum() / max(float((centered**2).sum()), 1e-12)
    variance = float(val_y.var(0).mean())
    return TargetNoise(
        train=float(train_errors.mean()),
        nearby=float(train_errors[nearest].mean()),
        val=float(val_errors.mean()),
        median_ratio=float(np.median(val_errors)) / max(float(np.median(train_errors[nearest])), 1e-12),
        slope=float(slope),
        val_score=1 - float(val_errors.mean()) / max(variance, 1e-12),
        extra_variance=float(train_y.var(0).mean()) - variance,
    )


def _nearest_rows(rows: Matrix, others: Matrix) -> tuple[NDArray[np.int64], Floats]:
    """Return the nearest of other rows to each row, and its distance."""
    from sklearn.neighbors import NearestNeighbors

    distances, nearest = NearestNeighbors(n_neighbors=1).fit(others).kneighbors(rows)
    return nearest[:, 0], distances[:, 0]
