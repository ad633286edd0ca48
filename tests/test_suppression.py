"""Tests of `# nbdebug: ignore[...]` comments."""

from __future__ import annotations

import pytest
from torch import Tensor, nn

from nbdebug import Debugger
from nbdebug.finding import Finding, Location, RelatedLine, is_ignored
from nbdebug.report import Report
from nbdebug.rules.examples import classifier


class SuppressedSoftmax(nn.Module):
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).softmax(1)  # nbdebug: ignore[L201] the confidence is bounded on purpose


class SoftmaxWithOtherCode(SuppressedSoftmax):
    def forward(self, x: Tensor) -> Tensor:
        return self.inner(x).softmax(1)  # nbdebug: ignore[L202]


def report_of(kind: type[SuppressedSoftmax]) -> Report:
    setup = classifier()
    setup.model = kind(setup.model)
    return Debugger.of(setup).checkup(select="L201")


def test_suppressed_rule_is_listed_as_not_checked_with_location() -> None:
    report = report_of(SuppressedSoftmax)
    assert len(report) == 0
    assert not report.checked_rules
    (entry,) = report.not_checked
    assert entry.code == "L201"
    assert "test_suppression.py, line" in entry.why
    assert entry.why.endswith("suppresses it")


def test_comment_for_other_rule_does_not_suppress() -> None:
    assert [finding.code for finding in report_of(SoftmaxWithOtherCode)] == ["L201"]


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
def test_is_ignored_matches_codes_and_prefixes(source: str | None, ignored: bool) -> None:
    assert is_ignored(Finding("Something.", Location(source=source), code="L201")) is ignored


def test_comment_on_a_related_line_does_not_suppress() -> None:
    commented = Location(file="data.py", line=3, source="y = x[1:]  # nbdebug: ignore[D126]")
    related = (RelatedLine(commented, "the data shift the targets here"),)
    finding = Finding("Something.", Location(file="train.py", line=9, source="f(y[1:])"), related=related, code="D126")
    assert finding.related == related
    assert not is_ignored(finding)
