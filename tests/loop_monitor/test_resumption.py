"""Tests of O507 on programs that resume training: a schedule and an optimizer that do not begin at the same place."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.loop_monitor.watched_loops import all_findings, load_loop, source_line, train_plainly

MakeOptimizer = Callable[[Any], torch.optim.Optimizer]
MakeScheduler = Callable[[torch.optim.Optimizer], Any]
OPTIMIZERS: dict[str, MakeOptimizer] = {
    "Adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-2),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=1e-1, momentum=0.9),
}
SCHEDULERS: dict[str, MakeScheduler] = {
    "steps": lambda optimizer: lr_scheduler.StepLR(optimizer, 4, gamma=0.1),
    "exponential": lambda optimizer: lr_scheduler.ExponentialLR(optimizer, 0.8),
    "cosine": lambda optimizer: lr_scheduler.CosineAnnealingLR(optimizer, 40),
    "function": lambda optimizer: lr_scheduler.LambdaLR(optimizer, lambda step: 0.9**step),
    "one cycle": lambda optimizer: lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=60),
}


def checkpoint(make_optimizer: MakeOptimizer, make_scheduler: MakeScheduler, epochs: int = 5) -> dict[str, Any]:
    """Return what a first session saves, read back from a file."""
    model = network(3)
    optimizer = make_optimizer(model.parameters())
    scheduler = make_scheduler(optimizer)
    setup = minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))
    for _ in range(epochs):
        train_plainly(setup, 1)
        for _ in setup.train_loader:
            scheduler.step()
    file = io.BytesIO()
    parts = {"model": model, "optimizer": optimizer, "scheduler": scheduler}
    torch.save({name: part.state_dict() for name, part in parts.items()}, file)
    file.seek(0)
    return dict(torch.load(file, weights_only=False))


def resumed_setup(optimizer: str, scheduler: str, restored: set[str], *, creates_last: bool = False) -> Setup:
    """Return a program that has restored some parts; the scheduler is created before or after that."""
    make_optimizer, make_scheduler = OPTIMIZERS[optimizer], SCHEDULERS[scheduler]
    saved = checkpoint(make_optimizer, make_scheduler)
    model = network(3)
    model.load_state_dict(saved["model"])
    new_optimizer = make_optimizer(model.parameters())
    parts: dict[str, Any] = {"optimizer": new_optimizer}
    if not creates_last:
        parts["scheduler"] = make_scheduler(new_optimizer)
    for name in [*parts]:
        if name in restored:
            parts[name].load_state_dict(saved[name])
    if creates_last:
        parts["scheduler"] = make_scheduler(new_optimizer)
    options: dict[str, Any] = {"optimizers": (new_optimizer,), "scheduler": parts["scheduler"]}
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), **options)


def train_with_schedule(setup: Setup) -> None:
    for _ in range(4):
        train_plainly(setup, 1)
        setup.scheduler.step()


def schedule_findings(findings: list[Finding]) -> list[Finding]:
    return [finding for finding in findings if finding.code == "O507" and finding.severity != "note"]


def findings_before_and_in_loop(make_setup: Callable[[], Setup]) -> list[list[Finding]]:
    """Return the findings of O507 of a checkup, and of a watched loop without one."""
    debugger = Debugger.of(make_setup())
    checkup = debugger.checkup(select=["O507"])
    return [schedule_findings([*checkup.findings]), schedule_findings(all_findings(train_with_schedule, make_setup()))]


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
def test_new_schedule_beside_loaded_optimizer_is_warning(optimizer: str, scheduler: str) -> None:
    for findings in findings_before_and_in_loop(lambda: resumed_setup(optimizer, scheduler, {"optimizer"})):
        (finding,) = findings
        assert "begins at step 0" in finding.message
        assert finding.evidence["position"] == 0
        assert finding.evidence["saved steps"] == (20 if optimizer == "Adam" else 0)
        assert "scheduler.load_state_dict" in finding.fix


@pytest.mark.parametrize("scheduler", ["steps", "exponential", "cosine"])
def test_new_schedule_created_after_loading_is_warning(scheduler: str) -> None:
    for findings in findings_before_and_in_loop(
        lambda: resumed_setup("Adam", scheduler, {"optimizer"}, creates_last=True)
    ):
        (finding,) = findings
        assert "begins at step 0" in finding.message
        is_reset = finding.evidence["rate"] != finding.evidence["saved rate"]
        assert ("optimizer.load_state_dict" in finding.fix) is is_reset
        assert finding.fix.rfind("optimizer.load_state_dict") < finding.fix.find("scheduler.load_state_dict")


@pytest.mark.parametrize("scheduler", ["steps", "exponential", "cosine"])
def test_restored_schedule_with_rate_of_new_optimizer_is_warning(scheduler: str) -> None:
    for findings in findings_before_and_in_loop(lambda: resumed_setup("Adam", scheduler, {"scheduler"})):
        (finding,) = findings
        assert finding.evidence["position"] == 20
        assert finding.evidence["rate"] == 1e-2 > 1.5 * finding.evidence["planned rate"]


def test_last_epoch_beside_new_optimizer_is_warning() -> None:
    def make_setup() -> Setup:
        model = network(3)
        optimizer = torch.optim.SGD([{"params": model.parameters(), "initial_lr": 0.1}], lr=0.1)
        scheduler = lr_scheduler.StepLR(optimizer, 3, last_epoch=30)
        options: dict[str, Any] = {"optimizers": (optimizer,), "scheduler": scheduler}
        return minimal_setup(model, *points(), nn.CrossEntropyLoss(), **options)

    for findings in findings_before_and_in_loop(make_setup):
        (finding,) = findings
        assert finding.evidence["position"] == 31
        assert finding.evidence["rate"] == 0.1


@pytest.mark.parametrize("scheduler", ["function", "one cycle"])
def test_restored_schedule_with_empty_optimizer_state_is_note(scheduler: str) -> None:
    findings = all_findings(train_with_schedule, resumed_setup("Adam", scheduler, {"scheduler"}))
    (finding,) = (finding for finding in findings if finding.code == "O507")
    assert finding.severity == "note"
    assert "state of Adam is empty" in finding.message


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("restored", [set(), {"optimizer", "scheduler"}], ids=["nothing", "everything"])
def test_consistent_start_has_no_finding(optimizer: str, scheduler: str, restored: set[str]) -> None:
    assert findings_before_and_in_loop(lambda: resumed_setup(optimizer, scheduler, restored)) == [[], []]


SESSIONS = """
import copy
import torch
from torch.nn import functional as F
from torch.optim.lr_scheduler import MultiStepLR, LambdaLR


