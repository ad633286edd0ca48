"""Fixes of all rules: each is code that works on the setup, a change of the user's lines, or a sentence."""

from __future__ import annotations

import pytest

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding, is_code
from nbdebug.measurements.registry import measurement_closure, measurement_descriptions
from nbdebug.rule_engine import fix_writer
from nbdebug.rule_engine.fix_trials import QUIET
from nbdebug.rule_engine.rule_registry import Rule, load_rules
from nbdebug.setup.fix_text import IMPORTS

RESULTS = {"loop", "record", "incident", "overfit", "errors", "lr_range", "importance", "treatments"}
measurement_descriptions()  # which imports the measurements that the rules need
NEEDS_NO_RUN = [
    rule
    for rule in load_rules().values()
    if not rule.code.startswith("X")  # which are tried on the exception
    and not RESULTS & measurement_closure(set(rule.needs) - rule.optional)
    and not hasattr(rule.module, "bad_loop")
    and getattr(rule.module, "DEVICE", "cpu") == "cpu"
]

TRIED = {
    "E701",
    "G402",
    "G406",
    "G407",
    "L204",
    "L206",
    "L211",
    "L213",
    "L219",
    "M301",
    "M302",
    "M303",
    "M304",
    "M305",
    "M309",
    "M317",
    "O503",
    "O504",
    "O509",
    "O510",
    "O513",
    "O514",
    "T613",
}  # in these examples


@pytest.fixture(autouse=True)
def _time_for_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fix_writer, "_LEAST_SECONDS", 600.0)


def findings_of(rule: Rule) -> list[Finding]:
    report = Debugger.of(rule.module.bad()).checkup(select=[rule.code])
    return [finding for finding in report if finding.code == rule.code]


@pytest.mark.parametrize("rule", NEEDS_NO_RUN, ids=lambda rule: rule.code)
def test_fix_of_rule_is_tried_code_or_a_change_of_lines_or_a_sentence(rule: Rule) -> None:
    findings = findings_of(rule)
    assert any(finding.trial == QUIET for finding in findings) == (rule.code in TRIED)
    for finding in findings:
        if finding.changes:
            assert all(change.removed or change.added for change in finding.changes)
            assert finding.trial in ("", QUIET)
        elif is_code(finding.fix):
            assert finding.trial == QUIET
        else:
            assert finding.fix == "" or finding.fix.rstrip("`").endswith((".", "?")), finding.fix
            assert "\n" not in finding.fix


def test_imports_of_fixes_run() -> None:
    for statement in IMPORTS.values():
        exec(statement, {})
