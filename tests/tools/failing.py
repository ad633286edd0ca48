"""A model that breaks in the middle of a tool's work."""

from __future__ import annotations

from torch import Tensor, nn


class Failing(nn.Module):
    """Raises at one pass, counted over all its copies since it was made."""

    calls = 0

    def __init__(self, inner: nn.Module, at: int) -> None:
        super().__init__()
        Failing.calls = 0
        self.inner, self.at = inner, at

    def forward(self, x: Tensor) -> Tensor:
        Failing.calls += 1
        if Failing.calls == self.at:
            raise RuntimeError("out of luck")
        output: Tensor = self.inner(x)
        return output
