"""Tests of the calibration panel of the error browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.panels import calibration
from nbdebug.tools.errors.panels.calibration import PANEL, state
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import to_script_json

from .conftest import OpenPage
from .panel_pages import clicked_rows, error_panel_page, make_errors, serve_errors


def test_reliability_diagram_bin_queries_its_rows(open_page: OpenPage) -> None:
    errors = make_errors()
    bins = errors.calibration()
    page = open_page(error_panel_page(errors, "calibration"))
    spots = page.get_by_label("Reliability diagram").get_by_role("button")
    assert spots.count() == len(bins.counts)
    spots.nth(3).press("Enter")
    confidence = errors.table.columns["confidence"]
    expected_rows = np.flatnonzero((confidence >= bins.lowest[3]) & (confidence <= bins.highest[3]))
    assert sorted(clicked_rows(page, errors)[0]) == expected_rows.tolist()
    assert len(expected_rows) == bins.counts[3]


def test_confidence_histogram_bar_queries_its_rows(open_page: OpenPage) -> None:
    errors = make_errors()
    table = errors.table
    assert isinstance(table, ClassificationTable)
    page = open_page(error_panel_page(errors, "calibration"))
    page.get_by_role("button", name="confidence 0.5 to 0.55, wrong").click()
    confidence = table.columns["confidence"]
    expected_rows = np.flatnonzero((confidence >= 0.5) & (confidence < 0.55) & ~table.right)
    rows, label = clicked_rows(page, errors)
    assert sorted(rows) == expected_rows.tolist()
    assert label == "confidence 0.5 to 0.55, wrong"
    counts = state(errors)["histogram"]
    assert sum(counts["right"]) == table.right.sum()
    assert sum(counts["wrong"]) == (~table.right).sum()


def test_calibration_panel_of_overconfident_model_shows_temperature(open_page: OpenPage) -> None:
    errors = make_errors(3000, sharpness=6)
    page = open_page(error_panel_page(errors, "calibration"))
    assert page.get_by_text("Overconfident").is_visible()
    scaling = errors.temperature()
    assert page.get_by_text(f"Divide the logits by {scaling.temperature:.3g}").is_visible()
    assert f"/ {scaling.temperature:.3g}).softmax(-1)" in page.locator("pre").inner_text()


def test_calibration_panel_of_calibrated_model_offers_no_temperature(open_page: OpenPage) -> None:
    random = np.random.default_rng(1)
    probabilities = random.dirichlet(np.ones(4), 2000)
    target = (random.random((2000, 1)) > probabilities.cumsum(1)).sum(1).clip(max=3)
    page = open_page(
        error_panel_page(Errors(ClassificationTable.from_arrays(probabilities, target), "headline"), "calibration")
    )
    assert page.get_by_text("No miscalibration beyond chance").is_visible()
    assert page.get_by_text("No temperature scaling is needed").is_visible()
    assert page.locator("pre").count() == 0


def test_calibration_panel_of_one_class_uses_its_probability(open_page: OpenPage) -> None:
    errors = make_errors()
    page = open_page(error_panel_page(errors, "calibration"))
    serve_errors(page, errors)
    page.get_by_label("Calibration of").select_option("the probability of cat")
    page.get_by_text("↑ share of the class").wait_for()
    bins = errors.calibration("cat")
    page.get_by_label("Reliability diagram").get_by_role("button").nth(0).click()
    rows, _ = clicked_rows(page, errors)
    probability = errors.table.columns["chance of cat"]
    assert sorted(rows) == np.flatnonzero(probability <= bins.highest[0]).tolist()
    page.get_by_label("Calibration of").select_option("the confidence of the prediction")
    page.get_by_text("↑ accuracy").wait_for()


def test_calibration_panel_of_class_without_kernel_shows_python_line(open_page: OpenPage) -> None:
    page = open_page(error_panel_page(make_errors(), "calibration"))
    page.get_by_label("Calibration of").select_option("the probability of cat")
    assert page.get_by_text("errors.calibration(2)").is_visible()


def test_calibration_panel_of_large_table_is_computed_on_request(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calibration, "MAX_ROWS_WITHOUT_REQUEST", 100)
    monkeypatch.setattr(calibration, "MAX_SCORES_WITHOUT_REQUEST", 100)
    errors = make_errors(3000, sharpness=6)
    view = error_panel_page(errors, "calibration")
    assert view.panel_state["later"]
    assert len(to_script_json(view.state())) < 1000
    page = open_page(view)
    assert page.get_by_text("errors.calibration()").is_visible()
    serve_errors(page, errors)
    page.get_by_role("button", name="Compute calibration").click()
    page.get_by_label("Reliability diagram").wait_for()
    assert page.get_by_text("errors.calibration()").count() == 0
    computed_state: Any = state(errors, now=True)
    assert computed_state["scaling"] == {"later": True}
    computed_page = open_page(error_panel_page(errors, "calibration", now=True))
    serve_errors(computed_page, errors)
    computed_page.get_by_role("button", name="Check whether temperature scaling helps").click()
    computed_page.get_by_text("Divide the logits by").wait_for()


@pytest.mark.parametrize(
    ("predictions", "code"),
    [
        (np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]] * 30), "(model(x).log() / "),
        (np.array([5.5, -4.0, 3.0] * 30), ".sigmoid()"),
        (np.array([[0.5, 5.0], [3.0, 0.5], [0.1, 4]] * 30), ".softmax(-1)"),
    ],
    ids=["probabilities", "binary_logits", "logits"],
)
def test_temperature_code_matches_the_output_of_the_model(predictions: np.ndarray, code: str) -> None:
    errors = Errors(ClassificationTable.from_arrays(predictions, [0, 1, 0] * 30), "headline")
    assert code in state(errors)["scaling"]["code"]


def test_calibration_panel_fits_only_tables_with_confidences_and_targets() -> None:
    assert PANEL.fits(make_errors())
    assert not PANEL.fits(Errors(ClassificationTable.from_arrays([0, 1], [0, 1]), "labels"))
    assert not PANEL.fits(Errors(ClassificationTable.from_arrays(np.full((3, 2), np.nan), [0, 1, 0]), "no numbers"))
    assert not PANEL.fits(Errors(ClassificationTable.from_arrays(np.eye(3), [-1, -1, -1]), "no targets"))


def test_calibration_panel_counts_rows_without_target_or_score(open_page: OpenPage) -> None:
    random = np.random.default_rng(0)
    scores, target = random.normal(size=(60, 3)), random.integers(0, 3, 60)
    scores[0, 0], target[1:3] = np.nan, -1
    page = open_page(
        error_panel_page(Errors(ClassificationTable.from_arrays(scores, target), "headline"), "calibration")
    )
    assert page.get_by_text("3 samples without a target or a score").is_visible()


def test_calibration_panel_of_single_sample_or_class_is_drawn(open_page: OpenPage) -> None:
    for target in ([0], [0, -1], [0] * 30):
        scores = np.random.default_rng(0).normal(size=(len(target), 2))
        errors = Errors(ClassificationTable.from_arrays(scores, target), "headline")
        assert open_page(error_panel_page(errors, "calibration")).get_by_label("Reliability diagram").is_visible()


def test_calibration_panel_fits_narrow_page(open_page: OpenPage) -> None:
    page = open_page(error_panel_page(make_errors(sharpness=4), "calibration"), width=320, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