class Trainer:
    def __init__(self, setup):
        self.model = setup.model
        self.setup = setup
        self.adam = torch.optim.Adam(setup.model.parameters(), lr=1e-2)
        self.plan = {schedule}

    def load(self, saved):
        self.adam.load_state_dict(saved[0])
        {load}

    def run(self):
        for _ in range(5):
            for x, y in self.setup.train_loader:
                self.adam.zero_grad()
                F.cross_entropy(self.model(x), y).backward()
                self.adam.step()
            self.plan.step()
        return copy.deepcopy([self.adam.state_dict(), self.plan.state_dict()])


def train(setup):
    saved = Trainer(setup).run()
    second = Trainer(setup)
    second.load(saved)
    second.run()
"""
RESUMED = """
import copy
import torch
from torch.nn import functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, StepLR


def make_plan(adam):
    return StepLR(adam, 3)


class Session:
    def __init__(self, setup):
        self.setup, self.adam, self.plan = setup, setup.optimizers[0], None

    def run(self):
        for _ in range(5):
            for x, y in self.setup.train_loader:
                self.adam.zero_grad()
                F.cross_entropy(self.setup.model(x), y).backward()
                self.adam.step()
            self.plan.step()


def resume(setup, saved):
    session = Session(setup)
    session.adam.load_state_dict(saved)
    {resume}
    return session


def train(setup):
    first = Session(setup)
    first.plan = make_plan(first.adam)
    first.run()
    resume(setup, copy.deepcopy(first.adam.state_dict())).run()
