"""R905 in a loop: an average of the weights whose running statistics never follow, and copies that may stand still."""

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


class Average:
    """A copy that follows the model slowly."""

    def __init__(self, model: nn.Module) -> None:
        self.copy = copy.deepcopy(model)

    @torch.no_grad()
    def update(self, model: nn.Module, buffers: bool = False) -> None:
        for mine, live in zip(self.copy.parameters(), model.parameters(), strict=True):
            mine.lerp_(live, 0.1)
        for mine, live in zip(self.copy.buffers(), model.buffers(), strict=True) if buffers else ():
            mine.copy_(live)


def setup(norm: bool = True) -> Setup:
    layers = [nn.Linear(4, 8), nn.BatchNorm1d(8) if norm else nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)]
    return minimal_setup(nn.Sequential(*layers), *points(), nn.CrossEntropyLoss())


def steps(given: Setup) -> Any:
    for _ in range(10):
        for x, y in given.train_loader:
            given.optimizers[0].zero_grad()
            nn.functional.cross_entropy(given.model(x), y).backward()
            given.optimizers[0].step()
            yield x


def said(loop: Callable[[Setup], None], given: Setup) -> list[Finding]:
    debugger = Debugger.of(given)
    with debugger.watch() as watch:
        loop(given)
    assert not watch.error_summary, watch.error_summary
    return [one for one in debugger.findings if one.code == "R905"]


def in_a_class(given: Setup) -> None:
    average = Average(given.model)
    for _ in steps(given):
        average.update(given.model)


def in_a_variable(given: Setup) -> None:
    average = copy.deepcopy(given.model)
    for _ in steps(given):
        with torch.no_grad():
            for mine, live in zip(average.parameters(), given.model.parameters(), strict=True):
                mine.mul_(0.9).add_(live, alpha=0.1)


@pytest.mark.parametrize("loop", [in_a_class, in_a_variable])
def test_statistics_that_never_follow(loop: Callable[[Setup], None]) -> None:
    (found,) = said(loop, setup())
    assert found.severity == "warning"
    assert found.where.parameter == "1.running_mean"
    assert found.message.startswith("The weights of average")
    assert said(loop, setup(norm=False)) == []


def with_buffers(given: Setup) -> None:
    average = Average(given.model)
    for _ in steps(given):
        average.update(given.model, buffers=True)


def with_passes(given: Setup) -> None:
    average = Average(given.model)
    for x in steps(given):
        average.update(given.model)
        average.copy(x)


def a_teacher_that_rests(given: Setup) -> None:
    teacher = copy.deepcopy(given.model).eval()
    for x in steps(given):
        teacher(x)


def torchs_own(given: Setup) -> None:
    average = AveragedModel(given.model)  # type: ignore[no-untyped-call]
    for _ in steps(given):
        average.update_parameters(given.model)  # type: ignore[no-untyped-call]


def the_latest_weights(given: Setup) -> None:
    kept = copy.deepcopy(given.model)
    for _ in steps(given):
        kept.load_state_dict(given.model.state_dict())


@pytest.mark.parametrize("loop", [with_buffers, with_passes, a_teacher_that_rests, torchs_own, the_latest_weights])
def test_copies_whose_statistics_belong_to_their_weights(loop: Callable[[Setup], None]) -> None:
    assert said(loop, setup()) == []


def test_a_file_that_computes_statistics_afterwards_is_trusted(tmp_path: Path) -> None:
    file, model = tmp_path / "loop.py", setup().model
    file.write_text("update_bn(loader, average)")
    shadows = WeightCopyMonitor(model)
    shadows.histories["average"] = CopyHistory(weakref.ref(model), [], {}, {}, ("1.running_mean",))
    assert len(shadows.summary(None)) == 1
    assert shadows.summary(str(file)) == ()


def test_what_a_function_knows_of_its_variables_is_as_it_was() -> None:
    given, known = setup(), {}

    def loop(given: Setup) -> None:
        known.update(mine=locals())
        held = copy.deepcopy(given.model)
        for _ in steps(given):
            held.train()

    assert said(loop, given) == []
    assert list(known["mine"]) == ["given", "known"]


def test_variables_under_a_debugger_are_left_alone() -> None:
    given, kept = setup(), list[nn.Module]()

    def loop(given: Setup) -> None:
        average = copy.deepcopy(given.model)
        taken = steps(given)
        next(taken)
        kept.append(average)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if frame.f_code is loop.__code__ and event == "line" and "taken" in frame.f_locals:
            next(frame.f_locals["taken"])  # a debugger runs what is typed where it has stopped
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        assert said(loop, given) == []
    finally:
        sys.settrace(before)
    assert len(kept) == 1


def test_nothing_that_a_function_has_let_go_is_kept() -> None:
    seen: list[weakref.ref[torch.Tensor]] = []

    def loop(given: Setup) -> None:
        average = Average(given.model)
        for x in steps(given):
            output = None
            assert not seen or seen[-1]() is None
            output = average.copy(x)
            seen.append(weakref.ref(output))
            average.update(given.model, buffers=True)

    assert said(loop, setup()) == []
