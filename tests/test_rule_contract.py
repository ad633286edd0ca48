"""Tests that every rule has a complete page, a consistent name, and fires on bad() but not on good()."""

from __future__ import annotations

import re
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

import nbdebug.rules
from docs.rule_examples import examine
from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.measurements import measurement_descriptions
from nbdebug.report import FAMILY_ORDER, Report
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.rule_registry import Rule
from nbdebug.setup import Setup
from tests.clock import real_time
from tests.rules.message_numbers import unsupported_numbers

RULES = rule_registry.load_rules()
HEADINGS = ["What it does", "Why it matters", "How it is measured", "How to fix", "When to ignore", "References"]
# What a profile measures depends on the load of the machine.
measuring_time = pytest.mark.flaky(reruns=3)
every_rule = pytest.mark.parametrize(
    "rule",
    [pytest.param(rule, marks=[measuring_time] if "profile" in rule.needs else []) for rule in RULES.values()],
    ids=list(RULES),
)


def findings_of(setup: Setup, rule: Rule, example: str) -> Report:
    """All findings of a setup: of the checkup, and of the loop, overfit test and errors if the rule reads them."""
    with real_time() if "profile" in rule.needs else nullcontext():
        return examine(setup, rule, example).findings


@every_rule
def test_rule_on_bad_setup_fires(rule: Rule) -> None:
    if getattr(rule.module, "DEVICE", "cpu") == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs an accelerator")
    findings = [finding for finding in findings_of(rule.module.bad(), rule, "bad") if finding.code == rule.code]
    assert findings
    for finding in findings:
        assert finding.name == rule.name
        assert finding.severity in ("error", "warning", "note")
        assert finding.message.endswith(".")
        assert finding.cause
        assert finding.evidence
        assert unsupported_numbers(finding, rule) == []


@every_rule
def test_good_setup_has_no_error_and_no_warning(rule: Rule) -> None:
    assert [str(finding) for finding in findings_of(rule.module.good(), rule, "good").faults] == []


@every_rule
def test_summary_of_bad_and_good_setup_counts_all_parameters(rule: Rule) -> None:
    for setup in (rule.module.bad(), rule.module.good()):
        summary = Debugger.of(setup).summary()
        assert sum(row.own for row in summary.rows) == sum(p.numel() for p in setup.eager_model.parameters())
        assert {row.path for row in summary.rows} >= {path for path, _ in setup.eager_model.named_modules()}
        assert summary.batch or summary.stopped


@every_rule
def test_rule_page_has_all_headings_in_order(rule: Rule) -> None:
    assert re.findall(r"^## (.+)$", rule.page, re.MULTILINE) == HEADINGS
    assert re.match(r"[A-Z].*\.\n\n## ", rule.page), "the page starts with one sentence"


@every_rule
def test_rule_name_and_code_match_its_module(rule: Rule) -> None:
    assert re.fullmatch(r"X1\d{3}|[A-Z]\d{3}", rule.code)
    assert rule.code[0] in FAMILY_ORDER
    assert rule.module.__name__.rpartition(".")[2] == rule.name.replace("-", "_")
    assert rule.module.__doc__.startswith(f"{rule.code}: ")


@every_rule
def test_rule_needs_only_registered_measurements(rule: Rule) -> None:
    assert set(rule.needs) <= set(measurement_descriptions())


def test_load_rules_returns_one_rule_per_file() -> None:
    files = Path(nbdebug.rules.__path__[0]).glob("*/[a-z]*.py")
    assert len(list(files)) == len(RULES)


def test_measurement_descriptions_are_not_empty() -> None:
    assert all(line for line in measurement_descriptions().values())


def test_rule_registry_with_unknown_code_raises_with_choices() -> None:
    with pytest.raises(SetupError, match="softmax-before-cross-entropy"):
        rule_registry.find_rule("softmax-before-crossentropy")
    with pytest.raises(SetupError, match="expected one of"):
        rule_registry.select_rules(["Q9"])


def test_find_rule_accepts_code_and_name() -> None:
    assert rule_registry.find_rule("l201") is rule_registry.find_rule("softmax-before-cross-entropy")
