"""Tests of T603: the first step with a non-finite loss, and its cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.records import Record
from nbdebug.replay import Replay
from nbdebug.rule_engine import rule_registry
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.watching.rule_schedule import RuleSchedule
from tests.replay.faults import FAULTS, diverging_setup
from tests.replay.loops import train
from tests.rules.rule_findings import own_findings

INF = math.inf


def findings_of_losses(
    losses: Sequence[float], incident: Replay | None = None, skipped: Sequence[int] = ()
) -> list[Finding]:
    record = Record()
    for step, loss in enumerate(losses, 1):
        record.run.append(step, {"loss": loss, "skipped": float(step in skipped)})
    return rule_registry.find_rule("T603")({"record": record, "incident": incident})


def test_non_finite_loss_finding_counts_steps_and_names_the_first() -> None:
    (finding,) = findings_of_losses([2.3, 2.2, 2.1, INF, INF, -INF])
    assert finding.where.step == 4
    assert "since step 4" in finding.message
    assert finding.evidence["steps"] == 3
    assert finding.severity == "error"


def test_non_finite_loss_that_is_finite_again_is_a_warning() -> None:
    (finding,) = findings_of_losses([2.3, INF, 2.1, 2.0])
    assert finding.severity == "warning"
    assert "finite again" in finding.message


def test_non_finite_loss_of_step_skipped_by_scaler_is_not_counted() -> None:
    assert findings_of_losses([INF, INF, 2.3, 2.2], skipped=[1, 2]) == []
    assert findings_of_losses([INF, INF, 2.3, INF], skipped=[1, 2])[0].where.step == 4


@pytest.mark.parametrize("losses", [[1.0, 10.0, 1e3, 1e9, INF], [0.1, 0.01, 0.01, 0.01, 0.01, 1e5, INF]])
def test_non_finite_loss_after_divergence_names_divergence_as_cause(losses: list[float]) -> None:
    (finding,) = findings_of_losses(losses)
    assert "had diverged" in finding.cause
    assert "lr" in finding.fix


@pytest.mark.parametrize(
    "losses", [[1e-3] * 9 + [0.5, INF], [2.3, 1e-6, 1e-6, 1e-6, 0.5, INF], [INF], [-5.0, -9.0, INF]]
)
def test_non_finite_loss_after_sudden_jump_does_not_name_divergence(losses: list[float]) -> None:
    assert "diverged" not in findings_of_losses(losses)[0].cause


def test_non_finite_loss_without_recorded_losses_is_not_checked() -> None:
    with pytest.raises(NotChecked, match="no loss"):
        findings_of_losses([])
    assert findings_of_losses([2.3, 2.2, math.nan, 2.1]) == []


@pytest.mark.parametrize("name", ["exp of a large value", "ratio of two inputs"])
def test_non_finite_loss_names_the_line_of_the_operation_and_ranks_after_it(name: str) -> None:
    debugger = Debugger.of(FAULTS[name].build())
    with debugger.watch():
        train(debugger.setup)
    codes = [finding.code for finding in debugger.findings.faults if finding.code in ("G405", "T603")]
    assert codes == ["G405", "T603"]
    finding = next(finding for finding in debugger.findings if finding.code == "T603")
    assert FAULTS[name].source in finding.where.source
    assert finding.where.step == 7


def test_non_finite_loss_of_too_high_learning_rate_gives_the_largest_weight() -> None:
    debugger = Debugger.of(diverging_setup())
    with debugger.watch():
        train(debugger.setup)
    (finding,) = own_findings(debugger, "T603")
    assert "had diverged" in finding.cause
    assert finding.evidence["largest weight"][1] > 1e6


def test_non_finite_loss_is_reported_by_rule_schedule_during_the_run() -> None:
    record, findings = Record(), list[Finding]()
    for step, loss in enumerate([2.3] * 30 + [INF] * 3, 1):
        record.run.append(step, {"loss": loss})
    schedule = RuleSchedule(record, findings.append)
    (rule,) = [rule for rule in schedule.rules if rule.code == "T603"]
    schedule.run_rule(rule, 33)
    assert [finding.where.step for finding in findings] == [31]


def summed_loss_debugger() -> Debugger:
    torch.manual_seed(0)
    x, y = points()
    model = network(3)
    return Debugger.of(minimal_setup(model, x * 30, y, nn.CrossEntropyLoss(reduction="sum")))


@pytest.mark.parametrize(
    "build", [lambda: Debugger.of(classifier()), summed_loss_debugger], ids=["classifier", "summed loss"]
)
def test_non_finite_loss_of_large_finite_losses_is_quiet(build: Callable[[], Debugger]) -> None:
    debugger = build()
    with debugger.watch():
        train(debugger.setup, 20)
    assert [finding for finding in debugger.findings if finding.code == "T603"] == []
