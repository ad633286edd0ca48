"""Tests of R905 in a watched loop: averaged weights with stale running statistics, and other copies."""

from __future__ import annotations

import copy
import sys
import weakref
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.loop_monitor.weight_copies import CopyHistory, WeightCopyMonitor
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup


class MovingAverage:
    """A moving average of the weights of a model."""

    def __init__(self, model: nn.Module) -> None:
        self.copy = copy.deepcopy(model)

    @torch.no_grad()
    def update(self, model: nn.Module, buffers: bool = False) -> None:
        for target, source in zip(self.copy.parameters(), model.parameters(), strict=True):
            target.lerp_(source, 0.1)
        for target, source in zip(self.copy.buffers(), model.buffers(), strict=True) if buffers else ():
            target.copy_(source)


def make_setup(norm: bool = True) -> Setup:
    layers = [nn.Linear(4, 8), nn.BatchNorm1d(8) if norm else nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)]
    return minimal_setup(nn.Sequential(*layers), *points(), nn.CrossEntropyLoss())


def training_steps(setup: Setup) -> Any:
    for _ in range(10):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            nn.functional.cross_entropy(setup.model(x), y).backward()
            setup.optimizers[0].step()
            yield x


def loop_findings(loop: Callable[[Setup], None], setup: Setup) -> list[Finding]:
    debugger = Debugger.of(setup)
    with debugger.watch() as watch:
        loop(setup)
    assert not watch.error_summary, watch.error_summary
    return [finding for finding in debugger.findings if finding.code == "R905"]


def average_in_class(setup: Setup) -> None:
    average = MovingAverage(setup.model)
    for _ in training_steps(setup):
        average.update(setup.model)


def average_in_variable(setup: Setup) -> None:
    average = copy.deepcopy(setup.model)
    for _ in training_steps(setup):
        with torch.no_grad():
            for target, source in zip(average.parameters(), setup.model.parameters(), strict=True):
                target.mul_(0.9).add_(source, alpha=0.1)


class Trainer:
    """Trains a model and keeps an average of its weights."""

    def __init__(self, setup: Setup, **options: Any) -> None:
        self.setup, self.average, self.options = setup, MovingAverage(setup.model), options

    def fit(self) -> None:
        for _ in training_steps(self.setup):
            self.average.update(self.setup.model, **self.options)


def average_in_trainer(setup: Setup) -> None:
    Trainer(setup).fit()


def average_in_dictionary(setup: Setup) -> None:
    state = {"average": MovingAverage(setup.model), "best": 0.0}
    for _ in training_steps(setup):
        state["average"].update(setup.model)  # type: ignore[attr-defined]


LOOPS = {
    "average.copy": average_in_class,
    "average": average_in_variable,
    "self.average.copy": average_in_trainer,
    "state['average'].copy": average_in_dictionary,
}


@pytest.mark.parametrize("name", LOOPS)
def test_aliased_state_of_average_with_stale_statistics_is_warning(name: str) -> None:
    (finding,) = loop_findings(LOOPS[name], make_setup())
    assert finding.severity == "warning"
    assert finding.where.parameter == "1.running_mean"
    assert finding.message.startswith(f"The weights of {name},")
    assert loop_findings(LOOPS[name], make_setup(norm=False)) == []


def average_with_buffers(setup: Setup) -> None:
    average = MovingAverage(setup.model)
    for _ in training_steps(setup):
        average.update(setup.model, buffers=True)


def average_with_buffers_in_trainer(setup: Setup) -> None:
    Trainer(setup, buffers=True).fit()


def average_with_forward_passes(setup: Setup) -> None:
    average = MovingAverage(setup.model)
    for x in training_steps(setup):
        average.update(setup.model)
        average.copy(x)


def fixed_teacher(setup: Setup) -> None:
    teacher = copy.deepcopy(setup.model).eval()
    for x in training_steps(setup):
        teacher(x)


def torch_averaged_model(setup: Setup) -> None:
    average = AveragedModel(setup.model)  # type: ignore[no-untyped-call]
    for _ in training_steps(setup):
        average.update_parameters(setup.model)  # type: ignore[no-untyped-call]


