"""Tests of O507: schedules that change too fast, too often or in the wrong direction, and sound schedules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.schedule_lines import factor_line

EPOCHS, BATCHES = 8, 4
MakeScheduler = Callable[[torch.optim.Optimizer], Any]


def loop_causes(
    make_scheduler: MakeScheduler,
    *,
    per_batch: bool = False,
    before_optimizer: bool = False,
    metric: Callable[[int], float] | None = None,
    pass_schedulers: Callable[[Any], Any] = lambda scheduler: scheduler,
) -> list[str]:
    """Return the causes of O507 in a loop that steps a schedule per batch or epoch, or with a metric.

    ``pass_schedulers`` returns what is passed to the debugger.
    """
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = make_scheduler(optimizer)
    options: dict[str, Any] = {"optimizers": (optimizer,), "scheduler": pass_schedulers(scheduler)}
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), **options)
    debugger = Debugger.of(Setup(**{**vars(setup), "val_loader": setup.train_loader}))
    with debugger.watch(final_tests=False):
        for epoch in range(EPOCHS):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                if before_optimizer:
                    scheduler.step()
                optimizer.step()
                if per_batch:
                    scheduler.step()
            if metric:
                value = metric(epoch)
                scheduler.step(value)
            elif not per_batch and not before_optimizer:
                scheduler.step()
    return [finding.cause for finding in debugger.findings if finding.code == "O507"]


def one_cycle(optimizer: torch.optim.Optimizer) -> Any:
    return lr_scheduler.OneCycleLR(optimizer, 0.1, epochs=EPOCHS, steps_per_epoch=BATCHES)


def plateau(mode: Any) -> MakeScheduler:
    return lambda optimizer: lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, patience=1)


def warmup(steps: int) -> Callable[[int], float]:
    return lambda step: min(1.0, (step + 1) / steps) ** 2


def with_constant_schedule(scheduler: Any) -> list[Any]:
    return [lr_scheduler.ConstantLR(scheduler.optimizer, 1.0), scheduler]


def warmup_and_steps(optimizer: torch.optim.Optimizer) -> Any:
    parts: list[Any] = [lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2), lr_scheduler.StepLR(optimizer, 3)]
    return lr_scheduler.SequentialLR(optimizer, parts, milestones=[2])


class Factors:
    """Factors of a schedule as an object."""

    def __init__(self, steps: int) -> None:
        self.steps = steps

    def __call__(self, step: int) -> float:
        return min(1.0, (step + 1) / self.steps) ** 2


class OwnWarmUp(lr_scheduler.LRScheduler):
    """A warm-up of the user's own class."""

    def __init__(self, optimizer: torch.optim.Optimizer, steps: int) -> None:
        self.steps = steps
        super().__init__(optimizer)

    def get_lr(self) -> list[Any]:
        return [rate * min(1.0, (self.last_epoch + 1) / self.steps) ** 2 for rate in self.base_lrs]


class OwnSchedule(lr_scheduler.StepLR):
    """A schedule that overrides step()."""

    def step(self, epoch: int | None = None) -> None:
        super().step()


