"""Small networks for the tests of the model rules."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from nbdebug.rules.examples import network


class WrappedLayer(nn.Module):
    """A layer with functions before and after it, and a linear head."""

    def __init__(
        self, layer: nn.Module, width: int, before: Any = None, after: Any = None, embed: bool = False
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8) if embed else nn.Identity()
        self.layer, self.head = layer, nn.Linear(width, 3)
        self.before, self.after = before or (lambda x: x), after or (lambda x: x)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.after(self.layer(self.before(self.embed(x)))))


def dead_network() -> nn.Module:
    """Return a network whose hidden units are zero for every sample."""
    model = network(3)
    nn.init.constant_(model[0].bias, -50.0)
    return model


def zero_head_network() -> nn.Module:
    """Return a network whose head has weights of zero."""
    model = network(3)
    nn.init.zeros_(model[2].weight)
    return model
