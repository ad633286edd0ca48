"""Tests of L213 for a loss with a term of the wrong sign, which falls below zero faster and faster."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

X = torch.randn(256, 6, generator=torch.Generator().manual_seed(0))
Y = X[:, :1].sin()


def error_and_spread(output: Tensor, target: Tensor, sign: float) -> Tensor:
    spread = sign * (output[:, 1:].square() + 3 * output[:, 1:].abs() + 1).sum(1)  # here
    return F.mse_loss(output[:, :1], target) + spread.mean()


def findings(sign: float) -> list[Finding]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 5))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    loader = DataLoader(TensorDataset(X, Y), batch_size=32, shuffle=True)

    def loss_fn(output: Tensor, target: Tensor) -> Tensor:
        return error_and_spread(output, target, sign)

    debugger = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch():
        for _ in range(12):
            for x, y in loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
    return [finding for finding in debugger.findings if finding.code == "L213"]


def test_loss_with_a_term_of_the_wrong_sign_is_unbounded_at_the_line_of_the_term() -> None:
    (finding,) = findings(-1.0)
    assert "unbounded below" in finding.message
    assert (finding.where.source or "").endswith("# here")


def test_loss_with_a_term_of_the_right_sign_is_quiet() -> None:
    assert findings(1.0) == []
