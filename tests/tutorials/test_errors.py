"""The fifth tutorial: wrong labels and a failing lamp are found, and what was mended is shown."""

from __future__ import annotations

import re

import pytest

from nbdebug import demo
from tests.tutorials.tutorial_outputs import committed_pages, spoken, told

PATH = demo.tutorial_path().with_name("05_what_does_it_get_wrong.ipynb")


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the tutorial says in text, after a run of every cell."""
    return spoken(PATH)


def test_the_planted_faults_are_found(said: list[str]) -> None:
    (share,) = [float(found[1]) for text in said if (found := re.match(r"(\d+)% of \d+ suspects", text))]
    assert share >= 80
    pictures, passengers = (text for text in told(said, "slices") if "strongest" in text)
    assert re.search(r"strongest: (contrast|brightness|sharpness) ≤ 0\.", pictures)
    assert "class = 3rd and sex = female" in passengers


def test_what_was_mended_is_better_and_groups_differ(said: list[str]) -> None:
    (gain,) = [float(found[1]) for text in said if (found := re.search(r"broken of 1,?500: \+([\d.]+) points", text))]
    assert gain > 1
    assert len(told(said, "errors: ")) >= 5
    (groups,) = told(said, "fairness")
    assert "true-positive rate differs" in groups


def test_its_committed_outputs_are_static_pages_without_an_error() -> None:
    assert committed_pages(PATH, 400_000) >= 7
