"""A model that raises in the middle of training."""

from __future__ import annotations

from torch import Tensor, nn


class FailingModel(nn.Module):
    """Raises at forward pass ``at``, counted from 1 over all copies of the model."""

    calls = 0

    def __init__(self, inner: nn.Module, at: int) -> None:
        super().__init__()
        FailingModel.calls = 0
        self.inner, self.at = inner, at

    def forward(self, x: Tensor) -> Tensor:
        FailingModel.calls += 1
        if FailingModel.calls == self.at:
            raise RuntimeError("out of luck")
        output: Tensor = self.inner(x)
        return output
