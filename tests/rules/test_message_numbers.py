"""Tests of the comparison of the numbers in messages with the evidence."""

from __future__ import annotations

import pytest

from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import load_rules
from tests.rules.message_numbers import unsupported_numbers

RULE = load_rules()["L202"]  # it has no options
EVIDENCE = {"rows": 1234, "share": 0.2468, "steps": [3, 17, 40, 55], "loss": 0.69314}


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("All 1,234 rows, at 4 steps.", []),
        ("The loss is 0.693.", []),
        ("The loss is 0.694.", ["0.694"]),
        ("A share of 25% or 24.7%, ±25 points.", []),
        ("A share of 26%.", ["26%"]),
        ("A share of 25.", ["25"]),  # neither the share nor its hundredfold
        ("At step 17, not 18.", ["18"]),
        ("Module 7 and 7.weight in `x[8]`, of float32 [16, 9], and 6 more.", ["7"]),
        ("The module 7 returns 0, 1 or 2.", []),
    ],
)
def test_numbers_without_evidence_are_listed(message: str, expected: list[str]) -> None:
    assert unsupported_numbers(Finding(message, evidence=EVIDENCE), RULE) == expected
