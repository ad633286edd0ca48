from __future__ import annotations

import pickle
import time

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.report import Report
from nbdebug.rule_engine.rule_registry import load_rules
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup
from nbdebug.triage import SymptomCause, SymptomPattern, load_patterns
from nbdebug.triage.investigation import Investigation
from nbdebug.triage.stages import expand_codes
from nbdebug.triage.symptom import recognize_symptom
from tests.clock import real_time


class WithSoftmax(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = mlp(8, 32, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.softmax(self.layers(x), -1)


def softmax_setup() -> Setup:
    return training_setup(WithSoftmax(), rings(), rings(256, seed=1), nn.CrossEntropyLoss(), lr=1e-2)


def test_static_cause_is_found_by_the_quick_stage() -> None:
    result = Debugger.of(softmax_setup()).triage("loss-flat")
    assert result.cause is not None
    assert result.cause.findings[0].code == "L201"
    assert result.established
    assert result.next_test == ""
    assert [stage.name for stage in result.stages] == ["earlier", "quick"]
    assert "loss-flat" in str(result)


def test_cause_in_the_loop_needs_a_watch_and_is_then_found() -> None:
    setup = healthy_classifier()
    debugger = Debugger.of(setup)
    first = debugger.triage("the loss oscillates wildly")
    assert not first.established
    assert "dbg.watch()" in first.next_test
    assert any("O505" in state.codes for state in first.left)
    assert not any("O505" in state.codes for state in first.ruled_out)
    with debugger.watch():
        for x, y in [*setup.train_loader] * 3:
            setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
            setup.optimizers[0].step()
    assert any("L213" in state.codes for state in first.ruled_out)
    assert "ruled out:" in str(first)
    second = debugger.triage("the loss oscillates wildly")
    assert second.cause is not None
    assert "O505" in [finding.code for finding in second.cause.findings]
    assert second.next_test == ""


def test_healthy_setup_has_no_cause() -> None:
    setup = healthy_classifier()
    debugger = Debugger.of(setup)
    with debugger.watch():
        train(setup, 20)
    result = debugger.triage("both-poor")
    assert result.cause is None
    assert len(result.ruled_out) > 10
    assert any(stage.name == "overfit" for stage in result.stages)


def test_watched_run_tells_the_symptom() -> None:
    model = mlp(8, 16, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, maximize=True)
    data = rings(), rings(256, seed=1)
    setup = training_setup(model, *data, nn.CrossEntropyLoss(), optimizer=optimizer)
    debugger = Debugger.of(setup)
    with debugger.watch():
        train(setup, 5)
    result = debugger.triage()
    assert "falls-then-spikes" in result.patterns
    assert result.cause is not None
    assert result.cause.findings[0].code == "L213"


def test_own_pattern() -> None:
    pattern = SymptomPattern("odd", "Odd.", ("odd",), (SymptomCause("by hand", test="look at the plug"),))
    result = Debugger.of(healthy_classifier()).triage("it is odd today", patterns=[pattern])
    assert result.patterns[0] == "odd"
    assert [state.name for state in result.left] == ["by hand"]
    assert result.next_test == "look at the plug"
    with pytest.raises(SetupError, match="patterns is 'odd'"):
        Debugger.of(healthy_classifier()).triage("odd one", patterns=["odd"])  # type: ignore[list-item]


def test_result() -> None:
    debugger = Debugger.of(softmax_setup())
    result = debugger.triage("nan")
    assert debugger.results["triage"] is result
    assert str(pickle.loads(pickle.dumps(result))) == str(result)
    assert set(result.to_frame().status) <= {"found", "open", "ruled out"}
    page = result.to_html()
    assert "http://" not in page
    assert "https://" not in page
    assert "L201" in [finding.code for finding in debugger.findings]


def test_a_checkup_is_not_repeated() -> None:
    debugger = Debugger.of(healthy_classifier())
    debugger.checkup()
    before = debugger.reports["checkup"]
    result = debugger.triage("overfits")
    assert debugger.reports["checkup"] is before
    asked = [code for stage in result.stages[1:] for code in stage.asked]
    assert not before.checked_rules & set(asked)


class SlowPoints(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Points that take long to read."""

    def __init__(self) -> None:
        self.x, self.y = rings()

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(0.003)
        return self.x[index], self.y[index]


def test_findings_of_speed_are_no_causes_of_poor_learning() -> None:
    setup = healthy_classifier()
    setup.train_loader = DataLoader(SlowPoints(), batch_size=32, shuffle=True)
    debugger = Debugger.of(setup)
    with real_time():
        debugger.profile(steps=4)
    assert "P801" in [finding.code for finding in debugger.findings]
    result = debugger.triage("loss-flat")
    assert "P801" not in [finding.code for state in result.states for finding in state.findings]


def test_warnings_beyond_the_symptom_are_listed_only_while_no_error_explains_it() -> None:
    symptom = recognize_symptom("loss-flat", load_patterns())
    of_symptom = expand_codes(code for cause in symptom.causes for code in cause.codes)
    other = next(code for code in load_rules() if code not in of_symptom)
    warning = Finding("other", code=other, severity="warning")
    error = Finding("softmax", code="L201", severity="error")

    def codes(*findings: Finding) -> list[str]:
        report = Report(findings, checked_rules=frozenset(finding.code for finding in findings))
        return [finding.code for finding in Investigation(symptom, (), [report]).result().findings]

    assert codes(warning) == [other]
    assert codes(warning, error) == ["L201"]
