"""Which outputs a loss is made for: any numbers, probabilities, their logarithms, or points on a sphere."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

LOGITS = frozenset(
    {"LogSoftmax", "Softmax", "BinaryCrossEntropyWithLogits", "Logsumexp", "Sigmoid", "LogSigmoid", "Softplus"}
)
CLASSES = frozenset({"NllLoss", "NllLoss2D", "BinaryCrossEntropyWithLogits"})
PRODUCTS = frozenset({"Mm", "Bmm"})
LOGARITHMS = frozenset({"Log", "Log1P", "Log2", "Log10", "Xlogy"})
CLOSE = 1e-3


@dataclass(frozen=True)
class Domain:
    """A set of outputs, by the function that maps any numbers into it; ``start`` maps outputs back."""

    name: str
    into: Callable[[Tensor], Tensor]
    start: Callable[[Tensor], Tensor]


def free(start: Callable[[Tensor], Tensor] = torch.Tensor.clone) -> Domain:
    """All numbers."""
    return Domain("any numbers", lambda z: z, start)


def simplex(axis: int) -> Domain:
    """Probabilities of classes that sum to one."""
    return Domain("class probabilities", lambda z: z.softmax(axis), lambda p: p.clamp_min(1e-6).log())


def log_simplex(axis: int) -> Domain:
    """Logarithms of such probabilities."""
    return Domain("log-probabilities", lambda z: z.log_softmax(axis), torch.Tensor.clone)


def sphere(axis: int) -> Domain:
    """Vectors of length one."""
    return Domain("unit vectors", lambda z: F.normalize(z, dim=axis), torch.Tensor.clone)


UNIT = Domain("probabilities", torch.sigmoid, lambda p: p.clamp(1e-3, 1 - 1e-3).logit())


def intended(output: Tensor, operations: Collection[str]) -> Domain:
    """The outputs that a loss made of these autograd ``operations`` takes, of which ``output`` is one."""
    axis = summing_axis(output, 1.0, squared=True)
    if axis is not None and (not CLASSES & set(operations) or PRODUCTS & set(operations)):
        return sphere(axis)
    if LOGITS & set(operations):
        return free(torch.zeros_like)
    if {"NllLoss", "NllLoss2D"} & set(operations):
        return log_simplex(1 if output.dim() > 1 else 0)
    if "BinaryCrossEntropy" in operations:
        return UNIT
    return observed(output) if LOGARITHMS & set(operations) else free()


def observed(output: Tensor) -> Domain:
    """The narrowest of the sets that holds ``output``."""
    if not bool(((output >= 0) & (output <= 1)).all()):
        return free()
    axis = summing_axis(output, 1.0, squared=False)
    return UNIT if axis is None else simplex(axis)


def summing_axis(output: Tensor, total: float, *, squared: bool) -> int | None:
    """The axis, longer than one, along which the values (or their squares) always sum to ``total``."""
    values = output.detach().double()
    values = values.square() if squared else values
    axes = [axis for axis in (-1, 1) if -output.dim() <= axis < output.dim() and output.dim() > 1]
    return next((a for a in axes if output.shape[a] > 1 and bool(((values.sum(a) - total).abs() < CLOSE).all())), None)
