"""Whether the gradients are finite, at a price that every step can pay."""

from __future__ import annotations

import cmath
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn

SMALL = 4096  # values of a parameter


class Pulse:
    """Looks at the gradient of the first small parameter that has one, such as a bias.

    What is not finite in a backward pass reaches all that lies before it, and of each layer the bias.
    """

    def __init__(self, model: nn.Module) -> None:
        self.all = [p for p in model.parameters() if p.requires_grad]
        self.watched = [p for p in self.all if p.numel() <= SMALL] or self.all

    def is_finite(self) -> bool:
        """Whether the gradient looked at holds neither NaN nor Inf; waits for the device."""
        first = next(gradients(self.watched), None)
        if first is None or cmath.isfinite(first.sum().item()):
            return True
        return all(bool(one.isfinite().all()) for one in gradients(self.all))  # a sum of finite numbers may overflow


def gradients(parameters: Iterable[Tensor]) -> Iterator[Tensor]:
    """The gradients that are there."""
    for p in parameters:
        if (gradient := p.grad) is not None and gradient.layout is torch.strided:
            yield gradient
