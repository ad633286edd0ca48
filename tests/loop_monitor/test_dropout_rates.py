"""Tests of T613 on dropout whose rate an evaluation sets to zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.loop_monitor.test_modes import setup_with_validation, step
from tests.loop_monitor.watched_loops import event_findings


class Drop(nn.Module):
    """Dropout that changes its own rate in evaluation mode, or does not."""

    def __init__(self, rate: float, keeps_zero: bool) -> None:
        super().__init__()
        self.rate, self.keeps_zero = rate, keeps_zero

    def forward(self, x: Tensor) -> Tensor:
        if self.keeps_zero and not self.training:
            self.rate = 0.0
        return F.dropout(x, self.rate if self.training else 0.0)


class Mask(Drop):
    """Dropout by a random mask, written by hand."""

    def forward(self, x: Tensor) -> Tensor:
        if self.keeps_zero and not self.training:
            self.rate = 0.0
        return x * (torch.rand_like(x) >= self.rate) / (1 - self.rate) if self.training else x


class Temperature(Drop):
    """A factor that is zero after an evaluation, and no rate of dropout."""

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            self.rate = 0.0
        return x * (1 + self.rate)


def network_with(*drops: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), *drops, nn.Linear(8, 3))


def set_rates(model: nn.Module, rate: float) -> None:
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = rate


def loop(
    before_epoch: Callable[[nn.Module, int], Any] = lambda model, epoch: None,
    before_evaluation: Callable[[nn.Module], Any] = lambda model: None,
) -> Callable[[Setup], None]:
    def train(setup: Setup) -> None:
        for epoch in range(4):
            setup.model.train()
            before_epoch(setup.model, epoch)
            for x, y in setup.train_loader:
                step(setup, x, y)
            setup.model.eval()
            before_evaluation(setup.model)
            with torch.no_grad():
                for x, _ in setup.val_loader:
                    setup.model(x)

    return train


def findings(model: nn.Module, train: Callable[[Setup], None]) -> list[Finding]:
    torch.manual_seed(0)
    return [finding for finding in event_findings(train, setup_with_validation(model)) if finding.code == "T613"]


FAULTS: dict[str, tuple[Callable[[], nn.Module], Callable[[Setup], None], str]] = {
    "module": (lambda: network_with(Drop(0.5, keeps_zero=True)), loop(), "2"),
    "mask": (lambda: network_with(nn.Identity(), Mask(0.3, keeps_zero=True)), loop(), "3"),
    "loop": (lambda: network_with(nn.Dropout(0.5)), loop(before_evaluation=lambda m: set_rates(m, 0.0)), "2"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_training_in_eval_mode_reports_dropout_rate_that_evaluation_sets_to_zero(name: str) -> None:
    build, train, module = FAULTS[name]
    model = build()
    (finding,) = findings(model, train)
    assert (finding.severity, finding.where.module) == ("error", module)
    assert "12 of 16 recorded training passes" in finding.message
    rate = getattr(model.get_submodule(module), "p" if name == "loop" else "rate")
    assert rate == 0.0  # as the loop left it


def anneal(model: nn.Module, epoch: int) -> None:
    set_rates(model, 0.5 - epoch / 6)


def drop_early(model: nn.Module, epoch: int) -> None:
    set_rates(model, 0.5 if epoch < 2 else 0.0)


HEALTHY: dict[str, tuple[Callable[[], nn.Module], Callable[[Setup], None]]] = {
    "local rate": (lambda: network_with(Drop(0.5, keeps_zero=False)), loop()),
    "restored rate": (
        lambda: network_with(nn.Dropout(0.5)),
        loop(lambda model, epoch: set_rates(model, 0.5), lambda model: set_rates(model, 0.0)),
    ),
    "annealed rate": (lambda: network_with(nn.Dropout(0.5)), loop(anneal)),
    "early dropout": (lambda: network_with(nn.Dropout(0.5)), loop(drop_early)),
    "other number": (lambda: network_with(Temperature(0.5, keeps_zero=True)), loop()),
}


@pytest.mark.parametrize("name", HEALTHY)
def test_training_in_eval_mode_ignores_rates_that_training_sets(name: str) -> None:
    build, train = HEALTHY[name]
    assert findings(build(), train) == []
