"""Tests of the ninth tutorial: from a symptom to a fix that matched runs prove."""

from __future__ import annotations

import re

import pytest

from tests.tutorials.tutorial_outputs import executed_texts, results_of, tutorial_path


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return executed_texts(tutorial_path("09_prove_the_fix.ipynb"))


def test_triage_names_the_cause(texts: list[str]) -> None:
    assert "inputs are not scaled (D104)" in results_of(texts, "triage")[0]


def test_only_the_right_change_is_praised(texts: list[str]) -> None:
    rate, scale, nothing = results_of(texts, "try_fix")
    assert not rate.startswith("nbdebug try_fix: helps")
    assert scale.startswith("nbdebug try_fix: helps. With fix of D104")
    assert "vanished: warning D104" in scale
    assert nothing.startswith("nbdebug try_fix: no effect")


def test_training_is_better_after_the_fix(texts: list[str]) -> None:
    scores = {}
    for text in texts:
        if match := re.match(r"(before|after): training (\d+\.\d)%, validation (\d+\.\d)%", text):
            scores[match[1]] = float(match[2]), float(match[3])
    assert scores["after"][0] > scores["before"][0] + 5
    assert scores["after"][1] > scores["before"][1] + 1


def test_journal_and_report_tell_the_story(texts: list[str]) -> None:
    (journal,) = [text for text in texts if "H2 supported" in text]
    assert "H1 dropped" in journal
    assert any(text.startswith("report.html: ") for text in texts)
