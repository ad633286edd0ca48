"""What a report says of findings that are likely consequences of another one."""

from __future__ import annotations

import pytest

from nbdebug.finding import Edit, Finding, LineChange, Severity
from nbdebug.report import Report
from nbdebug.rule_engine.consequences import consequences_of
from nbdebug.rule_engine.rule_registry import load_rules

_CASES = [  # cause, consequence (with its aspect), severity of the consequence beside its cause
    (("L205", "error"), ("O501", "error"), "warning"),
    (("M316", "error"), ("O501", "error"), "warning"),
    (("M316", "error"), ("G415", "warning"), "warning"),
    (("G416", "error"), ("O501", "error"), "warning"),
    (("O508", "warning"), ("G409", "warning"), "warning"),
    (("D109", "warning"), ("E706", "error"), "error"),
    (("D117", "warning"), ("D109:learners", "warning"), "warning"),
    (("D105", "error"), ("E702", "warning"), "warning"),
    (("D106", "warning"), ("E702", "warning"), "warning"),
    (("T613", "error"), ("T609", "warning"), "warning"),
    (("L213", "error"), ("T607", "error"), "warning"),
    (("G404", "error"), ("T601", "warning"), "warning"),
    (("D126", "error"), ("T610", "warning"), "warning"),
]


def _finding(code: str, severity: Severity) -> Finding:
    code, _, aspect = code.partition(":")
    return Finding(
        f"Message of {code}.",
        cause="Cause.",
        fix="lr = 1",
        setup_fix="lr = 1",
        trial="the rule no longer reports it",
        edits=(Edit("a.py", 1, 0, 1, 1, "x"),),
        changes=(LineChange("a.py, line 1", ("y",), ("x",)),),
        aspect=aspect,
        code=code,
        name="name",
        severity=severity,
        explains=consequences_of(code, severity),
    )


@pytest.mark.parametrize(("cause", "consequence", "severity"), _CASES, ids=str)
def test_consequence_ranks_after_its_cause_and_names_it_in_place_of_a_cause_and_a_fix(
    cause: tuple[str, Severity], consequence: tuple[str, Severity], severity: Severity
) -> None:
    first, second = Report((_finding(*consequence), _finding(*cause))).with_stated_consequences()
    assert (first.code, first.severity, first.fix) == (*cause, "lr = 1")
    assert second.severity == severity
    assert second.cause == f"Probably a consequence of {cause[0]}. Fix it first and run again."
    assert not any((second.fix, second.setup_fix, second.trial, second.edits, second.changes))
    assert second.message == f"Message of {second.code}."


@pytest.mark.parametrize(
    ("other", "finding"),
    [
        (("L205", "note"), ("O501", "error")),
        (("L208", "warning"), ("T607", "error")),
        (("D108", "error"), ("T610", "warning")),
        (("D117", "warning"), ("D109", "warning")),
        (("E706", "error"), ("T607", "error")),
    ],
)
def test_finding_beside_a_note_or_one_that_does_not_explain_it_keeps_its_own_text(
    other: tuple[str, Severity], finding: tuple[str, Severity]
) -> None:
    own = _finding(*finding)
    assert own in [*Report((own, _finding(*other))).with_stated_consequences()]


def test_consequence_of_a_consequence_names_the_first_cause() -> None:
    report = Report(tuple(_finding(*pair) for pair in (("O501", "error"), ("T601", "warning"), ("L205", "error"))))
    stated = report.with_stated_consequences()
    assert [finding.code for finding in stated] == ["L205", "O501", "T601"]
    assert all(finding.cause.startswith("Probably a consequence of L205.") for finding in stated.findings[1:])
    assert stated.with_stated_consequences().findings == stated.findings
    assert report.with_stated_consequences() is stated  # so that a notebook displays it once


def test_codes_of_the_table_are_rules() -> None:
    rules = load_rules()
    for code, rule in rules.items():
        assert {entry.partition(":")[0] for entry in consequences_of(code, rule.severity)} <= set(rules)
