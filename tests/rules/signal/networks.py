"""Networks for the tests of the rules about gradients and activations."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, nn


class HiddenFunction(nn.Module):
    """A two-layer network that applies ``function`` to its hidden layer."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body, self.head, self.function = nn.Linear(4, 8), nn.Linear(8, 3), function

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.function(self.body(x)))
