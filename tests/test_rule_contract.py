"""What is true of every rule: its page, its name, its program that must fire and its program that must not."""

from __future__ import annotations

import re
from inspect import signature
from pathlib import Path

import pytest
import torch

import nbdebug.rules
from nbdebug.debugger import Debugger
from nbdebug.exceptions import SetupError
from nbdebug.measurements import measurement_descriptions
from nbdebug.report import FAMILY_ORDER, Report
from nbdebug.rule_engine import rule_registry
from nbdebug.rule_engine.rule_registry import Rule
from nbdebug.setup import Setup

RULES = rule_registry.load_rules()
HEADINGS = ["What it does", "Why it matters", "How it is measured", "How to fix", "When to ignore", "References"]
every_rule = pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))


def said_of(setup: Setup, rule: Rule, way: str) -> Report:
    """Everything said of a program: by the checkup, and by overfit test or watch for the rules that read them."""
    debugger = Debugger.of(setup)
    debugger.checkup()
    if loop := getattr(rule.module, f"{way}_loop", None):
        with debugger.watch() as run:
            loop(setup, *([run] if "watch" in signature(loop).parameters else []))
    if "overfit" in rule.needs:
        debugger.overfit()
    if "errors" in rule.needs:
        debugger.errors()
    return debugger.findings


@every_rule
def test_the_bad_program_draws_the_rule(rule: Rule) -> None:
    if getattr(rule.module, "DEVICE", "cpu") == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs an accelerator")
    found = [one for one in said_of(rule.module.bad(), rule, "bad") if one.code == rule.code]
    assert found
    for one in found:
        assert one.name == rule.name
        assert one.severity in ("error", "warning", "note")
        assert one.message.endswith(".")
        assert one.cause
        assert one.evidence


@every_rule
def test_the_good_program_draws_no_error_and_no_warning(rule: Rule) -> None:
    assert [str(one) for one in said_of(rule.module.good(), rule, "good").faults] == []


@every_rule
def test_the_summary_of_both_programs_adds_up(rule: Rule) -> None:
    for setup in (rule.module.bad(), rule.module.good()):
        summary = Debugger.of(setup).summary()
        assert sum(one.own for one in summary.rows) == sum(p.numel() for p in setup.eager_model.parameters())
        assert {one.path for one in summary.rows} >= {path for path, _ in setup.eager_model.named_modules()}
        assert summary.batch or summary.stopped


@every_rule
def test_the_page_has_its_headings_in_order(rule: Rule) -> None:
    assert re.findall(r"^## (.+)$", rule.page, re.MULTILINE) == HEADINGS
    assert re.match(r"[A-Z].*\.\n\n## ", rule.page), "the page opens with one sentence"


@every_rule
def test_file_name_and_code_belong_together(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]\d{3}", rule.code)
    assert rule.code[0] in FAMILY_ORDER
    assert rule.module.__name__.rpartition(".")[2] == rule.name.replace("-", "_")
    assert rule.module.__doc__.startswith(f"{rule.code}: ")


@every_rule
def test_what_a_rule_needs_is_evidence(rule: Rule) -> None:
    assert set(rule.needs) <= set(measurement_descriptions())


def test_every_file_holds_one_rule_of_its_own() -> None:
    files = Path(nbdebug.rules.__path__[0]).glob("*/[a-z]*.py")
    assert len(list(files)) == len(RULES)


def test_every_evidence_has_a_line_that_says_what_it_is() -> None:
    assert all(line for line in measurement_descriptions().values())


def test_unknown_codes_are_refused_with_the_closest() -> None:
    with pytest.raises(SetupError, match="softmax-before-cross-entropy"):
        rule_registry.find_rule("softmax-before-crossentropy")
    with pytest.raises(SetupError, match="expected one of"):
        rule_registry.select_rules(["Q9"])


def test_rules_are_found_by_code_and_by_name() -> None:
    assert rule_registry.find_rule("l201") is rule_registry.find_rule("softmax-before-cross-entropy")
