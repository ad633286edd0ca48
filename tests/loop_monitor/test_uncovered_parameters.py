"""Tests of O503 and O504 in a loop that unfreezes or replaces a part of the model while the optimizer stays."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import TrainFunction, all_findings, train_plainly


def frozen_body(filtered: bool = True) -> Setup:
    """A frozen first layer, and an optimizer of the trainable parameters, or of all."""
    model = network(3)
    model[0].requires_grad_(False)
    parameters = [p for p in model.parameters() if p.requires_grad or not filtered]
    optimizers = (torch.optim.SGD(parameters, lr=0.1),)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=optimizers)


def unfreezing(setup: Setup) -> None:
    train_plainly(setup, 1)
    setup.model[0].requires_grad_(True)  # type: ignore[index]
    train_plainly(setup, 1)


def unfreezing_with_new_group(setup: Setup) -> None:
    train_plainly(setup, 1)
    setup.model[0].requires_grad_(True)  # type: ignore[index]
    setup.optimizers[0].add_param_group({"params": list(setup.model[0].parameters())})  # type: ignore[index]
    train_plainly(setup, 1)


def replacing(setup: Setup) -> None:
    train_plainly(setup, 1)
    setup.model[2] = nn.Linear(8, 3)  # type: ignore[index]
    train_plainly(setup, 1)


def pruning(setup: Setup) -> None:
    """Units are removed: the layers get new, smaller weights."""
    train_plainly(setup, 1)
    body, head = setup.model[0], setup.model[2]  # type: ignore[index]
    body.weight, body.bias = nn.Parameter(body.weight[:4].detach()), nn.Parameter(body.bias[:4].detach())
    head.weight = nn.Parameter(head.weight[:, :4].detach())
    train_plainly(setup, 1)


def replacing_with_new_optimizer(setup: Setup) -> None:
    train_plainly(setup, 1)
    setup.model[2] = nn.Linear(8, 3)  # type: ignore[index]
    optimizer = torch.optim.SGD(setup.model[2].parameters(), lr=0.1)  # type: ignore[index]
    for x, y in setup.train_loader:
        setup.optimizers[0].zero_grad()
        optimizer.zero_grad()
        nn.functional.cross_entropy(setup.model(x), y).backward()
        setup.optimizers[0].step()
        optimizer.step()


@pytest.mark.parametrize(
    ("train", "make", "code", "parameter"),
    [
        (unfreezing, frozen_body, "O503", "0.weight"),
        (replacing, lambda: frozen_body(False), "O504", "2.weight"),
        (pruning, lambda: minimal_setup(network(3), *points(), nn.CrossEntropyLoss()), "O504", "0.weight"),
    ],
)
def test_parameters_that_the_optimizer_misses_since_the_loop_began_are_reported(
    train: TrainFunction, make: Callable[[], Setup], code: str, parameter: str
) -> None:
    (finding,) = (finding for finding in all_findings(train, make()) if finding.code in ("O503", "O504"))
    assert finding.code == code
    assert finding.where.parameter == parameter
    assert finding.severity == "error"


@pytest.mark.parametrize(
    ("train", "make"),
    [
        (train_plainly, frozen_body),
        (unfreezing, lambda: frozen_body(False)),
        (unfreezing_with_new_group, frozen_body),
        (replacing_with_new_optimizer, lambda: frozen_body(False)),
    ],
)
def test_optimizers_that_follow_the_model_have_no_finding(train: TrainFunction, make: Callable[[], Setup]) -> None:
    assert not [finding for finding in all_findings(train, make()) if finding.code in ("O503", "O504")]
