"""T603 tells since when the loss is not finite, and what began it."""

from __future__ import annotations

import math
from collections.abc import Sequence

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

INF = math.inf


def said(losses: Sequence[float], incident: Replay | None = None, skipped: Sequence[int] = ()) -> list[Finding]:
    record = Record()
    for step, loss in enumerate(losses, 1):
        record.run.append(step, {"loss": loss, "skipped": float(step in skipped)})
    return rule_registry.find_rule("T603")({"record": record, "incident": incident})


def test_the_step_and_the_number_of_steps_are_told() -> None:
    (found,) = said([2.3, 2.2, 2.1, INF, INF, -INF])
    assert found.where.step == 4
    assert "since step 4" in found.message
    assert found.evidence["steps"] == 3
    assert found.severity == "error"


def test_a_loss_that_was_finite_again_is_a_warning() -> None:
    (found,) = said([2.3, INF, 2.1, 2.0])
    assert found.severity == "warning"
    assert "finite again" in found.message


def test_a_step_that_a_scaler_left_out_is_none() -> None:
    assert said([INF, INF, 2.3, 2.2], skipped=[1, 2]) == []
    assert said([INF, INF, 2.3, INF], skipped=[1, 2])[0].where.step == 4


@pytest.mark.parametrize("losses", [[1.0, 10.0, 1e3, 1e9, INF], [0.1, 0.01, 0.01, 0.01, 0.01, 1e5, INF]])
def test_a_divergence_is_the_cause_and_not_the_operation_that_overflowed_at_last(losses: list[float]) -> None:
    (found,) = said(losses)
    assert "had diverged" in found.cause
    assert "lr" in found.fix


@pytest.mark.parametrize(
    "losses", [[1e-3] * 9 + [0.5, INF], [2.3, 1e-6, 1e-6, 1e-6, 0.5, INF], [INF], [-5.0, -9.0, INF]]
)
def test_a_jump_is_no_divergence(losses: list[float]) -> None:
    assert "diverged" not in said(losses)[0].cause


def test_a_record_without_losses_says_so() -> None:
    with pytest.raises(NotChecked, match="no loss"):
        said([])
    assert said([2.3, 2.2, math.nan, 2.1]) == []


@pytest.mark.parametrize("name", ["exp of a large value", "ratio of two inputs"])
def test_the_line_is_that_of_the_operation_which_ranks_before(name: str) -> None:
    debugger = Debugger.of(FAULTS[name].build())
    with debugger.watch():
        train(debugger.setup)
    codes = [one.code for one in debugger.findings.faults if one.code in ("G405", "T603")]
    assert codes == ["G405", "T603"]
    found = next(one for one in debugger.findings if one.code == "T603")
    assert FAULTS[name].source in found.where.source
    assert found.where.step == 7


def test_a_rate_that_is_too_high_is_told_by_the_weights() -> None:
    debugger = Debugger.of(diverging_setup())
    with debugger.watch():
        train(debugger.setup)
    found = next(one for one in debugger.findings if one.code == "T603")
    assert "had diverged" in found.cause
    assert found.evidence["largest weight"][1] > 1e6


def test_it_is_told_while_the_loop_still_runs() -> None:
    record, told = Record(), list[Finding]()
    for step, loss in enumerate([2.3] * 30 + [INF] * 3, 1):
        record.run.append(step, {"loss": loss})
    judge = RuleSchedule(record, told.append)
    (rule,) = [one for one in judge.rules if one.code == "T603"]
    judge.run_rule(rule, 33)
    assert [one.where.step for one in told] == [31]


def noisy() -> Debugger:
    torch.manual_seed(0)
    x, y = points()
    model = network(3)
    return Debugger.of(minimal_setup(model, x * 30, y, nn.CrossEntropyLoss(reduction="sum")))


@pytest.mark.parametrize("build", [lambda: Debugger.of(classifier()), noisy])
def test_rough_losses_that_stay_finite_are_left_alone(build) -> None:  # type: ignore[no-untyped-def]
    debugger = build()
    with debugger.watch():
        train(debugger.setup, 20)
    assert [one for one in debugger.findings if one.code == "T603"] == []
