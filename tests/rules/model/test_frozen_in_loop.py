"""Tests of M302 for parameters that a loop freezes while their optimizer goes on to step."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding

ROWS = torch.randn(128, 6, generator=torch.Generator().manual_seed(0)) + 2


class Pair(nn.Module):
    """A generator and a discriminator."""

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 6))
        self.discriminator = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.discriminator(x)
        return scores


def freeze_by_method(module: nn.Module, trains: bool) -> None:
    module.requires_grad_(trains)


def freeze_by_attribute(module: nn.Module, trains: bool) -> None:
    for weight in module.parameters():
        weight.requires_grad = trains


Freeze = Callable[[nn.Module, bool], None]


def play(freeze: Freeze, thaws: bool) -> list[Finding]:
    """Return what M302 says of a loop in which two networks take turns."""
    torch.manual_seed(0)
    pair, loader = Pair(), DataLoader(TensorDataset(ROWS), batch_size=16)
    judge, forger = (torch.optim.Adam(part.parameters(), lr=1e-3) for part in (pair.discriminator, pair.generator))
    debugger = Debugger(pair, loader, loss_fn=nn.BCEWithLogitsLoss(), optimizer=judge)
    with debugger.watch():
        for _ in range(5):
            for (real,) in loader:
                if thaws:
                    freeze(pair.discriminator, True)
                judge.zero_grad()
                fake = pair.generator(torch.randn(len(real), 3))
                (F.softplus(-pair(real)).mean() + F.softplus(pair(fake)).mean()).backward()
                judge.step()
                freeze(pair.discriminator, False)
                forger.zero_grad()
                F.softplus(-pair(pair.generator(torch.randn(len(real), 3)))).mean().backward()
                forger.step()
    return faults(debugger)


def faults(debugger: Debugger) -> list[Finding]:
    return [finding for finding in debugger.findings if finding.code == "M302" and finding.severity != "note"]


@pytest.mark.parametrize("freeze", [freeze_by_method, freeze_by_attribute])
def test_frozen_parameter_of_network_never_thawed_is_error_at_module(freeze: Freeze) -> None:
    (finding,) = play(freeze, thaws=False)
    assert (finding.severity, finding.where.module) == ("error", "discriminator")
    assert finding.evidence == {
        "parameters": [f"discriminator.{i}.{kind}" for i in (0, 2) for kind in ("weight", "bias")],
        "steps": 39,
        "of": 40,
    }


@pytest.mark.parametrize("freeze", [freeze_by_method, freeze_by_attribute])
def test_frozen_parameter_of_networks_in_turns_is_quiet(freeze: Freeze) -> None:
    assert play(freeze, thaws=True) == []


@pytest.mark.parametrize("keeps_stepping", [True, False])
def test_frozen_parameter_after_first_stage_is_reported_if_its_optimizer_steps_on(keeps_stepping: bool) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 1))
    loader = DataLoader(TensorDataset(ROWS, ROWS[:, :1]), batch_size=16)
    body, head = (torch.optim.SGD(model[i].parameters(), lr=0.01) for i in (0, 2))
    debugger = Debugger(model, loader, loss_fn=nn.MSELoss(), optimizer=head)
    with debugger.watch():
        for epoch in range(6):
            if epoch == 3:
                model[0].requires_grad_(False)
            for x, y in loader:
                optimizers = (body, head) if epoch < 3 or keeps_stepping else (head,)
                model.zero_grad()
                F.mse_loss(model(x), y).backward()
                for optimizer in optimizers:
                    optimizer.step()
    assert [finding.where.module for finding in faults(debugger)] == (["0"] if keeps_stepping else [])
