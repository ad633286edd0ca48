"""Comments in the user's source that say a finding is meant."""

from __future__ import annotations

import pytest
from torch import Tensor, nn

from nbdebug import Debugger
from nbdebug.finding import Finding, Location, is_ignored
from nbdebug.report import Report
from nbdebug.rules.examples import classifier


class Meant(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).softmax(1)  # nbdebug: ignore[L201] the confidence is bounded on purpose


class Other(Meant):
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).softmax(1)  # nbdebug: ignore[L202]


def report_of(kind: type[Meant]) -> Report:
    setup = classifier()
    setup.model = kind(setup.model)
    return Debugger.of(setup).checkup(select="L201")


def test_a_finding_that_is_meant_is_not_a_finding_and_is_not_hidden() -> None:
    report = report_of(Meant)
    assert len(report) == 0
    assert not report.checked_rules
    (skipped,) = report.not_checked
    assert skipped.code == "L201"
    assert "test_suppression.py, line" in skipped.why
    assert skipped.why.endswith("suppresses it")


def test_a_comment_for_another_rule_changes_nothing() -> None:
    assert [one.code for one in report_of(Other)] == ["L201"]


@pytest.mark.parametrize(
    ("source", "ignored"),
    [
        ("x = f(x)  # nbdebug: ignore[L201]", True),
        ("x = f(x)  # nbdebug: ignore[D101, L201] meant", True),
        ("x = f(x)  #nbdebug:ignore[L]", True),
        ("x = f(x)  # nbdebug: ignore[]", False),
        ("x = f(x)  # nbdebug: ignore[ , ]", False),
        ("x = f(x)  # nbdebug: ignore", False),
        ("x = f(x)  # nbdebug: ignore[L2010]", False),
        ("", False),
        (None, False),
    ],
)
def test_codes_and_their_beginnings(source: str | None, ignored: bool) -> None:
    assert is_ignored(Finding("Something.", Location(source=source), code="L201")) is ignored
