"""Tests of the buttons, callbacks and options that control a running loop."""

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
from tests.watching.points import labeled_points

X, Y = labeled_points(16)


@pytest.fixture(autouse=True)
def _refresh_at_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check for clicks at every step, since these loops end within the refresh interval."""
    monkeypatch.setattr("nbdebug.watching.watch.MIN_REFRESH_SECONDS", 0.0)


class ClickingScreen(Screen):
    """A screen that reports clicks by step."""

    def __init__(self, clicks_by_step: dict[int, dict[str, Any]]) -> None:
        self.clicks_by_step, self.step = clicks_by_step, 0

    def clicks(self) -> list[dict[str, Any]]:
        self.step += 1
        return [self.clicks_by_step[self.step]] if self.step in self.clicks_by_step else []


def run(
    monkeypatch: pytest.MonkeyPatch, clicks_by_step: dict[int, dict[str, Any]], steps: int = 8, **options: Any
) -> Any:
    monkeypatch.setattr("nbdebug.watching.watch.show_view", lambda _, **options: ClickingScreen(clicks_by_step))
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


def test_stop_button_ends_loop_after_a_complete_step_without_raising(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = run(monkeypatch, {3: {"kind": "stop"}})
    assert watch.result.steps == 3
    assert watch.result.interrupted
    assert watch.record.events_of_kind("stopped")[0].text == "stopped by the Stop button"


def test_stop_button_passes_through_except_exception_in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.watching.watch.show_view", lambda _, **options: ClickingScreen({1: {"kind": "stop"}}))
    model = nn.Linear(6, 2)
    optimizer, finished_steps = torch.optim.SGD(model.parameters(), lr=0.1), list[int]()
    with nbdebug.watch(model, optimizer):
        for step in range(3):
            try:
                F.cross_entropy(model(X), Y).backward()
                optimizer.step()
            except Exception:
                pass
            finished_steps.append(step)
    assert finished_steps == []


def test_rate_button_scales_all_later_learning_rates_of_a_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = run(monkeypatch, {2: {"kind": "rate", "factor": 0.5}, 3: {"kind": "rate", "factor": 99.0}})
    assert watch.record.series("lr")[1].tolist() == pytest.approx([0.1, 0.1, *[0.05] * 2, *[0.005] * 4])
    assert [event.text for event in watch.record.events_of_kind("note")] == ["learning rate × 0.5, at your request"]


def test_pause_button_waits_for_resume_and_is_excluded_from_overhead(monkeypatch: pytest.MonkeyPatch) -> None:
    start = CLOCK.now
    monkeypatch.setattr("nbdebug.watching.watch.time.sleep", CLOCK.advance)
    watch = run(monkeypatch, {3: {"kind": "pause"}, 7: {"kind": "resume"}})
    assert watch.result.steps == 8
    assert CLOCK.now - start > 0.15
    assert watch.result.overhead < 1


def test_pause_button_wait_can_be_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    import _thread

    threading.Timer(0.3, _thread.interrupt_main).start()
    with pytest.raises(KeyboardInterrupt):
        run(monkeypatch, {2: {"kind": "pause"}})


def emit_finding_at_step_4(monkeypatch: pytest.MonkeyPatch) -> None:
    """Emit a finding at step 4, in which no numbers are fetched, whatever the speed of the machine."""

    def advance(schedule: Any, step: int) -> None:
        if step == 4:
            schedule.on_new_finding(Finding("example", code="T605", name="loss-spike", severity="warning"))

    monkeypatch.setattr("nbdebug.watching.rule_schedule.RuleSchedule.advance", advance)
    monkeypatch.setattr("nbdebug.watching.step_recorder.FETCH_SECONDS", 3600.0)


@pytest.mark.parametrize(("stop_on", "stops"), [(None, False), ("error", False), ("warning", True)])
def test_stop_on_interrupts_the_run_at_findings_of_that_severity(
    stop_on: Any, stops: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    emit_finding_at_step_4(monkeypatch)
    findings: list[Finding] = []
    watch = run(monkeypatch, {}, stop_on=stop_on, on_finding=findings.append)
    assert [finding.code for finding in findings] == ["T605"]
    assert watch.result.interrupted is stops
    assert watch.result.steps == (3 if stops else 8)


def test_on_finding_that_raises_is_reported_and_training_continues(monkeypatch: pytest.MonkeyPatch) -> None:
    emit_finding_at_step_4(monkeypatch)
    watch = run(monkeypatch, {}, on_finding=lambda _: 1 / 0)
    assert watch.result.steps == 8
    assert "ZeroDivisionError" in watch.error_summary


def test_save_writes_a_growing_record_while_the_loop_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbdebug.watching.run_outputs.SAVE_SECONDS", 0.0)
    path, model = tmp_path / "run.nbd", nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    saved_steps = []
    with pytest.raises(RuntimeError, match="error in the loop"), nbdebug.watch(model, optimizer, save=path, every=1):
        for step in range(30):
            F.cross_entropy(model(X), Y).backward()
            optimizer.step()
            CLOCK.advance(0.01)
            saved_steps.append(nbdebug.load(path).steps)
            if step == 29:
                raise RuntimeError("error in the loop")
    assert saved_steps[-1] > 15
    record = nbdebug.load(path)
    assert record.steps == 30
    assert record.about["finished"]
    with pytest.raises(nbdebug.SetupError, match="can be written"), nbdebug.watch(model, optimizer, save=tmp_path):
        pass


def test_watch_that_is_not_open_or_already_closed_raises_setup_error() -> None:
    watch = nbdebug.watch(nn.Linear(6, 2))
    with pytest.raises(nbdebug.SetupError, match="inside `with"):
        watch.log(a=1.0)
    with watch:
        pass
    with pytest.raises(nbdebug.SetupError, match="Call watch\\(\\) again"), watch:
        pass
