"""The debugger as its user meets it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import nbdebug
from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier, points


@pytest.fixture
def debugger() -> Debugger:
    return Debugger.of(classifier(nn.Softmax(dim=1)))


def test_a_checkup_finds_and_the_debugger_remembers(debugger: Debugger) -> None:
    report = debugger.checkup()
    assert [one.code for one in report] == ["L201"]
    assert debugger.findings[0] == report[0]
    assert "L201" in str(debugger.findings)
    assert "1 error" in repr(debugger)


def test_the_function_form_says_the_same(debugger: Debugger) -> None:
    setup = debugger.setup
    report = nbdebug.checkup(setup.model, setup.train_loader, loss_fn=setup.loss_fn, optimizer=list(setup.optimizers))
    assert [one.code for one in report] == ["L201"]


def test_a_finding_is_plain_data(debugger: Debugger) -> None:
    finding = debugger.checkup()[0].to_dict()
    assert finding["where"]["module"] == "3"
    assert set(finding["where"]) >= {"module", "parameter", "sample", "step", "file", "line", "source"}
    assert {"code", "name", "severity", "message", "cause", "fix", "evidence"} <= set(finding)


def test_another_checkup_replaces_the_last(debugger: Debugger) -> None:
    debugger.checkup()
    debugger.setup.model[3] = nn.Identity()
    assert len(debugger.checkup()) == 0
    assert len(debugger.findings) == 0


def test_rules_can_be_chosen_ignored_and_set(debugger: Debugger) -> None:
    assert len(debugger.checkup(ignore=["L201"])) == 0
    assert len(debugger.checkup(select="O5")) == 0
    asked = debugger.checkup(select=["L"]).checked_rules
    assert {"L201", "L208"} <= asked
    assert all(code.startswith("L") for code in asked)
    assert [one.code for one in debugger.checkup(options={"L208": {"excess": -1.0}})] == ["L201"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"budget": "cheap"}, "budget is 'cheap'; expected one of quick, standard, thorough"),
        ({"select": ["Z9"]}, "rule is 'Z9'"),
        ({"options": {"L208": {"exces": 1}}}, "option of L208 is 'exces'; expected one of excess"),
        ({"options": {"X999": {}}}, "options name 'X999'"),
    ],
)
def test_unknown_names_are_refused(debugger: Debugger, given: dict[str, object], words: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=words):
        debugger.checkup(**given)


def test_a_thorough_checkup_runs_the_overfit_test_too(debugger: Debugger) -> None:
    codes = [one.code for one in debugger.checkup(budget="thorough")]
    assert codes[0] == "L201"
    assert "T608" in codes


def test_a_report_is_a_frame_a_picture_and_text(debugger: Debugger) -> None:
    report = debugger.checkup()
    assert report.to_frame()["code"].tolist() == ["L201"]
    assert report.plot().patches
    bundle = report._repr_mimebundle_()
    assert "L201" in bundle["text/plain"]
    assert "softmax-before-cross-entropy" in bundle["text/html"]
    assert "not checked" not in str(debugger.checkup(select="L201"))


def test_a_failure_that_no_rule_explains_is_raised_and_the_rest_is_kept() -> None:
    x, y = points()
    x[3, 0] = torch.nan
    wrong = nn.Linear(5, 3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)
    debugger = Debugger(wrong, loader, loss_fn=nn.CrossEntropyLoss())
    assert [one.code for one in debugger.checkup().faults] == ["D103"]
    x[3, 0] = 0.0
    with pytest.raises(nbdebug.SetupError, match="a layer that takes 4 features, not 5"):
        debugger.checkup()
    assert debugger.findings.not_checked


def test_an_interrupt_keeps_what_was_found(debugger: Debugger, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    debugger.setup.model.register_forward_hook(interrupted)
    with pytest.raises(KeyboardInterrupt):
        debugger.checkup()
    assert debugger.findings.stopped


def test_what_a_later_tool_could_ask_is_no_longer_unchecked(debugger: Debugger) -> None:
    debugger.checkup()
    assert {"M314", "T608"} <= {one.code for one in debugger.findings.not_checked}
    debugger.overfit(steps=20)
    assert not {"M314", "T608"} & {one.code for one in debugger.findings.not_checked}
    assert {"M314", "T608"} <= debugger.findings.checked_rules


def test_public_names() -> None:
    assert len(nbdebug.__all__) <= 20
    assert all(hasattr(nbdebug, name) for name in nbdebug.__all__)
    with pytest.raises(AttributeError, match="it has Debugger"):
        nbdebug.debuger  # noqa: B018
