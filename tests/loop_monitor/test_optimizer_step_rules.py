"""Tests of the rules on zero_grad(), step() and schedules, and of the restoration after a watch."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import nbdebug
from nbdebug.loop_monitor.inspection_plan import InspectionPlan
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import (
    TrainFunction,
    batch_loss,
    batches,
    codes,
    event_findings,
    source_line,
    train_plainly,
)


def without_zero_grad(setup: Setup) -> None:
    for x, y in batches(setup):
        batch_loss(setup, x, y).backward()
        setup.optimizers[0].step()


def zero_grad_once_per_epoch(setup: Setup) -> None:
    for _ in range(4):
        setup.optimizers[0].zero_grad()
        for x, y in setup.train_loader:
            batch_loss(setup, x, y).backward()
            setup.optimizers[0].step()


def accumulation_without_zero_grad(setup: Setup) -> None:
    for number, (x, y) in enumerate(batches(setup, 6)):
        (batch_loss(setup, x, y) / 2).backward()
        if number % 2:
            setup.optimizers[0].step()


@pytest.mark.parametrize(
    ("train", "call"),
    [
        (without_zero_grad, ".backward()"),
        (zero_grad_once_per_epoch, ".zero_grad()"),
        (accumulation_without_zero_grad, ".backward()"),
    ],
)
def test_zero_grad_missing_locates_backward_or_the_call_outside_the_loop(train: TrainFunction, call: str) -> None:
    findings = event_findings(train)
    assert codes(findings) == ["O505"]
    assert call in source_line(findings[0])


def zero_grad_before_step(setup: Setup) -> None:
    for x, y in batches(setup):
        batch_loss(setup, x, y).backward()
        setup.model.zero_grad()
        setup.optimizers[0].step()


def without_step(setup: Setup) -> None:
    for x, y in batches(setup):
        setup.optimizers[0].zero_grad()
        batch_loss(setup, x, y).backward()


@pytest.mark.parametrize(("train", "line"), [(zero_grad_before_step, "zero_grad()"), (without_step, ".backward()")])
def test_step_missing_locates_line(train: TrainFunction, line: str) -> None:
    findings = event_findings(train)
    assert findings[0].code == "O506"
    assert line in source_line(findings[0])


def test_step_missing_if_optimizer_belongs_to_other_model() -> None:
    other = torch.optim.SGD(network(3).parameters(), lr=0.1)

    def train(setup: Setup) -> None:
        for x, y in batches(setup):
            other.zero_grad()
            setup.model.zero_grad()
            batch_loss(setup, x, y).backward()
            other.step()

    assert "O506" in codes(event_findings(train))


def test_loss_of_model_copy_or_of_plain_number_is_reported() -> None:
    def train_on_copy(setup: Setup) -> None:
        for x, y in batches(setup):
            other = copy.deepcopy(setup.model)
            setup.optimizers[0].zero_grad()
            F.cross_entropy(other(x), y).backward()
            setup.optimizers[0].step()

    def train_on_number(setup: Setup) -> None:
        for x, y in batches(setup):
            loss = torch.tensor(batch_loss(setup, x, y).item(), requires_grad=True)
            setup.optimizers[0].zero_grad()
            loss.backward()
            setup.optimizers[0].step()

    (unregistered,) = (finding for finding in event_findings(train_on_copy) if finding.code == "M301")
    assert "deepcopy" in source_line(unregistered)
    (detached,) = (finding for finding in event_findings(train_on_number) if finding.code == "L212")
    assert "reached the model" in detached.message


def test_copy_that_is_trained_is_placed_at_the_line_that_made_it() -> None:
    def fresh(model: nn.Module) -> nn.Module:
        again = network(3)
        again.load_state_dict(model.state_dict())
        return again

    def train(setup: Setup) -> None:
        rival = fresh(setup.model)
        for x, y in batches(setup):
            setup.optimizers[0].zero_grad()
            one_loss(rival, x, y).backward()
            setup.optimizers[0].step()

    def one_loss(classifier: nn.Module, x: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(classifier(x), y)

    (unregistered,) = (finding for finding in event_findings(train) if finding.code == "M301")
    assert source_line(unregistered).strip() == "rival = fresh(setup.model)"


def setup_with_schedule(gamma: float = 0.5) -> Setup:
    model = network(3)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,), scheduler=schedule)


def schedule_per_batch(setup: Setup) -> None:
    for x, y in batches(setup, 10):
        setup.optimizers[0].zero_grad()
        batch_loss(setup, x, y).backward()
        setup.optimizers[0].step()
        setup.scheduler.step()


def schedule_per_epoch(setup: Setup) -> None:
    for _ in range(10):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            batch_loss(setup, x, y).backward()
            setup.optimizers[0].step()
        setup.scheduler.step()


def train_without_schedule(setup: Setup) -> None:
    train_plainly(setup, 10)


def test_schedule_misused_per_batch_or_never_stepped_but_not_per_epoch() -> None:
    (per_batch,) = event_findings(schedule_per_batch, setup_with_schedule())
    assert per_batch.code == "O507"
    assert "scheduler.step()" in source_line(per_batch)
    (never,) = event_findings(train_without_schedule, setup_with_schedule())
    assert "never stepped in 40 optimizer steps" in never.message
    assert not event_findings(schedule_per_epoch, setup_with_schedule(0.8))


def test_cosine_schedule_over_all_steps_has_no_finding() -> None:
    setup = setup_with_schedule()
    setup.optimizers[0].param_groups[0]["lr"] = 0.01
    setup.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(setup.optimizers[0], 40)
    assert not event_findings(schedule_per_batch, setup)


def alternating_optimizers(setup: Setup) -> None:
    """Two networks with one optimizer each, whose gradients pass through each other."""
    critic, critic_optimizer = nn.Linear(3, 1), setup.optimizers[1]
    critic_optimizer.param_groups[0]["params"] = list(critic.parameters())
    for x, y in batches(setup):
        critic_optimizer.zero_grad()
        critic(setup.model(x).detach()).mean().backward()
        critic_optimizer.step()
        setup.optimizers[0].zero_grad()
        (batch_loss(setup, x, y) + critic(setup.model(x)).mean()).backward()
        setup.optimizers[0].step()


def gradients_set_to_none(setup: Setup) -> None:
    for x, y in batches(setup):
        for parameter in setup.model.parameters():
            parameter.grad = None
        batch_loss(setup, x, y).backward()
        setup.optimizers[0].step()


def gradients_zeroed_in_place(setup: Setup) -> None:
    for x, y in batches(setup):
        batch_loss(setup, x, y).backward()
        setup.optimizers[0].step()
        for parameter in setup.model.parameters():
            parameter.grad.zero_()


def sharpness_aware_minimization(setup: Setup) -> None:
    """Two backward passes per step, at the weights and at weights with a higher loss."""
    for x, y in batches(setup):
        batch_loss(setup, x, y).backward()
        with torch.no_grad():
            offsets = [0.05 * p.grad / p.grad.norm() for p in setup.model.parameters()]
            for p, offset in zip(setup.model.parameters(), offsets, strict=True):
                p.add_(offset)
        setup.optimizers[0].zero_grad()
        batch_loss(setup, x, y).backward()
        with torch.no_grad():
            for p, offset in zip(setup.model.parameters(), offsets, strict=True):
                p.sub_(offset)
        setup.optimizers[0].step()
        setup.optimizers[0].zero_grad()


@pytest.mark.parametrize("train", [gradients_set_to_none, gradients_zeroed_in_place, sharpness_aware_minimization])
def test_other_ways_to_clear_gradients_have_no_finding(train: TrainFunction) -> None:
    assert not event_findings(train)


def test_alternating_optimizers_have_no_finding() -> None:
    setup = classifier()
    second = torch.optim.Adam([nn.Parameter(torch.zeros(1))], lr=0.01)
    setup.optimizers = (*setup.optimizers, second)
    assert not event_findings(alternating_optimizers, setup)


def test_step_with_closure_has_no_finding() -> None:
    model = network(3)
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=3)
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))

    def train(setup: Setup) -> None:
        for x, y in batches(setup):

            def closure(x: Any = x, y: Any = y) -> Any:
                optimizer.zero_grad()
                loss = batch_loss(setup, x, y)
                loss.backward()
                return loss

            optimizer.step(closure)

    assert not event_findings(train, setup)


def test_weights_restored_after_training_have_no_finding() -> None:
    def train(setup: Setup) -> None:
        before = copy.deepcopy(setup.model.state_dict())
        train_without_schedule(setup)
        setup.model.load_state_dict(before)

    assert not event_findings(train)


def test_error_of_loop_monitor_does_not_reach_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    setup = classifier()
    watch = nbdebug.watch(setup.model, setup.optimizers[0])
    with watch:
        monkeypatch.setattr(InspectionPlan, "is_inspecting", property(lambda self: 1 / 0))
        train_without_schedule(setup)
    assert watch.result is not None
    assert "ZeroDivisionError" in watch.result.errors
    assert "not watched: " in str(watch.result)


def test_watch_restores_classes_and_removes_hooks() -> None:
    setup = setup_with_schedule()
    classes = (torch.optim.Optimizer, nn.Module, type(setup.scheduler))
    before = [dict(vars(patched)) for patched in classes]
    with nbdebug.watch(setup.model, setup.optimizers[0]):
        train_without_schedule(setup)
    assert [dict(vars(patched)) for patched in classes] == before
    assert not setup.optimizers[0]._optimizer_step_pre_hooks
