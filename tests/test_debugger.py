"""Tests of Debugger and its checkup."""

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


def test_checkup_adds_findings_to_debugger(debugger: Debugger) -> None:
    report = debugger.checkup()
    assert [finding.code for finding in report] == ["L201"]
    assert debugger.findings[0] == report[0]
    assert "L201" in str(debugger.findings)
    assert "1 error" in repr(debugger)


def test_checkup_function_returns_findings_of_method(debugger: Debugger) -> None:
    setup = debugger.setup
    report = nbdebug.checkup(setup.model, setup.train_loader, loss_fn=setup.loss_fn, optimizer=list(setup.optimizers))
    assert [finding.code for finding in report] == ["L201"]


def test_finding_to_dict_has_all_fields(debugger: Debugger) -> None:
    finding = debugger.checkup()[0].to_dict()
    assert finding["where"]["module"] == "3"
    assert set(finding["where"]) >= {"module", "parameter", "sample", "step", "file", "line", "source"}
    assert {"code", "name", "severity", "message", "cause", "fix", "evidence"} <= set(finding)


def test_second_checkup_replaces_findings_of_first(debugger: Debugger) -> None:
    debugger.checkup()
    debugger.setup.model[3] = nn.Identity()
    assert len(debugger.checkup()) == 0
    assert len(debugger.findings) == 0


def test_checkup_select_ignore_and_options_apply(debugger: Debugger) -> None:
    assert len(debugger.checkup(ignore=["L201"])) == 0
    assert len(debugger.checkup(select="O5")) == 0
    checked_rules = debugger.checkup(select=["L"]).checked_rules
    assert {"L201", "L208"} <= checked_rules
    assert all(code.startswith("L") for code in checked_rules)
    assert [finding.code for finding in debugger.checkup(options={"L208": {"excess": -1.0}})] == ["L201"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"budget": "cheap"}, "budget is 'cheap'; expected one of quick, standard, thorough"),
        ({"select": ["Z9"]}, "rule is 'Z9'"),
        ({"options": {"L208": {"exces": 1}}}, "option of L208 is 'exces'; expected one of excess"),
        ({"options": {"X999": {}}}, "options name 'X999'"),
    ],
)
def test_checkup_with_unknown_name_raises(debugger: Debugger, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(nbdebug.SetupError, match=message):
        debugger.checkup(**arguments)


def test_thorough_checkup_runs_overfit_test(debugger: Debugger) -> None:
    codes = [finding.code for finding in debugger.checkup(budget="thorough")]
    assert codes[0] == "L201"
    assert "T608" in codes


def test_report_converts_to_frame_plot_text_and_html(debugger: Debugger) -> None:
    report = debugger.checkup()
    assert report.to_frame()["code"].tolist() == ["L201"]
    assert report.plot().patches
    bundle = report._repr_mimebundle_()
    assert "L201" in bundle["text/plain"]
    assert "softmax-before-cross-entropy" in bundle["text/html"]
    assert "not checked" not in str(debugger.checkup(select="L201"))


def test_checkup_of_model_that_raises_reports_crash_with_other_findings() -> None:
    x, y = points()
    x[3, 0] = torch.nan
    model = nn.Linear(5, 3)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=16)
    debugger = Debugger(model, loader, loss_fn=nn.CrossEntropyLoss())
    assert {finding.code for finding in debugger.checkup().faults} == {"D103", "X1001"}
    x[3, 0] = 0.0
    assert [finding.code for finding in debugger.checkup().faults] == ["X1001"]
    assert debugger.findings.not_checked


def test_interrupted_checkup_marks_findings_as_stopped(debugger: Debugger) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    debugger.setup.model.register_forward_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        debugger.checkup()
    assert debugger.findings.stopped


def test_overfit_removes_its_rules_from_not_checked(debugger: Debugger) -> None:
    debugger.checkup()
    assert {"T608"} <= {entry.code for entry in debugger.findings.not_checked}
    debugger.overfit(steps=20)
    assert not {"T608"} & {entry.code for entry in debugger.findings.not_checked}
    assert {"T608"} <= debugger.findings.checked_rules


def test_package_has_at_most_30_public_names_and_all_exist() -> None:
    assert len(nbdebug.__all__) <= 30
    assert all(hasattr(nbdebug, name) for name in nbdebug.__all__)
    with pytest.raises(AttributeError, match="it has Debugger"):
        nbdebug.debuger  # noqa: B018
