"""Tests that a replay names the operation, its line and the samples of a non-finite step."""

from __future__ import annotations

import math

import pytest

from nbdebug.debugger import Debugger
from tests.replay.faults import FAULTS, ODD_BATCH, diverging_setup
from tests.replay.loops import train, train_watched

LEARNING_RATE_RULES = ("G410", "O501")  # correct on the faults whose learning rate is too high
every_fault = pytest.mark.parametrize("name", FAULTS)


@every_fault
def test_replay_of_fault_names_phase_operation_line_and_sample(name: str) -> None:
    fault = FAULTS[name]
    debugger = Debugger.of(fault.build())
    replay = train_watched(debugger).replay()
    assert replay.phase == fault.phase
    assert replay.operation == fault.operation
    assert fault.source in replay.where.source
    assert replay.where.step == replay.step
    assert replay.exact
    if fault.sample is not None:
        assert replay.step == ODD_BATCH + 1
        assert replay.samples == (fault.sample,)


@every_fault
def test_first_fault_in_findings_is_the_operation_at_its_line(name: str) -> None:
    fault = FAULTS[name]
    debugger = Debugger.of(fault.build())
    watch = train_watched(debugger)
    assert watch.error_summary == ""
    code = {"loss": "G405", "gradient": "G406"}[fault.phase]
    faults = [finding for finding in debugger.findings.faults if finding.code not in LEARNING_RATE_RULES]
    assert faults[0].code == code or code in faults[0].explains
    assert code in {finding.code for finding in faults}
    assert all(fault.source in finding.where.source for finding in faults if finding.code in (faults[0].code, code))


def test_finding_of_checkup_is_not_repeated_by_replay() -> None:
    setup = FAULTS["exp of a large value"].build()
    setup.train_loader.dataset.tensors[0][3] = 1e3
    debugger = Debugger.of(setup)
    debugger.checkup()
    assert train_watched(debugger).replay().finding.code == "G405"
    (finding,) = [finding for finding in debugger.findings if finding.code == "G405"]
    assert finding.where.sample == 3


def test_replay_of_divergence_blames_no_operation() -> None:
    debugger = Debugger.of(diverging_setup())
    replay = train_watched(debugger).replay()
    assert replay.diverged
    assert replay.largest_weights[0] < 1 < 1e6 < replay.largest_weights[1]
    assert "the run diverged" in str(replay)
    assert replay.finding is None
    assert {finding.code for finding in debugger.findings.faults} - {*LEARNING_RATE_RULES} == {"G404", "T603"}


def test_replay_of_healthy_run_is_none() -> None:
    debugger = Debugger.of(FAULTS["half precision"].build())
    debugger.setup.train_loader.dataset.tensors[0].clamp_(-3, 3)
    with debugger.watch() as watch:
        losses = train(debugger.setup, 3)
    assert all(map(math.isfinite, losses))
    assert watch.replay() is None
    assert debugger.findings.faults == ()
