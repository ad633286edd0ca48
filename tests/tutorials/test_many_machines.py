"""Tests of the eleventh tutorial: two trainers, a job of two ranks that share a fault, and a rank that dies."""

from __future__ import annotations

import re

import pytest

from tests.tutorials.tutorial_outputs import executed_texts, tutorial_path


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return executed_texts(tutorial_path("11_lightning_hugging_face_and_many_machines.ipynb"))


def test_faults_of_both_trainers_are_named_and_the_repaired_ones_are_quiet(texts: list[str]) -> None:
    checkups = [text for text in texts if text.startswith("nbdebug checkup")]
    assert "L201" in checkups[0]
    assert "M302" in checkups[1]
    assert any("steps: 352, findings: []" in text for text in texts)


def test_fault_of_two_ranks_is_named_and_its_fix_is_quiet(texts: list[str]) -> None:
    assert any("O516" in text for text in texts)
    assert any("steps, errors and warnings: []" in text for text in texts)


def test_dead_rank_is_named_within_seconds(texts: list[str]) -> None:
    assert any("P809" in text for text in texts)
    (seconds,) = [int(match[1]) for text in texts if (match := re.search(r"named (\d+) s after", text))]
    assert seconds < 60
