"""Tests of optimizers that are replaced, created from a part of the model, or extended while a loop runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, batch_loss, run_watched

EPOCHS, BATCHES = 6, 4


def make_setup() -> Setup:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def train_epochs(setup: Setup, optimizer: torch.optim.Optimizer, epochs: int) -> None:
    for _ in range(epochs):
        for x, y in setup.train_loader:
            optimizer.zero_grad()
            batch_loss(setup, x, y).backward()
            optimizer.step()


def replaced_once(setup: Setup) -> None:
    train_epochs(setup, setup.optimizers[0], 2)
    train_epochs(setup, torch.optim.Adam(setup.model.parameters(), lr=0.02), 4)


def created_in_each_epoch(setup: Setup) -> None:
    for _ in range(EPOCHS):
        train_epochs(setup, torch.optim.Adam(setup.model.parameters(), lr=0.02), 1)


def replaced_and_used_again(setup: Setup) -> None:
    other = torch.optim.Adam(setup.model.parameters(), lr=0.02)
    for epoch in range(EPOCHS):
        train_epochs(setup, other if epoch % 2 else setup.optimizers[0], 1)


def replaced_with_the_head(setup: Setup) -> None:
    train_epochs(setup, setup.optimizers[0], 2)
    setup.model[2] = nn.Linear(8, 3)  # type: ignore[index]
    train_epochs(setup, torch.optim.Adam(setup.model.parameters(), lr=0.02), 4)


@pytest.mark.parametrize(
    "train", [replaced_once, created_in_each_epoch, replaced_and_used_again, replaced_with_the_head]
)
def test_record_continues_with_an_optimizer_that_replaces_the_first(train: Callable[[Setup], None]) -> None:
    debugger, watch = run_watched(train, make_setup())
    steps, rates = watch.record.series("lr")
    assert len(steps) == watch.record.steps == EPOCHS * BATCHES
    assert rates[-1] == pytest.approx(0.02)
    assert watch.session is not None
    assert len(watch.session.loop_monitor.tracked_optimizers) == 1
    assert not [finding for finding in debugger.findings if finding.severity == "error"]


def test_optimizer_beside_the_first_does_not_replace_it() -> None:
    def train(setup: Setup) -> None:
        critic = nn.Linear(3, 1)
        second = torch.optim.SGD([*critic.parameters(), *setup.model[2].parameters()], lr=0.02)  # type: ignore[index]
        for x, y in [*setup.train_loader] * EPOCHS:
            for optimizer in (setup.optimizers[0], second):
                optimizer.zero_grad()
                (batch_loss(setup, x, y) + critic(setup.model(x)).square().mean()).backward()
                optimizer.step()

    _, watch = run_watched(train, make_setup())
    assert watch.session is not None
    assert len(watch.session.loop_monitor.tracked_optimizers) == 2
    assert watch.record.series("lr")[1][-1] == pytest.approx(0.1)


def head_only(setup: Setup, adds_body: bool, clears_all: bool = False) -> None:
    body, head = setup.model[0], setup.model[2]  # type: ignore[index]
    body.requires_grad_(False)
    optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
    train_epochs(setup, optimizer, 2)
    body.requires_grad_(True)
    if adds_body:
        optimizer.add_param_group({"params": list(body.parameters())})
    train_epochs(setup, optimizer, 4)
    if clears_all:
        setup.model.zero_grad()


def findings_of(code: str, train: Callable[[Setup], Any]) -> list[Any]:
    return [finding for finding in all_findings(train, make_setup()) if finding.code == code]


@pytest.mark.parametrize("clears_all", [False, True])
def test_part_unfrozen_after_its_optimizer_was_created_is_reported(clears_all: bool) -> None:
    (finding,) = findings_of("O503", lambda setup: head_only(setup, adds_body=False, clears_all=clears_all))
    assert finding.where.module == "0"
    assert not findings_of("O503", lambda setup: head_only(setup, adds_body=True))


def adding_groups(times: int) -> Callable[[Setup], None]:
    def train(setup: Setup) -> None:
        body, head = setup.model[0], setup.model[2]  # type: ignore[index]
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)
        for epoch in range(EPOCHS):
            if epoch in range(1, 1 + times):
                optimizer.param_groups.append({**optimizer.param_groups[0], "params": list(body.parameters())})
            train_epochs(setup, optimizer, 1)

    return train


def extending_group(setup: Setup) -> None:
    optimizer = torch.optim.SGD(setup.model.parameters(), lr=0.1)
    for _ in range(EPOCHS):
        train_epochs(setup, optimizer, 1)
        optimizer.param_groups[0]["params"].extend(setup.model[0].parameters())  # type: ignore[index]


@pytest.mark.filterwarnings("ignore:optimizer contains a parameter group with duplicate")
@pytest.mark.parametrize("train", [adding_groups(2), extending_group])
def test_parameters_added_to_groups_again_in_the_loop_are_an_error(train: Callable[[Setup], None]) -> None:
    (finding,) = findings_of("O513", train)
    assert (finding.severity, finding.where.module) == ("error", "0")
    assert not findings_of("O513", adding_groups(1))
