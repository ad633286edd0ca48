"""Whether the gradients are finite, at a price that every step can pay."""

from __future__ import annotations

import cmath
from collections.abc import Sequence

import torch
from torch import Tensor, nn

SMALL, MOST = 4096, 2  # values of a parameter, and parameters


class Pulse:
    """Looks at the gradients of two small parameters, such as biases: the first and one halfway.

    What is not finite in a backward pass reaches all that lies before it, and of each layer the bias.
    """

    def __init__(self, model: nn.Module) -> None:
        self.all = [p for p in model.parameters() if p.requires_grad]
        small = [p for p in self.all if p.numel() <= SMALL]
        stride = -(-len(small) // MOST) or 1
        self.watched = small[::stride] or self.all[:1]

    def is_finite(self) -> bool:
        """Whether the gradients looked at hold neither NaN nor Inf; waits for the device."""
        found = gradients(self.watched)
        if all(cmath.isfinite(one.sum().item()) for one in found):
            return True
        return all(bool(one.isfinite().all()) for one in gradients(self.all))  # a sum of finite numbers may overflow


def gradients(parameters: Sequence[Tensor]) -> list[Tensor]:
    """The gradients that are there."""
    return [p.grad for p in parameters if p.grad is not None and p.grad.layout == torch.strided]
