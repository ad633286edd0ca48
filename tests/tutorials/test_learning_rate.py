"""The fourth tutorial: a rate is found, wrong ones are seen, and a trained model is told no rate at all."""

from __future__ import annotations

from typing import Any

import pytest

from nbdebug import demo
from tests.tutorials.tutorial_outputs import committed_pages

PATH = demo.tutorial_path().with_name("04_which_learning_rate.ipynb")


@pytest.fixture(scope="module")
def notebook() -> Any:
    """The tutorial after a run of every cell."""
    return demo.execute_notebook(PATH)


def table(notebook: Any) -> list[list[str]]:
    """The rows of what three rates train to."""
    outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    text = next(data["text/plain"] for data in outputs if "recommended: " in data.get("text/plain", ""))
    return [line.split() for line in text.splitlines()[1:]]


def test_each_range_test_says_what_its_text_tells(notebook: Any) -> None:
    first, proved, trained, adam, sgd = [
        text for text in demo.debugger_texts(notebook) if text.startswith("nbdebug lr_range")
    ]
    for clear in (first, proved, adam, sgd):
        assert clear.startswith("nbdebug lr_range: clear")
    assert "0.0005 is too low" in first
    assert "is confirmed: at" in proved
    assert trained.startswith("nbdebug lr_range: flat")
    (race,) = [text for text in demo.debugger_texts(notebook) if text.startswith("nbdebug compare_optimizers")]
    assert "1. " in race


def test_the_recommended_rate_beats_the_wrong_ones(notebook: Any) -> None:
    script, recommended, high = (float(row[-1]) for row in table(notebook))
    assert recommended > 0.8 > 0.3 > max(script, high)


def test_its_committed_outputs_are_static_pages_without_an_error() -> None:
    assert committed_pages(PATH) >= 5
