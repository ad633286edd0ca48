"""Tests of the classes panel of the error browser."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.one_vs_rest import get_class_probability
from nbdebug.tools.errors.panels.classes import state
from nbdebug.tools.errors.panels.registry import all_panels
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import static_html, to_script_json

from .conftest import OpenPage
from .hostile_text import HOSTILE_NAME
from .panel_pages import clicked_rows, error_panel_page, make_errors, serve_errors


def table_classes(page: Any) -> list[str]:
    """The classes of the table, in order."""
    return [str(text) for text in page.locator("[aria-label=Classes] tbody th").all_inner_texts()]


def test_classes_panel_opens_by_f1_and_sorts_by_any_column(open_page: OpenPage) -> None:
    errors = make_errors()
    frame = errors.per_class()
    page = open_page(error_panel_page(errors, "classes"))
    assert table_classes(page) == list(frame.sort_values("f1").index)
    page.get_by_role("button", name="recall", exact=True).click()
    assert table_classes(page) == list(frame.sort_values("recall", ascending=False).index)
    page.get_by_role("button", name="recall", exact=True).click()
    assert table_classes(page) == list(frame.sort_values("recall").index)
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("recall")
    page.get_by_role("button", name="class", exact=True).press("Enter")
    assert table_classes(page) == sorted(frame.index)


def test_classes_panel_counts_query_their_samples(open_page: OpenPage) -> None:
    errors = make_errors()
    table = errors.table
    assert isinstance(table, ClassificationTable)
    page = open_page(error_panel_page(errors, "classes"))
    row = page.locator("tr", has=page.get_by_role("button", name="bee", exact=True)).first
    row.locator("td[data-label=missed] button").click()
    rows, label = clicked_rows(page, errors)
    assert set(rows) == set(np.flatnonzero((table.target == 1) & (table.prediction != 1)))
    assert label == "bee, predicted as another"
    row.locator("td[data-label=false] button").click()
    assert set(clicked_rows(page, errors)[0]) == set(np.flatnonzero((table.target != 1) & (table.prediction == 1)))


def test_confused_pairs_and_extremes_query_their_samples(open_page: OpenPage) -> None:
    errors = make_errors()
    page = open_page(error_panel_page(errors, "classes"))
    pair = errors.pairs().iloc[0]
    page.get_by_role("button", name=f"{pair.target} predicted as {pair.prediction}").click()
    assert len(clicked_rows(page, errors)[0]) == pair["count"]
    page.get_by_role("button", name="right, most confident").click()
    rows, _ = clicked_rows(page, errors)
    confidence = errors.table.columns["confidence"][rows]
    assert (np.diff(confidence) <= 0).all()
    assert errors.table.right is not None
    assert errors.table.right[rows].all()
    page.get_by_role("button", name="largest errors").click()
    assert (np.diff(errors.table.columns["loss"][clicked_rows(page, errors)[0]]) <= 0).all()


def test_class_click_shows_its_roc_and_precision_recall_curves(open_page: OpenPage) -> None:
    errors = make_errors()
    page = open_page(error_panel_page(errors, "classes"))
    serve_errors(page, errors)
    assert page.locator(".nb-panelplot").count() == 2
    page.get_by_role("button", name="cat", exact=True).click()
    page.get_by_text("Curves of cat").wait_for()
    roc = errors.curves("cat").roc
    assert f"area {roc.area:.4g}" in page.locator(".nb-reading").first.inner_text()
    page.locator(".nb-panelplot svg").first.hover()
    assert "false positive rate" in page.locator(".nb-reading").first.inner_text()


def test_class_click_without_kernel_shows_python_line(open_page: OpenPage) -> None:
    page = open_page(error_panel_page(make_errors(), "classes"))
    page.get_by_role("button", name="cat", exact=True).click()
    assert page.get_by_text('errors.curves("cat")').is_visible()


def test_threshold_slider_shows_counts_and_queries_changed_rows(open_page: OpenPage) -> None:
    errors = make_errors(classes=2)
    probability = errors.table.columns["chance"]
    page = open_page(error_panel_page(errors, "classes"))
    frame = errors.thresholds().to_frame()
    slider = page.get_by_role("slider")
    maximum = page.evaluate("document.querySelector('input[type=range]').max")
    slider.fill(str(int(0.8 * int(maximum))))
    threshold = float(slider.get_attribute("aria-valuetext"))
    row = frame.iloc[(frame.threshold - threshold).abs().argmin()]
    assert f"{row.tp:.0f} of {row.tp + row.fn:.0f} found" in page.get_by_text("found,").inner_text()
    page.get_by_role("button", name="change compared with").click()
    rows, _ = clicked_rows(page, errors)
    assert set(rows) == set(np.flatnonzero((probability >= 0.5) & (probability < row.threshold)))
    page.get_by_role("button", name="nearest above").click()
    rows, _ = clicked_rows(page, errors)
    assert set(rows) == set(np.flatnonzero(probability >= row.threshold))
    assert (np.diff(probability[rows]) >= 0).all()


def test_click_on_threshold_plot_sets_threshold(open_page: OpenPage) -> None:
    page = open_page(error_panel_page(make_errors(classes=2), "classes"))
    plot = page.get_by_label("Thresholds of bee")
    box = plot.bounding_box()
    plot.click(position={"x": 36 + 0.8 * (box["width"] - 46), "y": 100})
    assert abs(float(page.get_by_role("slider").get_attribute("aria-valuetext")) - 0.8) < 0.03


def test_threshold_costs_change_the_lowest_cost_threshold(open_page: OpenPage) -> None:
    errors = make_errors(classes=2, rows=150)
    page = open_page(error_panel_page(errors, "classes"))
    page.get_by_label("cost of a false negative").fill("20")
    frame = errors.thresholds().to_frame(miss=20)
    page.get_by_role("button", name="lowest cost").click()
    threshold = float(page.get_by_role("slider").get_attribute("aria-valuetext"))
    lowest_cost_rows = frame[frame.cost == frame.cost.min()]
    assert np.isclose(lowest_cost_rows.threshold, threshold, atol=1e-4).any()
    assert f"cost {lowest_cost_rows.cost.iloc[0]:.4g}." in page.get_by_text("found,").inner_text()


def test_classes_panel_of_thousand_classes_is_small_and_searchable(open_page: OpenPage) -> None:
    random = np.random.default_rng(0)
    target = random.integers(0, 1000, 20_000)
    prediction = np.where(random.random(20_000) < 0.8, target, random.integers(0, 1000, 20_000))
    errors = Errors(
        ClassificationTable.from_arrays(prediction, target, class_names=[f"kind {i}" for i in range(1000)]), "headline"
    )
    view = error_panel_page(errors, "classes")
    assert len(to_script_json(view.state())) < 30_000
    assert len(static_html(view)) < 100_000
    page = open_page(view)
    assert "50 of 1,000 classes" in page.locator(".nb-panelbox").inner_text()
    assert len(table_classes(page)) == 50
    serve_errors(page, errors)
    page.get_by_label("Find a class").fill("kind 99")
    page.wait_for_function("document.querySelectorAll('[aria-label=Classes] tbody tr').length === 11")
    assert set(table_classes(page)) == {"kind 99", *(f"kind {i}" for i in range(990, 1000))}


def test_classes_panel_of_labels_has_no_curves(open_page: OpenPage) -> None:
    errors = Errors(ClassificationTable.from_arrays(["b", "b", "a"], ["a", "b", "a"]), "headline")
    page = open_page(error_panel_page(errors, "classes"))
    assert page.locator("svg").count() == 0
    page.get_by_role("button", name="wrong").first.click()
    assert clicked_rows(page, errors)[0] == [0]


def test_classes_panel_of_single_class_or_no_rows_has_a_message(open_page: OpenPage) -> None:
    scores = np.random.default_rng(0).normal(size=(20, 2))
    page = open_page(
        error_panel_page(Errors(ClassificationTable.from_arrays(scores, np.zeros(20, int)), "headline"), "classes")
    )
    assert page.get_by_text("No sample belongs to 1").is_visible()
    empty_errors = Errors(ClassificationTable.from_arrays(scores[:0], np.zeros(0, int)), "headline")
    assert state(empty_errors)["overall"][0]["value"] == [None, None, None]
    fitting_panels = {panel.name for panel in all_panels() if panel.fits(empty_errors)}
    assert "classes" in fitting_panels
    assert not fitting_panels & {"calibration", "flips"}


def test_classes_panel_with_hostile_class_name_inserts_no_markup(open_page: OpenPage) -> None:
    scores = np.random.default_rng(0).normal(size=(50, 2))
    errors = Errors(
        ClassificationTable.from_arrays(scores, np.arange(50) % 2, class_names=[HOSTILE_NAME, "b"]), "headline"
    )
    page = open_page(error_panel_page(errors, "classes"))
    assert page.get_by_text(HOSTILE_NAME).first.is_visible()
    assert page.evaluate("window.hit") is None
    assert "<img" not in error_panel_page(errors, "classes").html()


def test_class_curves_omit_rows_without_scores() -> None:
    errors = make_errors(classes=2)
    table = errors.table
    assert isinstance(table, ClassificationTable)
    assert table.scores is not None
    scores = table.scores.copy()
    scores[:10] = np.nan
    errors_with_missing_scores = Errors(ClassificationTable.from_arrays(scores, table.target), "headline")
    curves = state(errors_with_missing_scores)["curves"]
    assert curves["of"] + curves["others"] == 590
    assert np.isnan(get_class_probability(errors_with_missing_scores.table, 1)[:10]).all()  # type: ignore[arg-type, index]


def test_classes_panel_fits_narrow_page(open_page: OpenPage) -> None:
    page = open_page(error_panel_page(make_errors(classes=2), "classes"), width=320, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
