"""Losses of a run that fall below zero without end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nbdebug.records import Record

_UNBOUNDED_FACTOR, _MIN_LOSSES = 1e4, 3
_ACCELERATED_FACTOR, _ACCELERATION, _MIN_ACCELERATED_LOSSES = 20.0, 1.2, 20
_MARGIN_FACTOR, _END_SHARE = 3.0, 0.1  # of a homogeneous loss: fall relative to its start, and the end of the run


def find_unbounded_decrease(record: Record, *, may_accelerate: bool) -> tuple[int, float, float] | None:
    """Return step and value of the lowest loss, and the size of the first one, if the loss is unbounded below.

    With ``may_accelerate``, a loss that falls faster and faster counts earlier; that of a critic may do so.
    """
    steps, losses = record.series("loss")
    finite_losses = losses[np.isfinite(losses)].astype(np.float64)
    if len(finite_losses) < _MIN_LOSSES:
        return None
    initial = max(float(np.abs(finite_losses[:_MIN_LOSSES]).min()), 1.0)
    lowest = float(finite_losses.min())
    is_accelerated = may_accelerate and _accelerates(finite_losses)
    factor = _ACCELERATED_FACTOR if is_accelerated else _UNBOUNDED_FACTOR
    return (
        (int(steps[np.isfinite(losses)][finite_losses.argmin()]), lowest, initial)
        if lowest < -factor * initial
        else None
    )


def _accelerates(losses: NDArray[np.float64]) -> bool:
    """Check whether the loss falls faster in each quarter of the run than in the previous one."""
    if len(losses) < _MIN_ACCELERATED_LOSSES:
        return False
    falls = -np.diff([part.mean() for part in np.array_split(losses, 5)])
    return bool((falls > 0).all() and (falls[1:] > _ACCELERATION * falls[:-1]).all())


def find_end_below_zero(record: Record) -> float | None:
    """Return the median of the last losses if it lies below zero by a multiple of the size of the first ones."""
    losses = record.series("loss")[1].astype(np.float64)
    losses = losses[np.isfinite(losses)]
    if len(losses) < _MIN_LOSSES:
        return None
    last = float(np.median(losses[-max(_MIN_LOSSES, int(_END_SHARE * len(losses))) :]))
    return last if last < -_MARGIN_FACTOR * max(float(np.abs(losses[:_MIN_LOSSES]).max()), 1.0) else None
