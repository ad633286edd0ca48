"""Tests of the fifth tutorial: wrong labels, weak slices and a comparison of two models."""

from __future__ import annotations

import re

import pytest

from tests.tutorials.tutorial_outputs import executed_texts, results_of, tutorial_path


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return executed_texts(tutorial_path("05_what_does_it_get_wrong.ipynb"))


def test_errors_tutorial_finds_wrong_labels_and_weak_slices(texts: list[str]) -> None:
    (share,) = [float(match[1]) for text in texts if (match := re.match(r"(\d+)% of \d+ suspects", text))]
    assert share >= 80
    pictures, passengers = (text for text in results_of(texts, "slices") if "strongest" in text)
    assert re.search(r"strongest: (contrast|brightness|sharpness) ≤ 0\.", pictures)
    assert "class = 3rd and sex = female" in passengers


def test_errors_tutorial_reports_gain_of_repaired_model_and_group_difference(texts: list[str]) -> None:
    (gain,) = [float(match[1]) for text in texts if (match := re.search(r"broken of 1,?500: \+([\d.]+) points", text))]
    assert gain > 1
    assert len(results_of(texts, "errors: ")) >= 5
    (fairness,) = results_of(texts, "fairness")
    assert "true-positive rate differs" in fairness
