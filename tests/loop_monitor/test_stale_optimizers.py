"""Tests of O504 on loops whose optimizer was created for other tensors than the parameters of the model."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import ModeDependentNetwork, all_findings, batch_loss, batches, source_line


def deeper() -> Setup:
    return minimal_setup(ModeDependentNetwork(), *points(), nn.CrossEntropyLoss())


def run_steps(setup: Setup, optimizer: torch.optim.Optimizer, epochs: int = 4) -> None:
    for x, y in batches(setup, epochs):
        optimizer.zero_grad()
        setup.model.zero_grad()
        batch_loss(setup, x, y).backward()
        optimizer.step()


def loads_by_assignment(setup: Setup) -> None:
    state = copy.deepcopy(setup.model.state_dict())
    setup.model.load_state_dict(state, assign=True)
    run_steps(setup, setup.optimizers[0])


def steps_optimizer_of_copy(setup: Setup) -> None:
    run_steps(setup, torch.optim.AdamW(copy.deepcopy(setup.model).parameters()))


def codes_of_faults(train: Callable[[Setup], None], setup: Setup) -> list[Any]:
    return [finding for finding in all_findings(train, setup) if finding.severity != "note"]


@pytest.mark.parametrize("make_setup", [classifier, deeper])
def test_state_loaded_by_assignment_is_an_error_at_its_line(make_setup: Callable[[], Setup]) -> None:
    first = codes_of_faults(loads_by_assignment, make_setup())[0]
    assert first.code == "O504"
    assert source_line(first) == "setup.model.load_state_dict(state, assign=True)"


@pytest.mark.parametrize("make_setup", [classifier, deeper])
def test_steps_of_an_optimizer_of_a_copy_are_an_error(make_setup: Callable[[], Setup]) -> None:
    first = codes_of_faults(steps_optimizer_of_copy, make_setup())[0]
    assert first.code == "O504"
    assert "made 16 steps after 16 backward passes" in first.message


@pytest.mark.parametrize("make_setup", [classifier, deeper])
def test_optimizer_stale_before_the_loop_is_an_error_without_a_checkup(make_setup: Callable[[], Setup]) -> None:
    setup = make_setup()
    setup.model.load_state_dict(copy.deepcopy(setup.model.state_dict()), assign=True)
    first = codes_of_faults(lambda setup: run_steps(setup, setup.optimizers[0]), setup)[0]
    assert (first.code, first.severity) == ("O504", "error")


def assigned_before_its_optimizer(setup: Setup) -> None:
    setup.model.load_state_dict(copy.deepcopy(setup.model.state_dict()), assign=True)
    run_steps(setup, torch.optim.Adam(setup.model.parameters()))


def float_copies(setup: Setup) -> None:
    """Copies of the parameters that an optimizer updates, and that are copied back after each step."""
    copies = [p.detach().clone().requires_grad_() for p in setup.model.parameters()]
    optimizer = torch.optim.SGD(copies, lr=0.1)
    for x, y in batches(setup, 4):
        setup.model.zero_grad()
        batch_loss(setup, x, y).backward()
        for own, p in zip(copies, setup.model.parameters(), strict=True):
            own.grad = p.grad
        optimizer.step()
        with torch.no_grad():
            for own, p in zip(copies, setup.model.parameters(), strict=True):
                p.copy_(own)


def another_network_beside(setup: Setup) -> None:
    other = network(3)
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    for x, y in batches(setup, 4):
        for model, stepping in ((setup.model, setup.optimizers[0]), (other, optimizer)):
            stepping.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            stepping.step()


@pytest.mark.parametrize("train", [assigned_before_its_optimizer, float_copies, another_network_beside])
@pytest.mark.parametrize("make_setup", [classifier, deeper])
def test_optimizers_of_other_tensors_that_train_the_model_have_no_finding(
    train: Callable[[Setup], None], make_setup: Callable[[], Setup]
) -> None:
    assert "O504" not in [finding.code for finding in codes_of_faults(train, make_setup())]
