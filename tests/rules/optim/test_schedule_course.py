"""Tests of O507 on what the rate of a loop does: restarts, zero, replaced optimizers, and two schedulers."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.loop_monitor.rate_history import get_rate_history
from nbdebug.loop_monitor.schedules import replaces_rate
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup

EPOCHS, BATCHES, RATE = 10, 16, 0.05
X, Y = points()


class Loop:
    """A training loop whose optimizer and schedulers may change between epochs."""

    def __init__(self) -> None:
        self.model = network(3)
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(self.model.parameters(), lr=RATE, momentum=0.9)
        self.loader = DataLoader(TensorDataset(X, Y), batch_size=len(X) // BATCHES)

    def epochs(self) -> Iterator[int]:
        yield from range(EPOCHS)

    def run_epoch(self, after_batch: Callable[[int], Any] = lambda number: None) -> None:
        for number, (x, y) in enumerate(self.loader):
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(x), y).backward()
            self.optimizer.step()
            after_batch(number)

    def set_rate(self, rate: float) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = rate


def findings_of(train: Callable[[Loop], None]) -> list[Finding]:
    loop = Loop()
    setup = Setup(loop.model, loop.loader, None, nn.CrossEntropyLoss(), (loop.optimizer,))
    debugger = Debugger.of(setup)
    with debugger.watch(final_tests=False) as watch:
        train(loop)
    assert not watch.error_summary, watch.error_summary
    return [finding for finding in debugger.findings if finding.code == "O507"]


def per_epoch(*makers: Callable[[torch.optim.Optimizer], Any]) -> Callable[[Loop], None]:
    def train(loop: Loop) -> None:
        schedulers = [make(loop.optimizer) for make in makers]
        for _ in loop.epochs():
            loop.run_epoch()
            for scheduler in schedulers:
                scheduler.step()

    return train


def per_batch(make: Callable[[torch.optim.Optimizer], Any]) -> Callable[[Loop], None]:
    def train(loop: Loop) -> None:
        scheduler = make(loop.optimizer)
        for _ in loop.epochs():
            loop.run_epoch(lambda _: scheduler.step())

    return train


def exponential(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.ExponentialLR(optimizer, 0.9)


def warm_up(optimizer: torch.optim.Optimizer, steps: int = 3) -> Any:
    return lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / steps))


def linear_warm_up(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.LinearLR(optimizer, 0.2, 1.0, 3)


def ramp(steps: int) -> Callable[[torch.optim.Optimizer], Any]:
    return lambda optimizer: lr_scheduler.LinearLR(optimizer, 0.01, total_iters=steps)


def ramp_and_cosine(steps: int, total: int) -> Callable[[torch.optim.Optimizer], Any]:
    def make(optimizer: torch.optim.Optimizer) -> Any:
        parts: list[Any] = [ramp(steps)(optimizer), cosine(optimizer, total - steps)]
        return lr_scheduler.SequentialLR(optimizer, parts, milestones=[steps])

    return make


def cosine(optimizer: torch.optim.Optimizer, steps: int = EPOCHS) -> Any:
    return lr_scheduler.CosineAnnealingLR(optimizer, steps)


def to_zero_early(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.PolynomialLR(optimizer, 7)


def zero_by_hand(loop: Loop) -> None:
    steps = 0

    def after_batch(_: int) -> None:
        nonlocal steps
        steps += 1
        loop.set_rate(RATE * max(0.0, 1 - steps / 100))

    for _ in loop.epochs():
        loop.run_epoch(after_batch)


def warm_up_by_batch_number(loop: Loop) -> None:
    for _ in loop.epochs():
        loop.set_rate(RATE / BATCHES)
        loop.run_epoch(lambda number: loop.set_rate(RATE * min(1.0, (number + 2) / BATCHES)))


def warm_up_created_in_each_epoch(loop: Loop) -> None:
    for _ in loop.epochs():
        scheduler = warm_up(loop.optimizer, BATCHES)
        loop.run_epoch(lambda _, scheduler=scheduler: scheduler.step())


def created_in_each_epoch(make: Callable[[torch.optim.Optimizer], Any]) -> Callable[[Loop], None]:
    def train(loop: Loop) -> None:
        for _ in loop.epochs():
            scheduler = make(loop.optimizer)
            loop.run_epoch()
            scheduler.step()

    return train


def set_back_in_each_epoch(loop: Loop) -> None:
    scheduler = cosine(loop.optimizer)
    for _ in loop.epochs():
        loop.set_rate(RATE)
        loop.run_epoch()
        scheduler.step()


def optimizer_replaced(replaces_scheduler: bool) -> Callable[[Loop], None]:
    def train(loop: Loop) -> None:
        scheduler = cosine(loop.optimizer)
        for epoch in loop.epochs():
            if epoch == 3:
                loop.optimizer = torch.optim.Adam(loop.model.parameters(), lr=1e-3)
                scheduler = cosine(loop.optimizer, 7) if replaces_scheduler else scheduler
            loop.run_epoch()
            scheduler.step()

    return train


def optimizer_created_in_each_epoch(loop: Loop) -> None:
    scheduler = exponential(loop.optimizer)
    for _ in loop.epochs():
        loop.optimizer = torch.optim.SGD(loop.model.parameters(), lr=RATE)
        loop.run_epoch()
        scheduler.step()


def plateau_undone_by_warm_up(loop: Loop) -> None:
    warming = warm_up(loop.optimizer, 8)
    plateau = lr_scheduler.ReduceLROnPlateau(loop.optimizer, patience=0, factor=0.3)
    for _ in loop.epochs():
        loop.run_epoch(lambda _: warming.step())
        plateau.step(1.0)


def warm_up_each_batch_and_decay_each_epoch(loop: Loop) -> None:
    warming, decay = warm_up(loop.optimizer, 8), lr_scheduler.MultiStepLR(loop.optimizer, [4, 7])

    def step(_: int) -> None:
        warming.step()

    for _ in loop.epochs():
        loop.run_epoch(step)
        decay.step()


def warm_up_then_decay(loop: Loop) -> None:
    first, second = warm_up(loop.optimizer), exponential(loop.optimizer)
    for epoch in loop.epochs():
        loop.run_epoch()
        (first if epoch < 3 else second).step()


def warm_restarts(loop: Loop) -> None:
    scheduler = lr_scheduler.CosineAnnealingWarmRestarts(loop.optimizer, 2)
    for epoch in loop.epochs():
        loop.run_epoch(lambda number, epoch=epoch: scheduler.step(epoch + number / BATCHES))


class WarmUpBefore(lr_scheduler.LRScheduler):
    """A warm-up that then steps another scheduler and returns its rates."""

    def __init__(self, optimizer: torch.optim.Optimizer, following: Any) -> None:
        self.following = following
        super().__init__(optimizer)

    def get_lr(self) -> list[Any]:
        if self.last_epoch > 3:
            return list(self.following.get_last_lr())
        return [base * (self.last_epoch + 1) / 4 for base in self.base_lrs]

    def step(self, epoch: int | None = None) -> None:
        if self.last_epoch >= 3:
            self.following.step()
            self._last_lr = self.following.get_last_lr()
        else:
            super().step()


def wrapped_warm_up(loop: Loop) -> None:
    scheduler = WarmUpBefore(loop.optimizer, cosine(loop.optimizer))
    for _ in loop.epochs():
        loop.run_epoch()
        scheduler.step()


def warm_up_of_epochs_in_a_run_of_three(loop: Loop) -> None:
    scheduler = ramp(20)(loop.optimizer)
    for _ in range(3):
        for _ in range(4):
            loop.run_epoch()
        scheduler.step()


def resumed_schedule(loop: Loop) -> None:
    scheduler = cosine(loop.optimizer)
    for epoch in loop.epochs():
        if epoch == 5:
            states = copy.deepcopy([loop.model.state_dict(), loop.optimizer.state_dict(), scheduler.state_dict()])
            loop.optimizer = torch.optim.SGD(loop.model.parameters(), lr=RATE, momentum=0.9)
            scheduler = cosine(loop.optimizer)
            for item, state in zip((loop.model, loop.optimizer, scheduler), states, strict=True):
                item.load_state_dict(state)  # type: ignore[attr-defined]
        loop.run_epoch()
        scheduler.step()


def decay_then_lbfgs_with_a_rate_of_one(loop: Loop) -> None:
    loop.optimizer = torch.optim.Adam(loop.model.parameters(), lr=0.005)
    scheduler = exponential(loop.optimizer)
    for _ in loop.epochs():
        loop.run_epoch()
        scheduler.step()
    second_order = torch.optim.LBFGS(loop.model.parameters(), lr=1.0, max_iter=2)

    def closure() -> torch.Tensor:
        second_order.zero_grad()
        loss = nn.functional.cross_entropy(loop.model(X), Y)
        loss.backward()
        return loss

    for _ in range(10):
        second_order.step(closure)  # type: ignore[no-untyped-call]


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")
@pytest.mark.parametrize(
    ("train", "message"),
    [
        (per_epoch(to_zero_early), "zero in the last 48 of 160 optimizer steps (30%"),
        (zero_by_hand, "zero in the last 60 of 160 optimizer steps (38%"),
        (per_batch(lambda optimizer: cosine(optimizer, 5)), "fell to a tenth or less and rose again"),
        (
            per_batch(lambda optimizer: lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 8, eta_min=1e-4)),
            "fell to a tenth or less and rose again",
        ),
        (warm_up_by_batch_number, "rises again in 10 of 10 epochs"),
        (warm_up_created_in_each_epoch, "rises again in 10 of 10 epochs"),
        (set_back_in_each_epoch, "The schedule has no effect: after 10 steps"),
        (
            created_in_each_epoch(lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.5**step)),
            "no effect: after 9 steps",
        ),
        (created_in_each_epoch(cosine), "10 schedulers of the kind CosineAnnealingLR"),
        (created_in_each_epoch(lambda o: lr_scheduler.StepLR(o, 3)), "10 schedulers of the kind StepLR"),
        (optimizer_replaced(replaces_scheduler=False), "CosineAnnealingLR made 7 of its 10 steps after"),
        (optimizer_created_in_each_epoch, "after its optimizer had been replaced"),
        (per_epoch(exponential, warm_up), "changes by ExponentialLR were followed directly by a step of LambdaLR"),
        (plateau_undone_by_warm_up, "changes by ReduceLROnPlateau were followed directly by a step of LambdaLR"),
        (per_epoch(ramp(40)), "LinearLR stepped 10 times in 160 batches, so the highest rate was 0.013"),
        (per_epoch(ramp_and_cosine(48, 160)), "The rate reaches 0.05 after 48 steps of the scheduler."),
    ],
)
def test_schedule_misused_reports_the_course_of_the_rate(train: Callable[[Loop], None], message: str) -> None:
    (finding,) = findings_of(train)
    assert message in finding.message
    assert finding.severity == "warning"
    assert finding.where.line


@pytest.mark.parametrize(
    "train",
    [
        per_epoch(cosine),
        per_epoch(linear_warm_up, exponential),
        per_epoch(lambda optimizer: lr_scheduler.ChainedScheduler([linear_warm_up(optimizer), exponential(optimizer)])),
        per_epoch(lambda optimizer: warm_up(optimizer, 4)),
        per_epoch(ramp(3)),
        warm_up_of_epochs_in_a_run_of_three,
        per_epoch(ramp(EPOCHS)),
        per_epoch(ramp(1000)),
        per_epoch(ramp_and_cosine(2, EPOCHS)),
        per_batch(ramp(40)),
        per_batch(ramp_and_cosine(48, 160)),
        per_batch(lambda optimizer: lr_scheduler.CyclicLR(optimizer, 0.001, RATE, step_size_up=2 * BATCHES)),
        per_batch(lambda optimizer: lr_scheduler.OneCycleLR(optimizer, RATE, total_steps=EPOCHS * BATCHES)),
        warm_up_then_decay,
        warm_restarts,
        optimizer_replaced(replaces_scheduler=True),
        resumed_schedule,
        decay_then_lbfgs_with_a_rate_of_one,
        wrapped_warm_up,
        lambda loop: [loop.run_epoch() for _ in loop.epochs()],
    ],
)
def test_schedule_misused_on_sound_courses_finds_nothing(train: Callable[[Loop], None]) -> None:
    assert not findings_of(train)


def test_warm_up_over_batches_that_steps_per_epoch_is_moved_into_the_loop_over_batches() -> None:
    def train(loop: Loop) -> None:
        warming = ramp(40)(loop.optimizer)
        for _ in loop.epochs():
            for x, y in loop.loader:
                loop.optimizer.zero_grad()
                nn.functional.cross_entropy(loop.model(x), y).backward()
                loop.optimizer.step()
            warming.step()

    (finding,) = findings_of(train)
    assert (finding.where.source or "").strip() == "warming.step()"
    assert [edit.text.strip() for edit in finding.edits if edit.text.strip()] == ["warming.step()"]


@pytest.mark.parametrize(
    ("make", "expected"),
    [(warm_up, True), (exponential, False), (linear_warm_up, False), (per_epoch, False)],
)
def test_replaces_rate_asks_without_a_change(make: Callable[[torch.optim.Optimizer], Any], expected: bool) -> None:
    optimizer = torch.optim.Adam(network(3).parameters(), lr=RATE)
    scheduler = make(optimizer)
    before = copy.deepcopy(optimizer.state_dict())
    assert replaces_rate(scheduler) is expected
    assert optimizer.state_dict() == before


def test_rate_history_without_epochs_or_rates_is_empty() -> None:
    assert get_rate_history([], 0, []).steps == 0
    assert get_rate_history([0.1, 0.0], 2, []).zero_steps == 1
    assert get_rate_history([-0.1], 1, [0]).steps == 0
    assert get_rate_history([0.0, 0.0], 2, [0]).is_zero


@pytest.mark.parametrize(
    ("train", "fix"),
    [
        (plateau_undone_by_warm_up, "if step <= warm_up_steps: "),
        (warm_up_each_batch_and_decay_each_epoch, "if step <= warm_up_steps: warming.step()"),
        (per_epoch(exponential, warm_up), "SequentialLR(optimizer, [warm_up, decay]"),
    ],
)
def test_schedule_misused_of_undone_changes_ends_a_warm_up_that_steps_more_often(
    train: Callable[[Loop], None], fix: str
) -> None:
    (finding,) = findings_of(train)
    assert fix in finding.fix


def test_plateau_scheduler_of_each_batch_is_the_cause_of_a_rate_of_zero() -> None:
    def train(loop: Loop) -> None:
        scheduler = lr_scheduler.ReduceLROnPlateau(loop.optimizer, factor=0.01, patience=1, eps=0.0)
        for _ in loop.epochs():
            loop.run_epoch(lambda _: scheduler.step(1.0))

    (finding,) = (finding for finding in findings_of(train) if "zero in the last" in finding.message)
    assert "steps with every batch" in finding.cause
    assert "scheduler.step(1.0)" in (finding.where.source or "")
