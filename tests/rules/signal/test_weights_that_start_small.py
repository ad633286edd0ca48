"""Tests of G412 on layers whose weights start far below torch's default initialization."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup

Loss = Callable[[Tensor, Tensor], Tensor]
X = torch.randn(512, 6, generator=torch.Generator().manual_seed(0))
CLASSES = (2 + 1.3 * X[:, 0] + 0.9 * X[:, 1].tanh()).round().clamp(0, 4).long()


def reward_of_draws(logits: Tensor, best: Tensor) -> Tensor:
    """A policy gradient with the mean reward as the baseline."""
    policy = torch.distributions.Categorical(logits=logits)
    action = policy.sample()
    reward = (-1.5 * (action - best).abs()).exp()
    return -(policy.log_prob(action) * (reward - reward.mean())).mean()


def negated(logits: Tensor, best: Tensor) -> Tensor:
    return -nn.functional.cross_entropy(logits, best)


def small_head(deviation: float) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 5))
    nn.init.normal_(model[4].weight, std=deviation)
    return model


def growth_findings(model: nn.Module, loss_fn: Loss, rate: float) -> list[Finding]:
    """Return the findings on growing weights after ten epochs of Adam, in which no loss falls by a third."""
    setup = minimal_setup(model, X, CLASSES, loss_fn)
    optimizer = torch.optim.Adam(model.parameters(), lr=rate)
    debugger = Debugger(model, setup.train_loader, loss_fn=loss_fn, optimizer=optimizer)
    torch.manual_seed(0)
    with debugger.watch(every=4):
        for _ in range(10):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                loss_fn(model(x), y).backward()
                optimizer.step()
    return [finding for finding in debugger.findings if finding.code == "G412" and finding.severity != "note"]


@pytest.mark.parametrize("deviation", [0.02, 0.01])
def test_small_head_that_grows_to_a_usual_size_is_quiet(deviation: float) -> None:
    assert growth_findings(small_head(deviation), reward_of_draws, 3e-3) == []


@pytest.mark.parametrize("deviation", [0.02, 0.003])
def test_small_head_that_grows_far_beyond_a_usual_size_is_reported(deviation: float) -> None:
    assert growth_findings(small_head(deviation), negated, 0.1)
