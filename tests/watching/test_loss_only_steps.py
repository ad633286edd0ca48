"""Tests of steps that record only their loss, to stay within the budget."""

from __future__ import annotations

import copy
import itertools
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug
from nbdebug.hooks.training_events import StepVisibility
from nbdebug.records import Record
from nbdebug.records.record import RecordWriter
from nbdebug.views.live import Screen
from nbdebug.watching.time_budget import ALWAYS_MEASURED_STEPS, MAX_LOSS_ONLY_STEPS
from nbdebug.watching.watch import Watch
from tests.clock import CLOCK
from tests.watching.budgets import TINY_BUDGET
from tests.watching.points import labeled_points

STEPS = 3 * ALWAYS_MEASURED_STEPS
X, Y = labeled_points(32)
DATA = TensorDataset(X, Y)


class Loop:
    """A loop with clipping, a schedule and validation."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Linear(8, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 4, 0.99)
        self.train, self.val = DataLoader(DATA, 4, shuffle=True), DataLoader(DATA, 8)
        self.loss_fn, self.losses, self.loss_only_steps = nn.CrossEntropyLoss(), list[float](), list[int]()

    def watch(self, **options: Any) -> Watch:
        debugger = nbdebug.Debugger(
            self.model, self.train, self.val, loss_fn=self.loss_fn, optimizer=self.optimizer, scheduler=self.scheduler
        )
        return debugger.watch(**{"budget": TINY_BUDGET, **options})

    def run(self, watch: Any, non_finite: str = "", steps: int = STEPS) -> Watch:
        """Train; with ``non_finite`` the input or gradient of one step that records only its loss is not finite."""
        torch.manual_seed(1)
        pending, number = non_finite, 0
        with watch:
            while number < steps:
                for x, y in self.train:
                    number += 1
                    loss_only = isinstance(watch, Watch) and watch.time_budget.visibility is StepVisibility.LOSS_ONLY
                    self.loss_only_steps += [number] * loss_only
                    is_due = loss_only and number > 2 * ALWAYS_MEASURED_STEPS
                    fault, pending = (pending, "") if is_due else ("", pending)
                    self.step(x * float("inf") if fault == "input" else x, y, fault)
                self.scheduler.step()
                with torch.no_grad():
                    self.losses += [self.loss_fn(self.model(x), y).item() for x, y in self.val]
        return watch

    def step(self, x: torch.Tensor, y: torch.Tensor, fault: str) -> None:
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.losses.append(loss.item())
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if fault == "gradient":
            self.model[0].weight.grad.fill_(torch.nan)  # type: ignore[union-attr, operator]
        self.optimizer.step()


def test_tiny_budget_makes_most_steps_loss_only_in_runs_of_bounded_length() -> None:
    loop = Loop()
    watch = loop.run(loop.watch())
    assert not watch.error_summary
    assert watch.time_budget.loss_only_steps == len(loop.loss_only_steps) > (STEPS - ALWAYS_MEASURED_STEPS) * 0.8
    measured = [0, *sorted({*range(1, STEPS + 1)} - {*loop.loss_only_steps})]
    assert max(b - a for a, b in itertools.pairwise(measured)) <= MAX_LOSS_ONLY_STEPS + 1
    assert set(watch.record.series("step_seconds")[0].tolist()).isdisjoint(loop.loss_only_steps)
    for signal in ("loss", "lr"):
        assert watch.record.series(signal)[0].tolist() == list(range(1, STEPS + 1))


def test_loss_only_steps_record_the_same_losses_epochs_and_validation_as_full_steps() -> None:
    tight_loop, full_loop = Loop(), Loop()
    tight, full = tight_loop.run(tight_loop.watch()), full_loop.run(full_loop.watch(budget=None))
    assert tight_loop.loss_only_steps
    assert not full_loop.loss_only_steps
    for signal in ("loss", "lr", "eval_loss"):
        assert tight.record.series(signal)[1].tolist() == full.record.series(signal)[1].tolist()
        assert tight.record.series(signal)[0].tolist() == full.record.series(signal)[0].tolist()
    assert len(tight.record.events_of_kind("epoch")) == len(full.record.events_of_kind("epoch")) == STEPS // 8
    assert tight.session is not None
    assert full.session is not None
    for name in ("backward_passes", "steps"):
        assert getattr(tight.session.loop_monitor, name) == getattr(full.session.loop_monitor, name) == STEPS


def test_loss_only_steps_leave_model_optimizer_and_scheduler_as_unwatched() -> None:
    unwatched, watched = Loop(), Loop()
    unwatched.run(nullcontext())
    watched.run(watched.watch())
    assert watched.loss_only_steps
    assert unwatched.losses == watched.losses
    for name in ("model", "optimizer", "scheduler"):
        states = [copy.deepcopy(getattr(loop, name).state_dict()) for loop in (unwatched, watched)]
        assert str(states[0]) == str(states[1])
    assert not watched.model._forward_hooks
    assert not watched.model._forward_pre_hooks


@pytest.mark.parametrize(("non_finite", "delay"), [("input", 0), ("gradient", 1)])
def test_non_finite_loss_only_step_is_located_and_replay_states_why_it_cannot_rerun(
    non_finite: str, delay: int
) -> None:
    loop = Loop()
    watch = loop.run(loop.watch(), non_finite)
    non_finite_step = next(number for number in loop.loss_only_steps if number > 2 * ALWAYS_MEASURED_STEPS)
    assert watch.result is not None
    finding = next(finding for finding in watch.result.report.findings if finding.code == "T603")
    assert finding.where.step == non_finite_step + delay
    assert "without budget=" in finding.fix
    replay = watch.replay()
    assert replay is not None
    assert (replay.step, replay.loss_only_steps > delay) == (non_finite_step + delay, True)
    text = str(replay)
    if non_finite == "gradient":
        assert replay.non_finite_weights == ("0.weight",)
        assert f"For the last {replay.loss_only_steps} steps only the loss was recorded, to stay within budget." in text
    else:
        assert not replay.non_finite_weights
        assert "The weights were finite before the step began; its inputs were not recorded" in text


def test_stop_button_works_during_loss_only_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()

    class ClickingScreen(Screen):
        def clicks(self) -> list[dict[str, Any]]:
            return [{"kind": "stop"}] if len(loop.loss_only_steps) > 5 else []

    monkeypatch.setattr("nbdebug.watching.watch.MIN_REFRESH_SECONDS", 0.0)
    monkeypatch.setattr("nbdebug.watching.watch.show_view", lambda _, **options: ClickingScreen())
    watch = loop.run(loop.watch())
    assert watch.result is not None
    assert watch.result.steps == loop.loss_only_steps[-1] < STEPS


def test_save_writes_every_few_seconds_during_loss_only_steps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update, saved_steps = RecordWriter.update, list[int]()

    def recording_update(self: RecordWriter, record: Record) -> None:
        saved_steps.append(record.steps)
        update(self, record)

    monkeypatch.setattr(RecordWriter, "update", recording_update)
    loop = Loop()
    with loop.watch(save=tmp_path / "run.nbd"):
        for _ in range(STEPS):
            CLOCK.advance(0.1)
            loop.step(X[:4], Y[:4], "")
    intervals = [b - a for a, b in itertools.pairwise([*saved_steps, STEPS])]
    assert max(intervals) <= 60


def run_with_second_optimizer(replaces: bool) -> Watch:
    """Train with another optimizer from a step on, of all parameters or of the bias alone."""
    loop = Loop()
    with loop.watch() as watch:
        for number in range(1, STEPS + 1):
            loop.step(X[:4], Y[:4], "")
            if number == 2 * ALWAYS_MEASURED_STEPS:
                parameters = list(loop.model.parameters())
                loop.optimizer = torch.optim.Adam(parameters if replaces else parameters[-1:], 1e-3)
    assert not watch.error_summary
    return watch


def test_second_optimizer_of_some_parameters_ends_loss_only_steps() -> None:
    watch = run_with_second_optimizer(replaces=False)
    assert watch.session is not None
    assert len(watch.session.loop_monitor.tracked_optimizers) == 2
    assert watch.time_budget.loss_only_steps < 2 * ALWAYS_MEASURED_STEPS


def test_optimizer_that_replaces_the_first_continues_the_record() -> None:
    watch = run_with_second_optimizer(replaces=True)
    assert watch.session is not None
    assert len(watch.session.loop_monitor.tracked_optimizers) == 1
    assert watch.session.loop_monitor.steps == watch.record.steps == STEPS
    assert watch.record.series("lr")[1][-1] == pytest.approx(1e-3)
    assert watch.time_budget.loss_only_steps > 0
