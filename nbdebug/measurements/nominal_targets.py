"""Numbers of classes that a regression learns as if they were quantities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.baselines.reference_learner import Targets
from nbdebug.measurements.reference import Reference
from nbdebug.measurements.registry import slow_measurement

_MIN_NUMBERS, _MAX_NUMBERS, _MIN_ROWS_PER_NUMBER = 3, 100, 10  # different numbers among the targets


@dataclass(frozen=True)
class NominalTargets:
    """Out-of-fold predictions of whole-number targets as quantities, and as classes without order, by one learner.

    A quantity is predicted as the nearest number that occurs. The errors are mean squared errors of the number; for
    quantities before the number is rounded.
    """

    numbers: int
    rows: int
    accuracy_as_quantities: float
    accuracy_as_classes: float
    error_as_quantities: float
    error_as_classes: float


@slow_measurement
def nominal_targets(reference: Reference) -> NominalTargets | None:
    """How well a regression learns whole-number training targets, and how well a classification does."""
    rows = reference.rows("train")
    if rows.targets.kind != "values" or rows.targets.columns.shape[1] != 1:
        return None
    values = rows.targets.columns[:, 0]
    numbers, classes, counts = np.unique(values, return_inverse=True, return_counts=True)
    if not _MIN_NUMBERS <= len(numbers) <= _MAX_NUMBERS or counts.min() < _MIN_ROWS_PER_NUMBER:
        return None
    if (numbers != numbers.round()).any():
        return None
    quantities = rows.learner.kernel_ridge.predictions[:, 0]
    rounded = np.abs(quantities[:, None] - numbers).argmin(1)
    one_hot = np.eye(len(numbers))[classes]
    predicted = rows.learner.with_targets(Targets("classes", one_hot)).kernel_ridge.predictions.argmax(1)
    return NominalTargets(
        len(numbers),
        len(values),
        float((rounded == classes).mean()),
        float((predicted == classes).mean()),
        float(((quantities - values) ** 2).mean()),
        float(((numbers[predicted] - values) ** 2).mean()),
    )
