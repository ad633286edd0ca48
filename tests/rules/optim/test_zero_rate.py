"""Tests of O502 for loops whose learning rate is exactly zero from the first step on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.optim.lr_scheduler import LambdaLR, LinearLR

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import mlp, rings, training_setup
from tests.rules.rule_findings import own_findings

EPOCHS, BODY_RATE = 4, 0.1


@dataclass
class Run:
    """What a training script holds: network and optimizer by their role."""

    parts: dict[str, Any]

    def restore(self, saved: dict[str, Any], names: list[str]) -> None:
        """Load the saved states of some parts."""
        for name in names:
            self.parts[name].load_state_dict(saved[name])


def new_parts(rate: float = 0.05) -> dict[str, Any]:
    torch.manual_seed(0)
    network = mlp(8, 16, 2)
    return {"network": network, "optimizer": torch.optim.SGD(network.parameters(), lr=rate, momentum=0.9)}


def finished_state() -> dict[str, Any]:
    parts = new_parts()
    schedule = LinearLR(parts["optimizer"], 1.0, 0.0, total_iters=3)
    for x, y in training_setup(parts["network"], rings(), rings(256, seed=1), nn.CrossEntropyLoss()).train_loader:
        F.cross_entropy(parts["network"](x), y).backward()
        parts["optimizer"].step()
        schedule.step()
    return {name: part.state_dict() for name, part in parts.items()}


def restored_with_optimizer() -> dict[str, Any]:
    run = Run(new_parts())
    run.restore(finished_state(), ["network", "optimizer"])
    return run.parts


def restored_network_only() -> dict[str, Any]:
    run = Run(new_parts())
    run.restore(finished_state(), ["network"])
    return run.parts


def rate_of_integers() -> dict[str, Any]:
    batch, reference = 32, 256
    return new_parts(batch // reference * 0.1)


def frozen_body() -> dict[str, Any]:
    """The body has a rate of zero on purpose, the head has not."""
    parts = new_parts()
    body, head = list(parts["network"].parameters())[:-2], list(parts["network"].parameters())[-2:]
    parts["optimizer"] = torch.optim.SGD([{"params": body, "lr": 0 * BODY_RATE}, {"params": head}], lr=0.05)
    return parts


def watched(parts: dict[str, Any], after_step: Callable[[], None] = lambda: None) -> list[Finding]:
    setup = training_setup(parts["network"], rings(), rings(256, seed=1), nn.CrossEntropyLoss())
    debugger = Debugger(setup.model, setup.train_loader, loss_fn=setup.loss_fn, optimizer=parts["optimizer"])
    with debugger.watch(final_tests=False):
        for _ in range(EPOCHS):
            for x, y in setup.train_loader:
                parts["optimizer"].zero_grad()
                loss: Tensor = F.cross_entropy(parts["network"](x), y)
                loss.backward()  # type: ignore[no-untyped-call]
                parts["optimizer"].step()
                after_step()
    return [finding for code in ("O502", "O507") for finding in own_findings(debugger, code)]


@pytest.mark.parametrize(
    ("make", "source", "cause"),
    [
        (restored_with_optimizer, "self.parts[name].load_state_dict(saved[name])", "set to zero before the loop"),
        (rate_of_integers, "torch.optim.SGD(network.parameters(), lr=rate", "created with a learning rate of zero"),
    ],
)
def test_lr_too_low_of_a_rate_of_zero_names_the_line_that_set_it(
    make: Callable[[], dict[str, Any]], source: str, cause: str
) -> None:
    (finding,) = watched(make())
    assert (finding.code, finding.severity) == ("O502", "error")
    assert source in (finding.where.source or "")
    assert cause in finding.cause


@pytest.mark.parametrize("make", [restored_network_only, frozen_body])
def test_lr_too_low_is_quiet_if_a_part_is_trained(make: Callable[[], dict[str, Any]]) -> None:
    assert not watched(make())


def test_schedule_with_factors_of_zero_is_misused() -> None:
    parts = new_parts()
    schedule = LambdaLR(parts["optimizer"], lambda step: (100 - step) // 1000)
    (finding,) = watched(parts, lambda: schedule.step())
    assert finding.code == "O507"
