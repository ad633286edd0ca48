"""O512: a GradScaler that is used by half, or stepped past."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.asking import Train, batches, loss_of, seen, source, watched

Act = Callable[[Any, torch.optim.Optimizer], None]


def by_scaler(scaler: Any, optimizer: torch.optim.Optimizer) -> None:
    scaler.step(optimizer)
    scaler.update()


def past_it(scaler: Any, optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()


def unscaled_and_past_it(scaler: Any, optimizer: torch.optim.Optimizer) -> None:
    scaler.unscale_(optimizer)
    optimizer.step()
    scaler.update()


def scaling(act: Act, scales: bool = True, many: int = 1, overflows: int = 0, **given: Any) -> Train:
    def train(setup: Setup) -> None:
        scaler, optimizer = torch.amp.GradScaler("cpu", **given), setup.optimizers[0]
        left = iter(range(overflows))
        weight = setup.model[0].weight
        weight.register_hook(lambda gradient: gradient * (torch.inf if next(left, None) is not None else 1.0))
        for number, (x, y) in enumerate(batches(setup, 4)):
            loss = loss_of(setup, x, y) / many
            (scaler.scale(loss) if scales or not number else loss).backward()
            if number % many == many - 1:
                act(scaler, optimizer)
                optimizer.zero_grad()

    return train


@pytest.mark.parametrize(
    ("train", "line", "said"),
    [
        (scaling(past_it), "optimizer.step()", "65,536 times too large"),
        (
            scaling(by_scaler, scales=False),
            "(scaler.scale(loss) if scales or not number else loss).backward()",
            "not s",
        ),
    ],
)
def test_a_scaler_used_by_half(train: Train, line: str, said: str) -> None:
    found = watched(train)[0]
    assert (found.code, found.severity) == ("O512", "error")
    assert source(found) == line
    assert said in found.message


def test_a_step_past_the_scaler_with_unscaled_gradients_is_a_warning() -> None:
    (found,) = watched(scaling(unscaled_and_past_it))
    assert (found.code, found.severity) == ("O512", "warning")


def fused() -> Setup:
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, fused=True)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


@pytest.mark.parametrize("setup", [None, fused], ids=["adam", "fused"])
@pytest.mark.parametrize("many", [1, 2])
def test_the_right_order_is_quiet_and_skipped_steps_are_counted(setup: Any, many: int) -> None:
    assert not watched(scaling(by_scaler, many=many), setup and setup())
    first = seen(scaling(by_scaler, many=many, overflows=2 * many), setup and setup())
    assert first.grad_scaler.skipped_steps == 2
    assert first.grad_scaler.requested_steps == 16 // many
    assert not watched(scaling(by_scaler, many=many, overflows=2 * many), setup and setup())


def test_a_scaler_that_is_off_a_scaled_sum_and_a_loss_divided_after_scaling_are_quiet() -> None:
    def divided(setup: Setup) -> None:
        scaler, optimizer = torch.amp.GradScaler("cpu"), setup.optimizers[0]
        for x, y in batches(setup):
            optimizer.zero_grad()
            (scaler.scale(loss_of(setup, x, y)) / 2 + scaler.scale(loss_of(setup, x, y)) / 2).backward()
            by_scaler(scaler, optimizer)

    assert not watched(scaling(by_scaler, enabled=False))
    assert not watched(scaling(past_it, enabled=False))
    assert not watched(divided)


def test_two_networks_of_which_one_is_scaled_are_quiet() -> None:
    def train(setup: Setup) -> None:
        judge, scaler = nn.Linear(3, 1), torch.amp.GradScaler("cpu")
        judging = setup.optimizers[1]
        judging.param_groups[0]["params"] = list(judge.parameters())
        for x, y in batches(setup):
            judging.zero_grad()
            judge(setup.model(x).detach()).mean().backward()
            judging.step()
            setup.optimizers[0].zero_grad()
            scaler.scale(loss_of(setup, x, y)).backward()
            by_scaler(scaler, setup.optimizers[0])

    setup = fused()
    setup.optimizers = (*setup.optimizers, torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=0.01))
    assert not watched(train, setup)


def test_the_record_holds_losses_as_they_are_before_scaling() -> None:
    losses: list[float] = []

    def train(setup: Setup) -> None:
        scaler = torch.amp.GradScaler("cpu")
        for x, y in batches(setup):
            setup.optimizers[0].zero_grad()
            loss = loss_of(setup, x, y)
            losses.append(loss.item())
            scaler.scale(loss).backward()
            by_scaler(scaler, setup.optimizers[0])

    debugger = Debugger.of(fused())
    with debugger.watch() as run:
        train(debugger.setup)
    assert run.record.series("loss")[1].tolist() == pytest.approx(losses)
