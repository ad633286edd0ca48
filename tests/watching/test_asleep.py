"""Steps of which only the loss is kept, since a budget leaves no time for more."""

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
from tests.watching.rhythms import TINY

STEPS = 3 * ALWAYS_MEASURED_STEPS
X = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()
DATA = TensorDataset(X, Y)


class Loop:
    """A loop with clipping, a schedule and validation; the values of one step may be spoiled."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.1), nn.Linear(8, 2))
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1, momentum=0.9)
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 4, 0.99)
        self.train, self.val = DataLoader(DATA, 4, shuffle=True), DataLoader(DATA, 8)
        self.loss_fn, self.losses, self.asleep = nn.CrossEntropyLoss(), list[float](), list[int]()

    def watch(self, **options: Any) -> Watch:
        debugger = nbdebug.Debugger(
            self.model, self.train, self.val, loss_fn=self.loss_fn, optimizer=self.optimizer, scheduler=self.scheduler
        )
        return debugger.watch(**{"budget": TINY, **options})

    def run(self, watch: Any, spoiled: str = "", steps: int = STEPS) -> Watch:
        torch.manual_seed(1)
        spoil, number = spoiled, 0
        with watch:
            while number < steps:
                for x, y in self.train:
                    number += 1
                    asleep = isinstance(watch, Watch) and watch.time_budget.visibility is StepVisibility.LOSS_ONLY
                    self.asleep += [number] * asleep
                    now, spoil = (spoil, "") if asleep and number > 2 * ALWAYS_MEASURED_STEPS else ("", spoil)
                    self.step(x * float("inf") if now == "input" else x, y, now)
                self.scheduler.step()
                with torch.no_grad():
                    self.losses += [self.loss_fn(self.model(x), y).item() for x, y in self.val]
        return watch

    def step(self, x: torch.Tensor, y: torch.Tensor, spoiled: str) -> None:
        self.optimizer.zero_grad()
        loss = self.loss_fn(self.model(x), y)
        loss.backward()
        self.losses.append(loss.item())
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        if spoiled == "gradient":
            self.model[0].weight.grad.fill_(torch.nan)  # type: ignore[union-attr, operator]
        self.optimizer.step()


def test_most_steps_are_asleep_and_never_too_many_in_a_row() -> None:
    loop = Loop()
    watch = loop.run(loop.watch())
    assert not watch.error_summary
    assert watch.time_budget.loss_only_steps == len(loop.asleep) > (STEPS - ALWAYS_MEASURED_STEPS) * 0.8
    heard = [0, *sorted({*range(1, STEPS + 1)} - {*loop.asleep})]
    assert max(b - a for a, b in itertools.pairwise(heard)) <= MAX_LOSS_ONLY_STEPS + 1
    assert set(watch.record.series("step_seconds")[0].tolist()).isdisjoint(loop.asleep)
    for signal in ("loss", "lr"):
        assert watch.record.series(signal)[0].tolist() == list(range(1, STEPS + 1))


def test_losses_epochs_and_validation_are_those_of_a_watch_that_hears_all() -> None:
    short, long = Loop(), Loop()
    one, other = short.run(short.watch()), long.run(long.watch(budget=None))
    assert short.asleep
    assert not long.asleep
    for signal in ("loss", "lr", "eval_loss"):
        assert one.record.series(signal)[1].tolist() == other.record.series(signal)[1].tolist()
        assert one.record.series(signal)[0].tolist() == other.record.series(signal)[0].tolist()
    assert len(one.record.events_of_kind("epoch")) == len(other.record.events_of_kind("epoch")) == STEPS // 8
    assert one.session is not None
    assert other.session is not None
    for name in ("backward_passes", "steps"):
        assert getattr(one.session.loop_monitor, name) == getattr(other.session.loop_monitor, name) == STEPS


def test_what_the_user_owns_is_as_in_an_unwatched_run() -> None:
    loops = Loop(), Loop()
    loops[0].run(nullcontext())
    loops[1].run(loops[1].watch())
    assert loops[1].asleep
    assert loops[0].losses == loops[1].losses
    for name in ("model", "optimizer", "scheduler"):
        states = [copy.deepcopy(getattr(one, name).state_dict()) for one in loops]
        assert str(states[0]) == str(states[1])
    assert not loops[1].model._forward_hooks
    assert not loops[1].model._forward_pre_hooks


@pytest.mark.parametrize(("spoiled", "later"), [("input", 0), ("gradient", 1)])
def test_a_loss_that_is_not_finite_is_told_at_its_step_and_why_it_is_not_run_again(spoiled: str, later: int) -> None:
    loop = Loop()
    watch = loop.run(loop.watch(), spoiled)
    at = next(number for number in loop.asleep if number > 2 * ALWAYS_MEASURED_STEPS)
    assert watch.result is not None
    found = next(one for one in watch.result.report.findings if one.code == "T603")
    assert found.where.step == at + later
    assert "without budget=" in found.fix
    again = watch.replay()
    assert again is not None
    assert (again.step, again.loss_only_steps > later) == (at + later, True)
    if spoiled == "gradient":
        assert again.non_finite_weights == ("0.weight",)
        assert f"For the last {again.loss_only_steps} steps only the loss was recorded, to stay within budget." in str(
            again
        )
    else:
        assert not again.non_finite_weights
        assert "The weights were finite before the step began; its inputs were not recorded" in str(again)


def test_buttons_are_heard(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = Loop()

    class Pressing(Screen):
        def clicks(self) -> list[dict[str, Any]]:
            return [{"kind": "stop"}] if len(loop.asleep) > 5 else []

    monkeypatch.setattr("nbdebug.watching.watch.MIN_REFRESH_SECONDS", 0.0)
    monkeypatch.setattr("nbdebug.watching.watch.show_view", lambda _: Pressing())
    watch = loop.run(loop.watch())
    assert watch.result is not None
    assert watch.result.steps == loop.asleep[-1] < STEPS


def test_the_file_grows_every_few_seconds_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    update, written = RecordWriter.update, list[int]()

    def counted(self: RecordWriter, record: Record) -> None:
        written.append(record.steps)
        update(self, record)

    monkeypatch.setattr(RecordWriter, "update", counted)
    loop = Loop()
    with loop.watch(save=tmp_path / "run.nbd"):
        for _ in range(STEPS):
            CLOCK.passes(0.1)
            loop.step(X[:4], Y[:4], "")
    apart = [b - a for a, b in itertools.pairwise([*written, STEPS])]
    assert max(apart) <= 60


def test_an_optimizer_that_comes_later_ends_it() -> None:
    loop = Loop()
    with loop.watch() as watch:
        for number in range(1, STEPS + 1):
            x, y = X[:4], Y[:4]
            loop.step(x, y, "")
            if number == 2 * ALWAYS_MEASURED_STEPS:
                loop.optimizer = torch.optim.Adam(loop.model.parameters(), 1e-3)
    assert watch.session is not None
    assert len(watch.session.loop_monitor.tracked_optimizers) == 2
    assert watch.time_budget.loss_only_steps < 2 * ALWAYS_MEASURED_STEPS
    assert not watch.error_summary
