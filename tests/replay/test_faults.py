"""A replay names the operation, its line and the samples of a step that was not finite."""

from __future__ import annotations

import math

import pytest

from nbdebug.debugger import Debugger
from tests.replay.faults import FAULTS, SEVENTH, too_fast
from tests.replay.loops import train

RATE = ("G410", "O501")  # which are right where a rate is too high, and drives a probability to zero
every_fault = pytest.mark.parametrize("name", FAULTS)


@every_fault
def test_the_operation_is_named_at_its_line_with_the_sample(name: str) -> None:
    fault = FAULTS[name]
    debugger = Debugger.of(fault.build())
    with debugger.watch() as run:
        train(debugger.setup)
    found = run.replay()
    assert found.phase == fault.phase
    assert found.operation == fault.operation
    assert fault.source in found.where.source
    assert found.where.step == found.step
    assert found.exact
    if fault.sample is not None:
        assert found.step == SEVENTH + 1
        assert found.samples == (fault.sample,)


@every_fault
def test_the_first_thing_that_is_said_is_the_operation(name: str) -> None:
    fault = FAULTS[name]
    debugger = Debugger.of(fault.build())
    with debugger.watch() as run:
        train(debugger.setup)
    assert run.error_summary == ""
    first = next(one for one in debugger.findings.faults if one.code not in RATE)
    assert first.code == {"loss": "G405", "gradient": "G406"}[fault.phase]
    assert fault.source in first.where.source


def test_what_a_checkup_has_said_is_not_said_again_of_a_step() -> None:
    setup = FAULTS["exp of a large value"].build()
    setup.train_loader.dataset.tensors[0][3] = 1e3
    debugger = Debugger.of(setup)
    debugger.checkup()
    with debugger.watch() as run:
        train(setup)
    assert run.replay().finding.code == "G405"
    (found,) = [one for one in debugger.findings if one.code == "G405"]
    assert found.where.step is None


def test_a_divergence_is_told_from_a_fault_of_an_operation() -> None:
    debugger = Debugger.of(too_fast())
    with debugger.watch() as run:
        train(debugger.setup)
    found = run.replay()
    assert found.diverged
    assert found.largest_weights[0] < 1 < 1e6 < found.largest_weights[1]
    assert "the run diverged" in str(found)
    assert found.finding is None
    assert {one.code for one in debugger.findings.faults if one.code not in RATE} == {"G404", "T603"}


def test_a_healthy_run_has_nothing_to_replay() -> None:
    debugger = Debugger.of(FAULTS["half precision"].build())
    debugger.setup.train_loader.dataset.tensors[0].clamp_(-3, 3)
    with debugger.watch() as run:
        losses = train(debugger.setup, 3)
    assert all(map(math.isfinite, losses))
    assert run.replay() is None
    assert debugger.findings.faults == ()
