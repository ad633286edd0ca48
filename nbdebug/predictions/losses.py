"""The loss of each sample by itself, by the user's own loss where it can be had."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.setup.losses import named

Each = Callable[..., Any]
ROWS = 1 << 16
CLOSE = 1e-3


def each(loss_fn: Any) -> Each | None:
    """A loss without its mean: one value for each sample, pixel or token; None where it cannot be had.

    torch's losses, and others that take a ``reduction`` as they do, can; weights and label smoothing stay.
    """
    if isinstance(loss_fn, nn.Module):
        if not hasattr(loss_fn, "reduction"):
            return None
        apart = copy.copy(loss_fn)
        vars(apart)["reduction"] = "none"
        return apart
    try:
        takes = "reduction" in signature(loss_fn).parameters
    except (TypeError, ValueError):
        takes = named(loss_fn) != "other"
    return partial(loss_fn, reduction="none") if takes else None


def per_sample(loss_fn: Any, output: Tensor, target: Tensor) -> Tensor | None:
    """The user's loss of each sample, the mean over all that a sample holds; None where it cannot be had.

    A loss that is not one of torch's is believed only where the mean or the sum of its values is what it gives itself.
    """
    apart = each(loss_fn)
    if apart is None:
        return None
    try:
        pieces = (slice(at, at + ROWS) for at in range(0, len(output), ROWS))
        values = torch.cat([rows_of(apart, output[piece], target[piece]) for piece in pieces])
        if named(loss_fn) == "other" and not agrees(values, loss_fn(output[:ROWS], target[:ROWS])):
            return None
    except Exception:  # whatever a loss of the user's own raises, the usual one can be had
        return None
    return values


def rows_of(apart: Each, output: Tensor, target: Tensor) -> Tensor:
    """One value a row; raises ValueError where there is not one."""
    values = apart(output, target)
    if not isinstance(values, Tensor) or not values.dim() or len(values) != len(output):
        raise ValueError("no value a row")
    return values.detach().flatten(1).mean(1) if values.dim() > 1 else values.detach()


def agrees(values: Tensor, whole: Any) -> bool:
    """Whether the mean or the sum of values is what the loss gives as a whole."""
    some = values[:ROWS].double()
    ways = torch.stack([some.mean(), some.sum()])
    return bool(((ways - whole).abs() <= CLOSE * (1 + abs(float(whole)))).any())
