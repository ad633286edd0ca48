"""Losses that are homogeneous in the outputs of a model: larger outputs lower them without bound."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.tensors.pytree import tree_tensors

_DEGREES = (1, 2)  # of margins between scores or distances, and between squared distances
_MIN_PASSES, _TOLERANCE = 5, 0.01
_MIN_OPPOSITE_SHARE = 0.1  # of the gradient with the rarer sign


@dataclass(frozen=True)
class HomogeneousLoss:
    """A loss that is about ``margin`` plus a function that grows with the power ``degree`` of the outputs.

    Measured in ``passes`` backward passes, with losses from ``first`` to ``lowest``, and with margins that differ by
    little from pass to pass: from ``lowest_margin`` to ``highest_margin``.
    """

    degree: int
    margin: float
    passes: int
    first: float
    lowest: float
    lowest_margin: float
    highest_margin: float


@dataclass(frozen=True)
class _LossSample:
    """A loss, and the sums of gradient times output over all outputs and of the gradients of each sign."""

    loss: float
    product: float
    positive: float
    negative: float


class HomogeneousLossMonitor:
    """Compares the loss of some passes with the product of the outputs and their gradients.

    By Euler's theorem, a function of degree k equals that product divided by k. A loss that also has such a part is
    unbounded below once that part is negative, since larger outputs multiply it. A loss whose gradients all have one
    sign takes the output for a score, such as a log-likelihood or a similarity, and does not count.
    """

    def __init__(self) -> None:
        self.samples: list[_LossSample] = []
        self.sums: list[Tensor] = []
        self.loss: float | None = None

    def on_forward_end(self, output: Any) -> None:
        """Follow the gradient of each output tensor of a pass that is inspected."""
        for tensor in tree_tensors(output):
            if tensor.requires_grad and tensor.is_floating_point() and tensor.layout is torch.strided:
                tensor.register_hook(self.gradient_hook(tensor.detach()))  # type: ignore[no-untyped-call]

    def gradient_hook(self, values: Tensor) -> Callable[[Tensor], None]:
        """Return a hook that adds the sums of one gradient."""
        version = values._version

        def add(gradient: Tensor) -> None:
            if values._version == version:
                product = (gradient * values).sum()
                self.sums.append(torch.stack([product, gradient.clamp(min=0).sum(), gradient.clamp(max=0).sum()]))

        return add

    def on_backward_begin(self, roots: Sequence[Tensor]) -> None:
        """Forget the gradients of earlier passes, and store the loss of this one."""
        self.sums = []
        self.loss = float(roots[0].detach()) if len(roots) == 1 and roots[0].numel() == 1 else None

    def on_backward_end(self) -> None:
        """Store the loss of an inspected pass with the sums of its gradients."""
        sums, self.sums = self.sums, []
        if sums and self.loss is not None:
            product, positive, negative = torch.stack([part.double().cpu() for part in sums]).sum(0).tolist()
            self.samples.append(_LossSample(self.loss, product, positive, -negative))

    def summary(self) -> HomogeneousLoss | None:
        """Return the degree of the loss, if it has one and fell below zero."""
        losses = [sample.loss for sample in self.samples]
        if len(losses) < _MIN_PASSES or min(losses) >= 0 or not all(map(_has_both_signs, self.samples)):
            return None
        for degree in _DEGREES:
            margins = [sample.loss - sample.product / degree for sample in self.samples]
            if max(margins) - min(margins) <= _TOLERANCE * (max(losses) - min(losses)):
                mean, bounds = sum(margins) / len(margins), (min(margins), max(margins))
                return HomogeneousLoss(degree, mean, len(losses), losses[0], min(losses), *bounds)
        return None


def _has_both_signs(sample: _LossSample) -> bool:
    total = sample.positive + sample.negative
    return min(sample.positive, sample.negative) >= _MIN_OPPOSITE_SHARE * total > 0
