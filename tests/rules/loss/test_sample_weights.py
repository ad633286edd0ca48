"""Tests of L205 on sample weights that are broadcast against errors of another shape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import network
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(64, 4, generator=GENERATOR)
Y = X.sum(1, keepdim=True)
WEIGHTS = torch.rand(64, generator=GENERATOR)


class WeightedHuber(nn.Module):
    """Multiplies the loss of each sample, from torch, by its weight."""

    def __init__(self) -> None:
        super().__init__()
        self.loss = nn.HuberLoss(reduction="none")

    def forward(self, output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
        return (self.loss(output, target) * weight).sum() / weight.sum()


def weighted_squares(output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    error = output - target
    return torch.mul(weight, error**2).mean()


def weighted_cross_entropy(output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    losses = F.binary_cross_entropy_with_logits(output, target, reduction="none")
    return (weight * losses).mean()


def pairwise_ranking(output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    margins = (output - output.T) * (target - target.T).sign()
    return (F.softplus(-margins) * weight.unsqueeze(1) * weight).mean()


def normalized(output: Tensor, target: Tensor, weight: Tensor) -> Tensor:
    return ((output - target) ** 2).sum() / weight.sum()


def weighted_setup(loss_fn: Callable[..., Any], weights: Tensor, targets: Tensor = Y) -> Setup:
    loader = DataLoader(TensorDataset(X, targets, weights), batch_size=16)
    return Setup(network(1), loader, loss_fn=loss_fn)


def binary_targets() -> Tensor:
    return (Y > 0).float()


@pytest.mark.parametrize(
    ("loss_fn", "targets", "source"),
    [
        (weighted_squares, Y, "torch.mul(weight, error**2)"),
        (WeightedHuber(), Y, "self.loss(output, target) * weight"),
        (weighted_cross_entropy, binary_targets(), "weight * losses"),
    ],
    ids=["squares", "unreduced loss of torch", "cross entropy"],
)
def test_broadcast_loss_of_weights_without_the_axis_of_the_errors_names_the_line(
    loss_fn: Callable[..., Any], targets: Tensor, source: str
) -> None:
    (finding,) = rule_findings(weighted_setup(loss_fn, WEIGHTS, targets), "L205")
    assert "errors (16, 1) and weights (16,) to (16, 16)" in finding.message
    assert finding.where.source is not None
    assert source in finding.where.source


@pytest.mark.parametrize(
    ("loss_fn", "weights"),
    [
        (weighted_squares, WEIGHTS.unsqueeze(1)),
        (WeightedHuber(), WEIGHTS.unsqueeze(1)),
        (weighted_squares, torch.ones(64)),
        (pairwise_ranking, WEIGHTS),
        (normalized, WEIGHTS),
    ],
    ids=["same shape", "same shape, module", "equal weights", "all pairs", "sum of weights"],
)
def test_broadcast_loss_of_matching_or_intended_weights_is_quiet(loss_fn: Callable[..., Any], weights: Tensor) -> None:
    assert rule_findings(weighted_setup(loss_fn, weights), "L205") == []


@pytest.mark.parametrize("has_axis", [False, True], ids=["lost weights", "weights of the errors"])
def test_weights_that_the_loop_multiplies_with_unreduced_losses(has_axis: bool) -> None:
    model = network(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(X, Y, WEIGHTS), batch_size=16)
    loss_fn = nn.MSELoss(reduction="none")
    dbg = Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with dbg.watch():
        for x, y, weight in loader:
            errors = loss_fn(model(x), y)
            loss = (errors * (weight[:, None] if has_axis else weight)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    findings = [finding for finding in dbg.findings if finding.code == "L205"]
    assert len(findings) == (0 if has_axis else 1)
    assert all("errors * (weight[:, None]" in str(finding.where.source) for finding in findings)
