"""What the user may ask of a running loop."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import nbdebug
from nbdebug.finding import Finding
from nbdebug.views.live import Screen
from tests.clock import CLOCK

X = torch.randn(16, 6, generator=torch.Generator().manual_seed(0))
Y = (X[:, 0] > 0).long()


@pytest.fixture(autouse=True)
def _after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """These loops are over before a person could click."""
    monkeypatch.setattr("nbdebug.watching.watch.MIN_REFRESH_SECONDS", 0.0)


class Pressing(Screen):
    """A screen on which buttons are pressed at given steps."""

    def __init__(self, at: dict[int, dict[str, Any]]) -> None:
        self.at, self.step = at, 0

    def clicks(self) -> list[dict[str, Any]]:
        """The click of this step, if there is one."""
        self.step += 1
        return [self.at[self.step]] if self.step in self.at else []


def run(monkeypatch: pytest.MonkeyPatch, at: dict[int, dict[str, Any]], steps: int = 8, **options: Any) -> Any:
    monkeypatch.setattr("nbdebug.watching.watch.show_view", lambda _: Pressing(at))
    torch.manual_seed(0)
    model = nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, gamma=0.1)
    debugger = nbdebug.Debugger(model, [(X, Y)], optimizer=optimizer, scheduler=schedule, loss_fn=nn.CrossEntropyLoss())
    with debugger.watch(**options) as watch:
        for _ in range(steps):
            optimizer.zero_grad()
            F.cross_entropy(model(X), Y).backward()
            optimizer.step()
            schedule.step()
    return watch


def test_stop_ends_the_loop_after_a_whole_step_and_the_cell_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = run(monkeypatch, {3: {"kind": "stop"}})
    assert watch.result.steps == 3
    assert watch.result.interrupted
    assert watch.record.events_of_kind("stopped")[0].text == "stopped by the Stop button"


def test_an_except_of_the_loop_does_not_swallow_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.watching.watch.show_view", lambda _: Pressing({1: {"kind": "stop"}}))
    model = nn.Linear(6, 2)
    optimizer, after = torch.optim.SGD(model.parameters(), lr=0.1), list[int]()
    with nbdebug.watch(model, optimizer):
        for step in range(3):
            try:
                F.cross_entropy(model(X), Y).backward()
                optimizer.step()
            except Exception:
                pass
            after.append(step)
    assert after == []


def test_the_rate_is_changed_for_good_also_under_a_schedule(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = run(monkeypatch, {2: {"kind": "rate", "factor": 0.5}, 3: {"kind": "rate", "factor": 99.0}})
    assert watch.record.series("lr")[1].tolist() == pytest.approx([0.1, 0.1, *[0.05] * 2, *[0.005] * 4])
    assert [one.text for one in watch.record.events_of_kind("note")] == ["learning rate × 0.5, as you asked"]


def test_pause_waits_for_resume_and_its_time_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = CLOCK.now
    monkeypatch.setattr("nbdebug.watching.watch.time.sleep", CLOCK.passes)
    watch = run(monkeypatch, {3: {"kind": "pause"}, 7: {"kind": "resume"}})
    assert watch.result.steps == 8
    assert CLOCK.now - begun > 0.15
    assert watch.result.overhead < 1


def test_a_pause_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    import _thread

    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, {2: {"kind": "pause"}})


def tell_at_fourth_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule speaks at a step in which no numbers are fetched, however slow the machine is."""

    def advance(judge: Any, step: int) -> None:
        if step == 4:
            judge.on_new_finding(Finding("made up", code="T605", name="loss-spike", severity="warning"))

    monkeypatch.setattr("nbdebug.watching.rule_schedule.RuleSchedule.advance", advance)
    monkeypatch.setattr("nbdebug.watching.step_recorder.FETCH_SECONDS", 3600.0)


@pytest.mark.parametrize(("stop_on", "stops"), [(None, False), ("error", False), ("warning", True)])
def test_a_finding_stops_the_run_where_that_is_wanted(
    stop_on: Any, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell_at_fourth_step(monkeypatch)
    told: list[Finding] = []
    watch = run(monkeypatch, {}, stop_on=stop_on, on_finding=told.append)
    assert [one.code for one in told] == ["T605"]
    assert watch.result.interrupted is stops
    assert watch.result.steps == (3 if stops else 8)


def test_a_callback_that_raises_is_reported_and_training_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    tell_at_fourth_step(monkeypatch)
    watch = run(monkeypatch, {}, on_finding=lambda _: 1 / 0)
    assert watch.result.steps == 8
    assert "ZeroDivisionError" in watch.error_summary


def test_a_record_is_saved_while_the_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.watching.watch.SAVE_SECONDS", 0.0)
    path, model = tmp_path / "run.nbd", nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    read = []
    with pytest.raises(RuntimeError, match="mine"), nbdebug.watch(model, optimizer, save=path, every=1):
        for step in range(30):
            F.cross_entropy(model(X), Y).backward()
            optimizer.step()
            CLOCK.passes(0.01)
            read.append(nbdebug.load(path).steps)
            if step == 29:
                raise RuntimeError("mine")
    assert read[-1] > 15
    whole = nbdebug.load(path)
    assert whole.steps == 30
    assert whole.about["finished"]
    with pytest.raises(nbdebug.SetupError, match="can be written"), nbdebug.watch(model, optimizer, save=tmp_path):
        pass


def test_a_watch_is_used_once() -> None:
    watch = nbdebug.watch(nn.Linear(6, 2))
    with pytest.raises(nbdebug.SetupError, match="inside `with"):
        watch.log(a=1.0)
    with watch:
        pass
    with pytest.raises(nbdebug.SetupError, match="Call watch\\(\\) again"), watch:
        pass