PASSING = {"passed": lambda scheduler: scheduler, "list": lambda scheduler: [scheduler], "not passed": lambda _: None}


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step()")
@pytest.mark.parametrize("passing", PASSING)
@pytest.mark.parametrize(
    ("make_scheduler", "options", "cause"),
    [
        (one_cycle, {}, "length counts batches"),
        (lambda o: lr_scheduler.ExponentialLR(o, 0.1), {}, "reduce the rate too much"),
        (lambda o: lr_scheduler.LambdaLR(o, lambda step: 1 // (1 + step)), {}, "a factor of exactly 0"),
        (lambda o: lr_scheduler.LambdaLR(o, lambda step: 0.01**step), {}, "its function returns falls too early"),
        (lambda o: lr_scheduler.StepLR(o, 3), {"per_batch": True}, "with every batch"),
        (plateau("min"), {"metric": lambda epoch: (8 + 4 * epoch) / 64}, "a score"),
        (plateau("max"), {"metric": lambda epoch: 2.3 * 0.7**epoch}, "a loss"),
        (one_cycle, {"before_optimizer": True}, "before the optimizer's"),
        (lambda o: lr_scheduler.LinearLR(o, 0.2), {"before_optimizer": True}, "before the optimizer's"),
        (warmup_and_steps, {"per_batch": True}, "with every batch"),
        (lambda o: OwnSchedule(o, 3), {"per_batch": True}, "with every batch"),
        (lambda o: lr_scheduler.LambdaLR(o, warmup(2 * EPOCHS)), {}, "warm-up counts batches"),
        (lambda o: lr_scheduler.LambdaLR(o, Factors(2 * EPOCHS)), {}, "warm-up counts batches"),
        (lambda o: OwnWarmUp(o, 2 * EPOCHS), {}, "warm-up counts batches"),
    ],
    ids=[
        "one cycle per epoch",
        "fast decay",
        "function of whole numbers",
        "function",
        "step per batch",
        "plateau of a score",
        "plateau of a loss",
        "one cycle before",
        "linear before",
        "sequence",
        "own class",
        "warm-up over batches",
        "object",
        "own warm-up",
    ],
)
def test_schedule_misused_of_harmful_schedule_states_cause(
    make_scheduler: MakeScheduler, options: dict[str, Any], cause: str, passing: str
) -> None:
    (reported_cause,) = loop_causes(make_scheduler, **options, pass_schedulers=PASSING[passing])
    assert cause in reported_cause


def test_schedule_misused_reports_the_one_of_several_schedulers_that_never_steps() -> None:
    (cause,) = loop_causes(lambda o: lr_scheduler.CosineAnnealingLR(o, 20), pass_schedulers=with_constant_schedule)
    assert "never calls" in cause


@pytest.mark.parametrize(
    ("make_scheduler", "options"),
    [
        (one_cycle, {"per_batch": True}),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, EPOCHS), {}),
        (lambda o: lr_scheduler.CosineAnnealingLR(o, 10 * EPOCHS), {}),
        (lambda o: lr_scheduler.MultiStepLR(o, [3, 6]), {}),
        (plateau("max"), {"metric": lambda epoch: (8 + 4 * epoch) / 64}),
        (plateau("max"), {"metric": lambda epoch: (40 - 2 * epoch) / 64}),
        (plateau("max"), {"metric": lambda epoch: 0.81 - 0.005 * epoch}),
        (plateau("min"), {"metric": lambda epoch: 1 - epoch / 10}),
        (lambda o: lr_scheduler.LambdaLR(o, warmup(EPOCHS // 2)), {}),
        (lambda o: lr_scheduler.LambdaLR(o, warmup(1000)), {}),
        (lambda o: OwnWarmUp(o, EPOCHS // 2), {}),
    ],
    ids=[
        "one cycle per batch",
        "cosine",
        "slow cosine",
        "multi-step",
        "plateau of a score",
        "plateau of a decreasing score",
        "plateau of a slightly decreasing score",
        "plateau of an error",
        "warm-up over epochs",
        "long warm-up",
        "own warm-up",
    ],
)
@pytest.mark.parametrize("passing", PASSING)
def test_schedule_misused_ignores_sound_schedules(
    make_scheduler: MakeScheduler, options: dict[str, Any], passing: str
) -> None:
    assert loop_causes(make_scheduler, **options, pass_schedulers=PASSING[passing]) == []


@pytest.mark.parametrize("restores_state", [True, False])
def test_schedule_misused_of_sessions_reports_schedules_that_start_again(restores_state: bool) -> None:
    model = network(3)
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss())
    batches, states = [*setup.train_loader] * 3, None
    debugger = Debugger.of(setup)
    with debugger.watch(final_tests=False):
        for _ in range(3):
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            scheduler = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=3 * len(batches))
            if restores_state and states:
                optimizer.load_state_dict(states[0])
                scheduler.load_state_dict(states[1])
            for x, y in batches:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                scheduler.step()
            states = optimizer.state_dict(), scheduler.state_dict()
    causes = [finding.cause for finding in debugger.findings if finding.code == "O507"]
    assert causes == ([] if restores_state else ["The scheduler is created again, and its state is not restored."])


def rate_of_step(step: int) -> float:
    return 0.1 * min((step + 1) / 3, 1.0) / (1 + 0.01 * step)


def factor_of_step(step: int) -> float:
    return 10 * rate_of_step(step)


def test_function_that_returns_the_rate_is_reported_at_its_return() -> None:
    (cause,) = loop_causes(lambda o: lr_scheduler.LambdaLR(o, rate_of_step), per_batch=True)
    assert "returns a learning rate" in cause
    assert loop_causes(lambda o: lr_scheduler.LambdaLR(o, factor_of_step), per_batch=True) == []


def falls_to_zero(step: int) -> float:
    if step < 2 * EPOCHS:
        return (step + 1) / (2 * EPOCHS)
    return (EPOCHS * BATCHES - step) // (EPOCHS * BATCHES)


def test_schedule_that_is_zero_after_a_warm_up_over_batches_is_reported_where_it_returns_zero() -> None:
    schedulers: list[Any] = []

    def make(optimizer: torch.optim.Optimizer) -> Any:
        schedulers.append(lr_scheduler.LambdaLR(optimizer, falls_to_zero))
        return schedulers[-1]

    (cause,) = loop_causes(make, per_batch=True)
    assert "every batch" not in cause
    line = factor_line(schedulers[-1])
    assert line is not None
    assert "//" in line.text


@pytest.mark.parametrize(("classes", "is_reported"), [(3, True), (5, False)], ids=["same shapes", "other shapes"])
def test_schedule_of_the_optimizer_of_another_model(classes: int, *, is_reported: bool) -> None:
    other = network(classes)

    def make(_: torch.optim.Optimizer) -> Any:
        return lr_scheduler.ExponentialLR(torch.optim.SGD(other.parameters(), lr=0.1), 0.9)

    causes = loop_causes(make, pass_schedulers=lambda _: None)
    assert ["holds the optimizer of another model" in cause for cause in causes] == [True] * is_reported


def test_plateau_scheduler_that_maximizes_a_loss_with_the_name_of_a_score() -> None:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, mode="max", factor=0.9, patience=1)
    debugger = Debugger.of(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,)))
    with debugger.watch(final_tests=False):
        for _ in range(40):
            total = 0.0
            for x, y in debugger.setup.train_loader:
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                loss.backward()
                optimizer.step()
                total += loss.item() / BATCHES
            score = total
            scheduler.step(score)
    causes = [finding.cause for finding in debugger.findings if finding.code == "O507"]
    assert causes == ["The metric is a loss, but the mode is 'max'."]


@pytest.mark.parametrize(
    ("values", "count"),
    [
        ([0.02, 0.3, 0.5, 0.62, 0.7, 0.71, 0.72, 0.72], 1),
        ([0.9, 0.7, 0.6, 0.65, 0.8, 0.9, 0.95, 1.0], 0),
        ([0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95], 0),
        ([0.02, 0.03, 0.03, 0.05, 0.05, 0.06, 0.07, 0.08], 0),
        ([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75], 0),
    ],
    ids=["score from zero", "loss of overfitting", "level of the losses", "hardly rises", "rises steadily"],
)
def test_plateau_scheduler_that_minimizes_an_unnamed_score(values: list[float], count: int) -> None:
    model = network(3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.9, patience=1)
    debugger = Debugger.of(minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,)))
    with debugger.watch(final_tests=False):
        for value in values:
            for x, y in debugger.setup.train_loader:
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
            scheduler.step(value)
    causes = [finding.cause for finding in debugger.findings if finding.code == "O507"]
    assert sum("mode is 'min'" in cause for cause in causes) == count