def latest_weights(setup: Setup) -> None:
    model_copy = copy.deepcopy(setup.model)
    for _ in training_steps(setup):
        model_copy.load_state_dict(setup.model.state_dict())


@pytest.mark.parametrize(
    "loop",
    [
        *(average_with_buffers, average_with_buffers_in_trainer, average_with_forward_passes),
        *(fixed_teacher, torch_averaged_model, latest_weights),
    ],
)
def test_aliased_state_ignores_copies_with_matching_statistics(loop: Callable[[Setup], None]) -> None:
    assert loop_findings(loop, make_setup()) == []


def test_weight_copy_monitor_trusts_file_that_updates_statistics_later(tmp_path: Path) -> None:
    file, model = tmp_path / "loop.py", make_setup().model
    file.write_text("update_bn(loader, average)")
    monitor = WeightCopyMonitor(model)
    monitor.histories["average"] = CopyHistory(weakref.ref(model), weakref.ref(model), [], {}, {}, ("1.running_mean",))
    assert len(monitor.summary(None)) == 1
    assert monitor.summary(str(file)) == ()


def test_aliased_state_leaves_locals_of_loop_unchanged() -> None:
    setup, variables = make_setup(), {}

    def loop(setup: Setup) -> None:
        variables.update(locals=locals())
        model_copy = copy.deepcopy(setup.model)
        for _ in training_steps(setup):
            model_copy.train()

    assert loop_findings(loop, setup) == []
    assert list(variables["locals"]) == ["setup", "variables"]


def test_aliased_state_keeps_variables_of_loop_under_debugger() -> None:
    setup, averages = make_setup(), list[nn.Module]()

    def loop(setup: Setup) -> None:
        average = copy.deepcopy(setup.model)
        steps = training_steps(setup)
        next(steps)
        averages.append(average)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is loop.__code__ and event == "line" and "steps" in frame.f_locals:
            next(frame.f_locals["steps"])  # as typed into a debugger that has stopped here
        return trace

    previous_trace = sys.gettrace()
    sys.settrace(trace)
    try:
        assert loop_findings(loop, setup) == []
    finally:
        sys.settrace(previous_trace)
    assert len(averages) == 1


def test_aliased_state_keeps_no_reference_to_released_outputs() -> None:
    outputs: list[weakref.ref[torch.Tensor]] = []

    def loop(setup: Setup) -> None:
        average = MovingAverage(setup.model)
        for x in training_steps(setup):
            output = None
            assert not outputs or outputs[-1]() is None
            output = average.copy(x)
            outputs.append(weakref.ref(output))
            average.update(setup.model, buffers=True)

    assert loop_findings(loop, make_setup()) == []


class TeacherAndStudent(nn.Module):
    """A student, and a teacher that averages its weights, and its statistics if ``buffers``."""

    def __init__(self, buffers: bool, average: bool = True) -> None:
        super().__init__()
        self.student = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
        self.teacher = copy.deepcopy(self.student).requires_grad_(False).eval()
        self.buffers_too, self.average = buffers, average

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = (self.student if self.training else self.teacher)(x)
        return scores

    @torch.no_grad()
    def follow(self) -> None:
        for slow, fast in zip(self.teacher.parameters(), self.student.parameters(), strict=True):
            slow += 0.1 * (fast - slow) * self.average
        for slow, fast in zip(self.teacher.buffers(), self.student.buffers(), strict=True) if self.buffers_too else ():
            slow.copy_(fast)


def teacher_findings(model: TeacherAndStudent) -> list[Finding]:
    def loop(setup: Setup) -> None:
        for _ in training_steps(setup):
            model.follow()

    return loop_findings(loop, minimal_setup(model, *points(), nn.CrossEntropyLoss()))


def test_aliased_state_of_teacher_in_the_model_with_stale_statistics_is_warning_at_its_line() -> None:
    (finding,) = teacher_findings(TeacherAndStudent(buffers=False))
    assert (finding.severity, finding.where.module) == ("warning", "teacher")


@pytest.mark.parametrize(("buffers", "average"), [(True, True), (False, False)], ids=["statistics", "fixed teacher"])
def test_aliased_state_ignores_teacher_in_the_model_with_matching_statistics(buffers: bool, average: bool) -> None:
    assert teacher_findings(TeacherAndStudent(buffers, average)) == []
