"""Tests of O506 on batches whose gradients no step uses, and of loops that use several backward passes for a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.rules.examples import classifier
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, batch_loss, run_watched, summarize_loop

EPOCHS = 8


def step_after_the_loop(setup: Setup) -> None:
    for _ in range(EPOCHS):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            batch_loss(setup, x, y).backward()
        setup.optimizers[0].step()


def step_after_the_loop_and_clear_last(setup: Setup) -> None:
    for _ in range(EPOCHS):
        for x, y in setup.train_loader:
            batch_loss(setup, x, y).backward()
            last = [p.grad.clone() for p in setup.model.parameters()]  # type: ignore[union-attr]
            setup.model.zero_grad()
        for parameter, gradient in zip(setup.model.parameters(), last, strict=True):
            parameter.grad = gradient
        setup.optimizers[0].step()


def step_every_fourth_batch(setup: Setup) -> None:
    for number in range(EPOCHS):
        for i, (x, y) in enumerate(setup.train_loader):
            setup.optimizers[0].zero_grad()
            batch_loss(setup, x, y).backward()
            if (number + i) % 4 == 0:
                setup.optimizers[0].step()


def clear_by_hand(setup: Setup) -> None:
    for parameter in setup.model.parameters():  # type: ignore[union-attr]
        parameter.grad = None


def step_every_fourth_batch_and_clear_by_hand(setup: Setup) -> None:
    for number in range(EPOCHS):
        for i, (x, y) in enumerate(setup.train_loader):
            clear_by_hand(setup)
            batch_loss(setup, x, y).backward()
            if (number + i) % 4 == 0:
                setup.optimizers[0].step()


def accumulate_and_clear_by_hand(setup: Setup) -> None:
    for i, (x, y) in enumerate([*setup.train_loader] * EPOCHS, 1):
        batch_loss(setup, x, y).backward()
        if i % 4 == 0:
            setup.optimizers[0].step()
            clear_by_hand(setup)


def accumulate_epoch(setup: Setup) -> None:
    for _ in range(EPOCHS):
        setup.optimizers[0].zero_grad()
        for x, y in setup.train_loader:
            batch_loss(setup, x, y).backward()
        setup.optimizers[0].step()


def train_adversarially(setup: Setup) -> None:
    for _ in range(EPOCHS):
        for x, y in setup.train_loader:
            perturbed = x.clone()
            for _ in range(5):
                perturbed.requires_grad_()
                batch_loss(setup, perturbed, y).backward()
                perturbed = (perturbed + 0.01 * perturbed.grad.sign()).detach()  # type: ignore[union-attr]
                setup.model.zero_grad()
            setup.optimizers[0].zero_grad()
            batch_loss(setup, perturbed, y).backward()
            setup.optimizers[0].step()


def skip_some_batches(setup: Setup) -> None:
    for number in range(EPOCHS):
        for i, (x, y) in enumerate(setup.train_loader):
            setup.optimizers[0].zero_grad()
            batch_loss(setup, x, y).backward()
            if (number + i) % 4:
                setup.optimizers[0].step()


def clear_after_each_step(setup: Setup) -> None:
    for _ in range(EPOCHS):
        for x, y in setup.train_loader:
            batch_loss(setup, x, y).backward()
            setup.optimizers[0].step()
            setup.optimizers[0].zero_grad()


def draw_ahead(setup: Setup) -> None:
    for _ in range(EPOCHS):
        batches = iter(setup.train_loader)
        batch = next(batches)
        while batch is not None:
            following = next(batches, None)
            setup.optimizers[0].zero_grad()
            batch_loss(setup, *batch).backward()
            setup.optimizers[0].step()
            batch = following


def train_critic_more_often(setup: Setup) -> None:
    critic, generator = (torch.optim.Adam(part.parameters()) for part in (setup.model[2], setup.model[0]))  # type: ignore[index]
    for _ in range(EPOCHS):
        for i, (x, y) in enumerate(setup.train_loader):
            for optimizer in (critic, generator):
                optimizer.zero_grad()
            batch_loss(setup, x, y).backward()
            critic.step()
            if i % 3 == 2:
                generator.step()


LOOPS: dict[str, tuple[Callable[[Setup], None], bool]] = {
    "step after the loop": (step_after_the_loop, True),
    "step after the loop with the last gradient": (step_after_the_loop_and_clear_last, True),
    "step at every fourth batch": (step_every_fourth_batch, True),
    "step at every fourth batch, gradients cleared by hand": (step_every_fourth_batch_and_clear_by_hand, True),
    "accumulation, gradients cleared by hand": (accumulate_and_clear_by_hand, False),
    "accumulation over an epoch": (accumulate_epoch, False),
    "adversarial training": (train_adversarially, False),
    "a few batches skipped": (skip_some_batches, False),
    "gradients cleared after each step": (clear_after_each_step, False),
    "batches drawn ahead": (draw_ahead, False),
    "two optimizers, one less often": (train_critic_more_often, False),
}


def make_setup() -> Setup:
    return classifier(nn.Identity())


@pytest.mark.parametrize("name", LOOPS)
def test_step_missing_finds_batches_whose_gradients_are_discarded(name: str) -> None:
    train, is_faulty = LOOPS[name]
    findings = [finding for finding in all_findings(train, make_setup()) if finding.code == "O506"]
    messages = [finding.message for finding in findings if finding.severity != "note"]
    assert any("were cleared before any step used them" in message for message in messages) == is_faulty


def test_step_missing_counts_each_discarded_batch() -> None:
    setup = make_setup()
    summary = summarize_loop(step_after_the_loop, setup)
    batches = len(setup.train_loader)
    assert summary.batches_with_backward == EPOCHS * batches
    assert summary.discarded_batches == EPOCHS * (batches - 1)


def groups_of_ten(setup: Setup) -> None:
    def groups(size: int) -> Iterator[list[Any]]:
        group = []
        for batch in setup.train_loader:
            group.append(batch)
            if len(group) == size:
                yield group
                group = []

    for _ in range(EPOCHS):
        for group in groups(10):
            for x, y in group:
                batch_loss(setup, x, y).backward()
            setup.optimizers[0].step()


def condition_that_is_never_true(setup: Setup) -> None:
    for _ in range(EPOCHS):
        for x, y in setup.train_loader:
            if len(x) > 1000:
                batch_loss(setup, x, y).backward()
                setup.optimizers[0].step()
        setup.model.eval()


@pytest.mark.parametrize("train", [groups_of_ten, condition_that_is_never_true])
def test_step_missing_finds_batches_that_no_pass_follows(train: Callable[[Setup], None]) -> None:
    debugger, _ = run_watched(train)
    (finding,) = (finding for finding in debugger.findings if finding.code == "O506")
    assert not [rule for rule in debugger.reports["watch"].not_checked if "failed" in str(rule)]
    assert "32 batches were drawn" in finding.message
    assert "in setup.train_loader" in (finding.where.source or "")


def measure_inputs(setup: Setup) -> None:
    torch.cat([x for x, _ in setup.train_loader]).mean(0)


def evaluate(setup: Setup) -> None:
    with torch.no_grad():
        for _ in range(EPOCHS):
            for x, _ in setup.train_loader:
                setup.model(x)


@pytest.mark.parametrize("use", [measure_inputs, evaluate])
def test_step_missing_on_batches_that_are_not_trained_on_finds_nothing(use: Callable[[Setup], None]) -> None:
    assert not all_findings(use)
