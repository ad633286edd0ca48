"""Tests of the flips panel of the error browser."""

from __future__ import annotations

import numpy as np

from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.panels.flips import state
from nbdebug.tools.errors.panels.registry import all_panels
from nbdebug.tools.errors.result import ErrorComparison, Errors
from nbdebug.views.page import to_script_json

from .conftest import OpenPage
from .panel_pages import ANIMALS, clicked_rows, error_panel_page, make_errors


def compare_synthetic_errors(
    rows: int = 500, classes: int = 5, accuracy_gain: float = 0.2
) -> tuple[ErrorComparison, np.ndarray, np.ndarray, np.ndarray]:
    """A comparison, with its old and new predictions and its targets."""
    random = np.random.default_rng(0)
    target = random.integers(0, classes, rows)
    old = np.where(random.random(rows) < 0.6, target, random.integers(0, classes, rows))
    new = np.where(random.random(rows) < 0.6 + accuracy_gain, target, random.integers(0, classes, rows))
    names = ANIMALS if classes == 5 else [f"kind {i}" for i in range(classes)]

    def make_errors_of(predictions: np.ndarray) -> Errors:
        return Errors(ClassificationTable.from_arrays(predictions, target, class_names=names), "headline")

    return make_errors_of(new).compare(make_errors_of(old)), old, new, target


def test_flips_panel_counts_query_their_rows(open_page: OpenPage) -> None:
    comparison, old, new, target = compare_synthetic_errors()
    page = open_page(error_panel_page(comparison, "flips"))
    assert page.get_by_text("Significantly better.").is_visible()
    page.get_by_title("Show the samples that are broken").click()
    rows, label = clicked_rows(page, comparison)
    assert sorted(rows) == np.flatnonzero((old == target) & (new != target)).tolist()
    assert label == "broken"
    row = page.locator("[aria-label='Flips by class'] tbody tr", has_text="bee")
    row.locator("td[data-label=broken] button").click()
    expected = (old == target) & (new != target) & (target == 1)
    assert sorted(clicked_rows(page, comparison)[0]) == np.flatnonzero(expected).tolist()
    row.locator("td[data-label=fixed] button").click()
    expected = (old != target) & (new == target) & (target == 1)
    assert sorted(clicked_rows(page, comparison)[0]) == np.flatnonzero(expected).tolist()


def test_flips_matrix_cell_queries_its_rows(open_page: OpenPage) -> None:
    comparison, old, new, target = compare_synthetic_errors()
    page = open_page(error_panel_page(comparison, "flips"))
    count = ((old == 0) & (new == 2)).sum()
    page.get_by_role("button", name=f"ant before, cat now: {count}").click()
    assert sorted(clicked_rows(page, comparison)[0]) == np.flatnonzero((old == 0) & (new == 2)).tolist()
    page.get_by_role("button", name="wrong now").click()
    wrong = (old == 0) & (new == 2) & (target != 2)
    page.get_by_role("button", name=f"ant before, cat now: {wrong.sum()}").click()
    rows, label = clicked_rows(page, comparison)
    assert sorted(rows) == np.flatnonzero(wrong).tolist()
    assert label == "ant before, cat now, wrong"


def test_most_frequent_changes_query_their_rows(open_page: OpenPage) -> None:
    comparison, old, new, _ = compare_synthetic_errors()
    page = open_page(error_panel_page(comparison, "flips"))
    page.get_by_text("most frequent changes").click()
    first = state(comparison)["pairs"][0]
    page.get_by_role("button", name=" → ".join(first["names"])).click()
    a, b = (ANIMALS.index(name) for name in first["names"])
    assert sorted(clicked_rows(page, comparison)[0]) == np.flatnonzero((old == a) & (new == b)).tolist()


def test_flips_panel_of_equal_models_says_not_significant(open_page: OpenPage) -> None:
    comparison, *_ = compare_synthetic_errors(accuracy_gain=0.0)
    page = open_page(error_panel_page(comparison, "flips"))
    assert page.get_by_text("is not significant").is_visible()


def test_flips_panel_of_same_predictions_has_no_matrix(open_page: OpenPage) -> None:
    errors = make_errors()
    comparison = errors.compare(errors)
    page = open_page(error_panel_page(comparison, "flips"))
    assert page.get_by_label("Matrix of flips").count() == 0
    assert "0 fixed, 0 broken" in error_panel_page(comparison, "flips").html()


def test_flips_panel_of_thousand_classes_is_small_and_fits_narrow_page(open_page: OpenPage) -> None:
    comparison, *_ = compare_synthetic_errors(rows=20_000, classes=1000)
    view = error_panel_page(comparison, "flips")
    assert len(to_script_json(view.state())) < 30_000
    page = open_page(view, width=320, dark=True)
    assert page.get_by_text("The 50 of 1,000 classes").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_flips_state_omits_rows_without_target() -> None:
    random = np.random.default_rng(0)
    target, old, new = (random.integers(0, 3, 90) for _ in range(3))
    target[:30] = -1

    def make_errors_of(predictions: np.ndarray) -> Errors:
        return Errors(ClassificationTable.from_arrays(predictions, target), "headline")

    panel_state = state(make_errors_of(new).compare(make_errors_of(old)))
    assert sum(panel_state["counts"].values()) == 60
    assert sum(map(sum, panel_state["matrix"]["moves"])) == 60


def test_flips_panel_fits_only_comparisons() -> None:
    assert "flips" not in [panel.name for panel in all_panels() if panel.fits(make_errors())]
    assert "flips" in [panel.name for panel in all_panels() if panel.fits(compare_synthetic_errors()[0])]
