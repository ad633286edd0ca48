"""Tests of the eighth tutorial: a leak between people, images scaled twice, and wrong labels found and fixed."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from tests.tutorials.tutorial_outputs import executed_texts, results_of, tutorial_path

pytestmark = pytest.mark.skipif(find_spec("seglearn") is None, reason="seglearn, which holds the data, is missing")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    return executed_texts(tutorial_path("08_is_it_the_data.ipynb"))


def percentage(texts: list[str], pattern: str) -> float:
    """The only number, in percent, after a text."""
    (number,) = {match[1] for text in texts for match in re.finditer(pattern + r" (\d+\.\d)%", text)}
    return float(number)


def test_random_split_is_too_good_and_its_leaks_are_named(texts: list[str]) -> None:
    leaking, apart, *_ = results_of(texts, "data")
    assert "10 of 10 validation groups are in training too" in leaking
    assert "overlapping windows of validation in training" in leaking
    assert "validation groups" not in apart
    random, by_person = (percentage(texts, f"{name}: validation accuracy") for name in ("split", "split by person"))
    assert random - by_person > 6


def test_scale_of_validation_is_recognized(texts: list[str]) -> None:
    assert "1/15.9 of those of training" in results_of(texts, "data")[2] or "1/16" in results_of(texts, "data")[2]
    assert "the second is 0.0625 × the first" in results_of(texts, "compare_pipelines")[0]
    assert percentage(texts, "scaled once: validation") > 90


def test_wrong_labels_are_found_and_worth_fixing(texts: list[str]) -> None:
    assert re.search(
        r"training labels look wrong; the share of wrong labels is (?:1[89]|2[0-3])\.\d%", results_of(texts, "data")[3]
    )
    (counts,) = [match for text in texts if (match := re.search(r"(\d+) suspects: (\d+) are wrong, of (\d+)", text))]
    suspects, hits, wrong = map(int, counts.groups())
    assert hits / suspects > 0.85
    assert hits / wrong > 0.9
    assert results_of(texts, "try_fix")[0].startswith("nbdebug try_fix: helps")
    assert percentage(texts, "corrected labels: validation") > percentage(texts, "wrong labels: validation")
