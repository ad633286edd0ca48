"""Tests of models that return for the loss what they return in training only."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger

X = torch.randn(80, 4, generator=torch.Generator().manual_seed(0))


class WithAuxiliaryOutput(nn.Module):
    """Returns a second output in training; its batch normalization has averages of its own."""

    def __init__(self, needed: int) -> None:
        super().__init__()
        self.body, self.head, self.needed = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6)), nn.Linear(6, 3), needed

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        hidden = self.body(x)
        outputs = (self.head(hidden), hidden) if self.training else (self.head(hidden),)
        return outputs[: self.needed]


def loss_of_two(outputs: tuple[Tensor, Tensor], y: Tensor) -> Tensor:
    scores, hidden = outputs
    return F.cross_entropy(scores, y) + 0.01 * hidden.square().mean()


@pytest.mark.parametrize(("needed", "codes"), [(2, set[str]()), (1, {"X1038"})])
def test_model_left_in_eval_mode_is_checked_in_the_mode_that_the_loss_takes(needed: int, codes: set[str]) -> None:
    model = WithAuxiliaryOutput(needed).eval()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    loader = DataLoader(TensorDataset(X, X[:, :3].argmax(1)), 20, shuffle=True)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    report = Debugger(model, loader, loss_fn=loss_of_two, optimizer=optimizer).checkup(budget="quick")
    assert {finding.code for finding in report if finding.code.startswith("X")} == codes
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
