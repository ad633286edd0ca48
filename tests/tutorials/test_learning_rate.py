"""Tests of the fourth tutorial: range tests, confirmation runs and the comparison of learning rates."""

from __future__ import annotations

from typing import Any

import pytest

from nbdebug import demo
from tests.tutorials.tutorial_outputs import results_of, tutorial_path


@pytest.fixture(scope="module")
def notebook() -> Any:
    return demo.execute_notebook(tutorial_path("04_which_learning_rate.ipynb"))


def comparison_rows(notebook: Any) -> list[list[str]]:
    """The rows of the table that compares training at three learning rates."""
    outputs = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
    table = next(data["text/plain"] for data in outputs if "recommended: " in data.get("text/plain", ""))
    return [line.split() for line in table.splitlines()[1:]]


def test_learning_rate_tutorial_range_tests_have_described_verdicts(notebook: Any) -> None:
    texts = demo.debugger_texts(notebook)
    first, confirmed, trained, adam, sgd = results_of(texts, "lr_range")
    for clear in (first, confirmed, adam, sgd):
        assert clear.startswith("nbdebug lr_range: clear")
    assert "0.0005 is too low" in first
    assert "is confirmed: " in confirmed or "Raised from " in confirmed
    assert trained.startswith("nbdebug lr_range: flat")
    (comparison,) = results_of(texts, "compare_optimizers")
    assert "training loss" in comparison.splitlines()[0]
    assert "not told apart" in comparison


def test_learning_rate_tutorial_recommended_rate_beats_wrong_rates(notebook: Any) -> None:
    script, recommended, high = (float(row[-1]) for row in comparison_rows(notebook))
    assert recommended > 0.8 > 0.3 > max(script, high)
