"""Tests of O512: loops that use only some of the calls of a GradScaler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import (
    TrainFunction,
    batch_loss,
    batches,
    event_findings,
    source_line,
    summarize_loop,
)

StepFunction = Callable[[Any, torch.optim.Optimizer], None]


def step_by_scaler(scaler: Any, optimizer: torch.optim.Optimizer) -> None:
    scaler.step(optimizer)
    scaler.update()


def step_without_scaler(scaler: Any, optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()


def unscale_and_step_without_scaler(scaler: Any, optimizer: torch.optim.Optimizer) -> None:
    scaler.unscale_(optimizer)
    optimizer.step()
    scaler.update()


def scaling(
    take_step: StepFunction, scales: bool = True, accumulation: int = 1, overflows: int = 0, **options: Any
) -> TrainFunction:
    def train(setup: Setup) -> None:
        scaler, optimizer = torch.amp.GradScaler("cpu", **options), setup.optimizers[0]
        pending_overflows = iter(range(overflows))
        weight = setup.model[0].weight
        weight.register_hook(
            lambda gradient: gradient * (torch.inf if next(pending_overflows, None) is not None else 1.0)
        )
        for number, (x, y) in enumerate(batches(setup, 4)):
            loss = batch_loss(setup, x, y) / accumulation
            (scaler.scale(loss) if scales or not number else loss).backward()
            if number % accumulation == accumulation - 1:
                take_step(scaler, optimizer)
                optimizer.zero_grad()

    return train


@pytest.mark.parametrize(
    ("train", "line", "message_part"),
    [
        (scaling(step_without_scaler), "optimizer.step()", "65,536 times too large"),
        (
            scaling(step_by_scaler, scales=False),
            "(scaler.scale(loss) if scales or not number else loss).backward()",
            "not s",
        ),
    ],
    ids=["step without scaler", "loss not scaled"],
)
def test_grad_scaler_misused_on_missing_call_is_an_error(train: TrainFunction, line: str, message_part: str) -> None:
    finding = event_findings(train)[0]
    assert (finding.code, finding.severity) == ("O512", "error")
    assert source_line(finding) == line
    assert message_part in finding.message


def test_grad_scaler_misused_on_unscaled_step_without_scaler_is_a_warning() -> None:
    (finding,) = event_findings(scaling(unscale_and_step_without_scaler))
    assert (finding.code, finding.severity) == ("O512", "warning")


def test_grad_scaler_misused_on_second_optimizer_blames_its_step() -> None:
    def train(setup: Setup) -> None:
        scaler, last_layer = torch.amp.GradScaler("cpu"), setup.optimizers[1]
        for x, y in batches(setup, 4):
            scaler.scale(batch_loss(setup, x, y)).backward()
            scaler.step(setup.optimizers[0])
            last_layer.step()
            scaler.update()
            setup.model.zero_grad()

    setup = classifier()
    first, *_, last = setup.model.children()
    setup.optimizers = tuple(torch.optim.SGD(layer.parameters(), lr=1e-6) for layer in (first, last))
    (finding,) = event_findings(train, setup)
    assert (finding.code, finding.severity) == ("O512", "error")
    assert source_line(finding) == "last_layer.step()"
    assert "inspected steps of one optimizer" in finding.message


def fused_setup() -> Setup:
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


@pytest.mark.parametrize("build", [classifier, fused_setup], ids=["adam", "fused"])
@pytest.mark.parametrize("accumulation", [1, 2])
def test_grad_scaler_misused_on_correct_loop_finds_nothing_and_skipped_steps_are_counted(
    build: Any, accumulation: int
) -> None:
    assert not event_findings(scaling(step_by_scaler, accumulation=accumulation), build())
    overflowing_loop = scaling(step_by_scaler, accumulation=accumulation, overflows=2 * accumulation)
    summary = summarize_loop(overflowing_loop, build())
    assert summary.grad_scaler.skipped_steps == 2
    assert summary.grad_scaler.requested_steps == 16 // accumulation
    assert not event_findings(overflowing_loop, build())


def test_grad_scaler_misused_on_disabled_scaler_or_sum_of_scaled_losses_finds_nothing() -> None:
    def train_on_scaled_halves(setup: Setup) -> None:
        scaler, optimizer = torch.amp.GradScaler("cpu"), setup.optimizers[0]
        for x, y in batches(setup):
            optimizer.zero_grad()
            (scaler.scale(batch_loss(setup, x, y)) / 2 + scaler.scale(batch_loss(setup, x, y)) / 2).backward()
            step_by_scaler(scaler, optimizer)

    assert not event_findings(scaling(step_by_scaler, enabled=False))
    assert not event_findings(scaling(step_without_scaler, enabled=False))
    assert not event_findings(train_on_scaled_halves)


def test_grad_scaler_misused_on_two_networks_with_one_scaled_finds_nothing() -> None:
    def train(setup: Setup) -> None:
        critic, scaler = nn.Linear(3, 1), torch.amp.GradScaler("cpu")
        critic_optimizer = setup.optimizers[1]
        critic_optimizer.param_groups[0]["params"] = list(critic.parameters())
        for x, y in batches(setup):
            critic_optimizer.zero_grad()
            critic(setup.model(x).detach()).mean().backward()
            critic_optimizer.step()
            setup.optimizers[0].zero_grad()
            scaler.scale(batch_loss(setup, x, y)).backward()
            step_by_scaler(scaler, setup.optimizers[0])

    setup = fused_setup()
    setup.optimizers = (*setup.optimizers, torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=0.01))
    assert not event_findings(train, setup)


def test_record_of_scaled_loop_has_unscaled_losses() -> None:
    losses: list[float] = []

    def train(setup: Setup) -> None:
        scaler = torch.amp.GradScaler("cpu")
        for x, y in batches(setup):
            setup.optimizers[0].zero_grad()
            loss = batch_loss(setup, x, y)
            losses.append(loss.item())
            scaler.scale(loss).backward()
            step_by_scaler(scaler, setup.optimizers[0])

    debugger = Debugger.of(fused_setup())
    with debugger.watch() as watch:
        train(debugger.setup)
    assert watch.record.series("loss")[1].tolist() == pytest.approx(losses)
