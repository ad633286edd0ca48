"""The sixth tutorial: a mark in the corner is found behind a model that is right, and what was mended is shown."""

from __future__ import annotations

import re

import pytest

from nbdebug import demo
from tests.tutorials.tutorial_outputs import committed_pages, spoken, told

PATH = demo.tutorial_path().with_name("06_why_did_it_say_that.ipynb")
NEEDS = ("bokeh_sampledata", "efficientnet_lite_pytorch", "faker", "mlxtend", "skimage")


@pytest.fixture(scope="module")
def said() -> list[str]:
    """What the tutorial says in text, after a run of every cell."""
    for name in NEEDS:
        pytest.importorskip(name)
    return spoken(PATH)


def test_the_mark_is_behind_the_sevens_and_that_may_be_believed(said: list[str]) -> None:
    (share,) = [float(found[1]) for text in said if (found := re.match(r"The corner holds (\d+)%", text))]
    assert share >= 10
    (trust,) = told(said, "trust")
    assert not trust.startswith("nbdebug trust: red")
    digits, passengers = told(said, "importance")
    corner = next(line for line in digits.splitlines() if "rows 0–4, columns 23–27" in line)
    assert corner.endswith("*")
    assert "sex_female, sex_male are correlated" in passengers


def test_the_model_that_never_saw_the_mark_finds_the_sevens(said: list[str]) -> None:
    (shares,) = [re.findall(r"sevens found (\d+)%", text) for text in said if "sevens found" in text]
    fooled, mended = map(int, shares)
    assert mended >= fooled + 5
    (gain,) = [float(found[1]) for text in said if (found := re.search(r"broken of 1,?500: \+([\d.]+) points", text))]
    assert gain > 0.5


def test_rows_letters_and_photographs_have_their_reasons(said: list[str]) -> None:
    (change,) = told(said, "counterfactual")
    assert "predicted survived if" in change
    reasons = told(said, "explain")
    assert any("Egyptian cat" in text and "espresso" in text for text in reasons)
    assert any("predicted Italian" in text and "'" in text for text in reasons)


def test_its_committed_outputs_are_static_pages_without_an_error() -> None:
    assert committed_pages(PATH, 400_000) >= 7
