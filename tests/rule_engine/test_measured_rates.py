"""Tests of measured rates: their file, and the sentence on the page of a rule."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import nbdebug.rules
from nbdebug import cli
from nbdebug.rule_engine import measured_rates, rule_registry
from nbdebug.rule_engine.measured_rates import MeasuredRate, describe_measured_rate, measured_codes, measured_rate

FILE = Path(nbdebug.rules.__path__[0]) / "measured_rates.json"
CONTENT = {
    "date": "2026-01-31",
    "commit": "abc1234",
    "healthy_runs": 800,
    "rules": {
        "L201": {
            "faults": 50,
            "found": 46,
            "found_by_rule": 44,
            "held_out_faults": 12,
            "held_out_found": 11,
            "healthy_runs_with_finding": 1,
        }
    },
}


@pytest.fixture
def measured_content(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_rates, "_read_file", lambda: CONTENT)


def test_measured_codes_are_codes_of_rules() -> None:
    assert set(measured_codes()) <= set(rule_registry.load_rules())


@pytest.mark.skipif(not FILE.exists(), reason="no rate has been measured")
def test_pages_show_the_numbers_of_the_file() -> None:
    content = json.loads(FILE.read_text(encoding="utf-8"))
    for code, rate in content["rules"].items():
        page = rule_registry.find_rule(code).full_page
        found = f"that were found: {rate['found']} of {rate['faults']}" if rate["faults"] else "No fault of this kind"
        assert found in page
        assert f"of this rule: {rate['healthy_runs_with_finding']} of {content['healthy_runs']}." in page
        assert f"Measured on {content['date']} at commit {content['commit']}." in page
        assert rate["held_out_found"] <= rate["held_out_faults"] <= rate["faults"]
        assert rate["found_by_rule"] <= rate["found"] <= rate["faults"]
        assert rate["healthy_runs_with_finding"] <= content["healthy_runs"]


def test_page_of_measured_rule_ends_with_rate(measured_content: None, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["rule", "L201"])
    assert capsys.readouterr().out.splitlines()[-1] == (
        "Planted faults of this kind that were found: 46 of 50 (44 by this rule, 2 by another that is as right); "
        "held-out half: 11 of 12. Healthy runs with an error or warning of this rule: 1 of 800. "
        "Measured on 2026-01-31 at commit abc1234."
    )


def test_page_of_rule_without_rate_says_not_measured(measured_content: None) -> None:
    assert measured_rate("L202") is None
    assert rule_registry.find_rule("L202").full_page.endswith("## Measured rate\n\nNot measured yet.")


@pytest.mark.parametrize(
    ("faults", "sentence"),
    [
        (0, "No fault of this kind was planted. Healthy runs with an error or warning of this rule: 2 of 9."),
        (1, "Planted faults of this kind that were found: 1 of 1. Healthy runs with an error or warning"),
    ],
)
def test_rate_without_held_out_faults_omits_them(faults: int, sentence: str) -> None:
    rate = MeasuredRate("2026-01-31", "abc1234", 9, faults, faults, faults, 0, 0, 2)
    assert str(rate).startswith(sentence)


def test_describe_measured_rate_without_file_says_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_rates, "_read_file", dict)
    assert describe_measured_rate("L201") == "Not measured yet."
