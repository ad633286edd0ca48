"""The loss of each sample, by the user's own loss function if possible."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.setup.losses import get_loss_kind

UnreducedLoss = Callable[..., Any]
_ROWS_PER_CALL = 1 << 16
_AGREEMENT_TOLERANCE = 1e-3


def get_unreduced_loss(loss_fn: Any) -> UnreducedLoss | None:
    """Return a loss without reduction: one value per sample, pixel or token; None if there is no such loss.

    Works for the losses of torch and others with a ``reduction``; weights and label smoothing are kept.
    """
    if isinstance(loss_fn, nn.Module):
        if not hasattr(loss_fn, "reduction"):
            return None
        unreduced = copy.copy(loss_fn)
        vars(unreduced)["reduction"] = "none"
        return unreduced
    try:
        has_reduction = "reduction" in signature(loss_fn).parameters
    except (TypeError, ValueError):
        has_reduction = get_loss_kind(loss_fn) != "other"
    return partial(loss_fn, reduction="none") if has_reduction else None


def per_sample_loss(loss_fn: Any, output: Tensor, target: Tensor) -> Tensor | None:
    """Return the user's loss of each sample, averaged within the sample; None if it is not available.

    A loss from outside torch is used only if the mean or the sum of its values equals its reduced result.
    """
    unreduced = get_unreduced_loss(loss_fn)
    if unreduced is None:
        return None
    try:
        chunks = (slice(start, start + _ROWS_PER_CALL) for start in range(0, len(output), _ROWS_PER_CALL))
        values = torch.cat([_loss_per_row(unreduced, output[chunk], target[chunk]) for chunk in chunks])
        if get_loss_kind(loss_fn) == "other" and not _matches_reduced_loss(
            values, loss_fn(output[:_ROWS_PER_CALL], target[:_ROWS_PER_CALL])
        ):
            return None
    except Exception:  # if the user's loss fails in any way, the caller falls back to a standard loss
        return None
    return values


def _loss_per_row(unreduced: UnreducedLoss, output: Tensor, target: Tensor) -> Tensor:
    """Return one value per row; raise ValueError if there is not one."""
    values = unreduced(output, target)
    if not isinstance(values, Tensor) or not values.dim() or len(values) != len(output):
        raise ValueError("the loss has no value for each row")
    return values.detach().flatten(1).mean(1) if values.dim() > 1 else values.detach()


def _matches_reduced_loss(values: Tensor, reduced: Any) -> bool:
    """Return whether the mean or the sum of the values equals the reduced loss."""
    values_used = values[:_ROWS_PER_CALL].double()
    reductions = torch.stack([values_used.mean(), values_used.sum()])
    return bool(((reductions - reduced).abs() <= _AGREEMENT_TOLERANCE * (1 + abs(float(reduced)))).any())
