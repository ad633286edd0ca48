"""Soft labels: targets that are probabilities of the classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.predictions.arrays import array
from nbdebug.predictions.scores import CLOSE, Floats, Form, softmaxed

SOFT = "targets are soft: the label is the likeliest class, and the loss counts all of them"


def soft(targets: Any) -> Floats | None:
    """Rows × classes of probabilities; None for targets of any other kind, also for rows with a single 1."""
    if isinstance(targets, (list, tuple)) and targets and isinstance(targets[0], str):
        return None
    found = array(targets)
    if found.ndim != 2 or found.shape[1] < 2 or found.dtype.kind != "f" or not len(found):
        return None
    if not (found.min() >= 0 and bool((np.abs(found.sum(1) - 1) < CLOSE).all())) or np.isin(found, (0, 1)).all():
        return None
    return np.asarray(found, np.float32)


def soft_loss(scores: Floats, target: Floats, form: Form) -> NDArray[np.float32]:
    """The cross-entropy against all classes."""
    logs = softmaxed(scores, form)[1]
    return np.asarray(-np.where(target > 0, target * logs, 0).sum(1), np.float32)