"""
PLANS = ["MultiStepLR(self.adam, [2, 6])", "LambdaLR(self.adam, lambda epoch: min(1, (epoch + 1) / 4))"]


@pytest.mark.parametrize("schedule", PLANS)
def test_new_schedule_in_second_session_of_loop_is_warning_at_load(schedule: str, tmp_path: Path) -> None:
    train = load_loop(tmp_path / "loop.py", SESSIONS.format(schedule=schedule, load="pass"))
    (finding,) = schedule_findings(all_findings(train))
    assert finding.evidence["saved steps"] == 20
    assert source_line(finding) == "self.adam.load_state_dict(saved[0])"


@pytest.mark.parametrize(
    "resume", ["session.plan = make_plan(session.adam)", "session.plan = CosineAnnealingLR(session.adam, 20)"]
)
def test_new_schedule_that_is_created_beside_a_loaded_state_is_warning_at_its_creation(
    resume: str, tmp_path: Path
) -> None:
    train = load_loop(tmp_path / "loop.py", RESUMED.format(resume=resume))
    (finding,) = schedule_findings(all_findings(train))
    assert "begins at step 0" in finding.message
    assert source_line(finding) == resume


@pytest.mark.parametrize("schedule", PLANS)
def test_schedule_restored_in_second_session_of_loop_has_no_finding(schedule: str, tmp_path: Path) -> None:
    text = SESSIONS.format(schedule=schedule, load="self.plan.load_state_dict(saved[1])")
    assert schedule_findings(all_findings(load_loop(tmp_path / "loop.py", text))) == []


@pytest.mark.parametrize("schedule", PLANS)
def test_state_loaded_into_the_running_optimizer_and_schedule_has_no_finding(schedule: str, tmp_path: Path) -> None:
    text = SESSIONS.format(schedule=schedule, load="self.plan.load_state_dict(saved[1])")
    text = text.replace("second = Trainer(setup)", "second = first").replace(
        "saved = Trainer(setup).run()", "first = Trainer(setup)\n    saved = first.run()"
    )
    assert schedule_findings(all_findings(load_loop(tmp_path / "loop.py", text))) == []


TWO_OPTIMIZERS = """
import copy
import torch
from torch.nn import functional as F
from torch.optim.lr_scheduler import ExponentialLR


def session(setup, states):
    halves = [*setup.model.parameters()][:2], [*setup.model.parameters()][2:]
    adams = [torch.optim.Adam(half, lr=1e-2) for half in halves]
    plans = [ExponentialLR(adam, 0.8) for adam in adams]
    for adam, plan, state in zip(adams, plans, states):
        adam.load_state_dict(state[0])
        {load}
    for _ in range(5):
        for x, y in setup.train_loader:
            setup.model.zero_grad()
            F.cross_entropy(setup.model(x), y).backward()
            for adam in adams:
                adam.step()
        for plan in plans:
            plan.step()
    return [copy.deepcopy([adam.state_dict(), plan.state_dict()]) for adam, plan in zip(adams, plans)]


def train(setup):
    session(setup, session(setup, []))
"""


@pytest.mark.parametrize(
    ("load", "count"),
    [
        ("pass", 1),
        ("plan.load_state_dict(state[1])", 0),
        ("if adam is adams[0]: plan.load_state_dict(state[1])", 1),
    ],
)
def test_new_schedule_of_one_of_two_optimizers_is_found(load: str, count: int, tmp_path: Path) -> None:
    findings = schedule_findings(all_findings(load_loop(tmp_path / "loop.py", TWO_OPTIMIZERS.format(load=load))))
    assert len([finding for finding in findings if "begins at step 0" in finding.message]) == count


HEALTHY = {
    "second stage at a rate of its own": """
    plan = ExponentialLR(adam, 0.5)
    run(plan)
    adam.param_groups[0]["lr"] = 1e-3
    run(ExponentialLR(adam, 0.9))
""",
    "new start for each fold": """
    start = copy.deepcopy(adam.state_dict())
    for fold in range(2):
        adam.load_state_dict(start)
        run(ExponentialLR(adam, 0.9))
""",
    "warm-up beside a decay": """
    adam.load_state_dict(adam.state_dict())
    warm, decay = LinearLR(adam, 0.1, total_iters=4), ExponentialLR(adam, 0.9)
    run(decay, warm)
""",
    "warm-up before a decay": """
    parts = [LinearLR(adam, 0.1, total_iters=4), ExponentialLR(adam, 0.9)]
    run(SequentialLR(adam, parts, milestones=[4]))
""",
}
HEADER = """
import copy
from torch.nn import functional as F
from torch.optim.lr_scheduler import ExponentialLR, LinearLR, SequentialLR


def train(setup):
    adam = setup.optimizers[0]

    def run(*plans):
        for _ in range(6):
            for x, y in setup.train_loader:
                adam.zero_grad()
                F.cross_entropy(setup.model(x), y).backward()
                adam.step()
            for plan in plans:
                plan.step()
"""


@pytest.mark.parametrize("name", HEALTHY)
def test_schedule_of_a_new_stage_has_no_finding(name: str, tmp_path: Path) -> None:
    train = load_loop(tmp_path / "loop.py", HEADER + HEALTHY[name])
    assert schedule_findings(all_findings(train)) == []


def test_checkup_leaves_rates_and_first_call_of_optimizer_as_they_were() -> None:
    setup = resumed_setup("Adam", "one cycle", {"optimizer"})
    (optimizer,) = setup.optimizers
    before = {name: value for name, value in optimizer.param_groups[0].items() if name != "params"}
    Debugger.of(setup).checkup()
    after = {name: value for name, value in optimizer.param_groups[0].items() if name != "params"}
    assert after == before
    assert not getattr(optimizer, "_opt_called", False)
