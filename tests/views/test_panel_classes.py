"""The panel of classes in a browser: sorted, searched, clicked, with Python behind it and without."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.one_vs_rest import get_class_probability
from nbdebug.tools.errors.panels.classes import state
from nbdebug.tools.errors.panels.registry import all_panels
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import static_html, to_script_json

from .conftest import Open
from .panels import answering, made, page_of, went


def names(page: Any) -> list[str]:
    """The classes of the table in their order."""
    return [str(text) for text in page.locator("[aria-label=Classes] tbody th").all_inner_texts()]


def test_classes_come_worst_first_and_sort_by_any_column(open_page: Open) -> None:
    errors = made()
    frame = errors.per_class()
    page = open_page(page_of(errors, "classes"))
    assert names(page) == list(frame.sort_values("f1").index)
    page.get_by_role("button", name="recall", exact=True).click()
    assert names(page) == list(frame.sort_values("recall", ascending=False).index)
    page.get_by_role("button", name="recall", exact=True).click()
    assert names(page) == list(frame.sort_values("recall").index)
    assert page.locator("th[aria-sort=ascending]").inner_text().startswith("recall")
    page.get_by_role("button", name="class", exact=True).press("Enter")
    assert names(page) == sorted(frame.index)


def test_counts_lead_to_their_samples(open_page: Open) -> None:
    errors = made()
    table = errors.table
    assert isinstance(table, ClassificationTable)
    page = open_page(page_of(errors, "classes"))
    row = page.locator("tr", has=page.get_by_role("button", name="bee", exact=True)).first
    row.locator("td[data-label=missed] button").click()
    rows, label = went(page, errors)
    assert set(rows) == set(np.flatnonzero((table.target == 1) & (table.prediction != 1)))
    assert label == "bee, predicted as another"
    row.locator("td[data-label=false] button").click()
    assert set(went(page, errors)[0]) == set(np.flatnonzero((table.target != 1) & (table.prediction == 1)))


def test_pairs_and_ends_lead_to_their_samples(open_page: Open) -> None:
    errors = made()
    page = open_page(page_of(errors, "classes"))
    pair = errors.pairs().iloc[0]
    page.get_by_role("button", name=f"{pair.target} predicted as {pair.prediction}").click()
    assert len(went(page, errors)[0]) == pair["count"]
    page.get_by_role("button", name="right, most confident").click()
    rows, _ = went(page, errors)
    sure = errors.table.columns["confidence"][rows]
    assert (np.diff(sure) <= 0).all()
    assert errors.table.right is not None
    assert errors.table.right[rows].all()
    page.get_by_role("button", name="largest errors").click()
    assert (np.diff(errors.table.columns["loss"][went(page, errors)[0]]) <= 0).all()


def test_a_class_that_is_pressed_shows_its_curves(open_page: Open) -> None:
    errors = made()
    page = open_page(page_of(errors, "classes"))
    answering(page, errors)
    assert page.locator(".nb-panelplot").count() == 2
    page.get_by_role("button", name="cat", exact=True).click()
    page.get_by_text("Curves of cat").wait_for()
    roc = errors.curves("cat").roc
    assert f"area {roc.area:.4g}" in page.locator(".nb-reading").first.inner_text()
    page.locator(".nb-panelplot svg").first.hover()
    assert "false positive rate" in page.locator(".nb-reading").first.inner_text()


def test_without_python_it_says_what_to_write(open_page: Open) -> None:
    page = open_page(page_of(made(), "classes"))
    page.get_by_role("button", name="cat", exact=True).click()
    assert page.get_by_text('errors.curves("cat")').is_visible()


def test_the_slider_tells_counts_and_leads_to_the_rows_that_flip(open_page: Open) -> None:
    errors = made(classes=2)
    chance = errors.table.columns["chance"]
    page = open_page(page_of(errors, "classes"))
    frame = errors.thresholds().to_frame()
    slider = page.get_by_role("slider")
    at = page.evaluate("document.querySelector('input[type=range]').max")
    slider.fill(str(int(0.8 * int(at))))
    threshold = float(slider.get_attribute("aria-valuetext"))
    row = frame.iloc[(frame.threshold - threshold).abs().argmin()]
    assert f"{row.tp:.0f} of {row.tp + row.fn:.0f} found" in page.get_by_text("found,").inner_text()
    page.get_by_role("button", name="change compared with").click()
    rows, _ = went(page, errors)
    assert set(rows) == set(np.flatnonzero((chance >= 0.5) & (chance < row.threshold)))
    page.get_by_role("button", name="nearest above").click()
    rows, _ = went(page, errors)
    assert set(rows) == set(np.flatnonzero(chance >= row.threshold))
    assert (np.diff(chance[rows]) >= 0).all()


def test_a_press_on_the_plot_sets_the_threshold(open_page: Open) -> None:
    page = open_page(page_of(made(classes=2), "classes"))
    plot = page.get_by_label("Thresholds of bee")
    box = plot.bounding_box()
    plot.click(position={"x": 36 + 0.8 * (box["width"] - 46), "y": 100})
    assert abs(float(page.get_by_role("slider").get_attribute("aria-valuetext")) - 0.8) < 0.03


def test_costs_of_the_user_move_the_lowest(open_page: Open) -> None:
    errors = made(classes=2, rows=150)
    page = open_page(page_of(errors, "classes"))
    page.get_by_label("cost of a false negative").fill("20")
    frame = errors.thresholds().to_frame(miss=20)
    page.get_by_role("button", name="lowest cost").click()
    threshold = float(page.get_by_role("slider").get_attribute("aria-valuetext"))
    best = frame[frame.cost == frame.cost.min()]
    assert np.isclose(best.threshold, threshold, atol=1e-4).any()
    assert f"cost {best.cost.iloc[0]:.4g}." in page.get_by_text("found,").inner_text()


def test_a_thousand_classes_stay_small_and_are_found(open_page: Open) -> None:
    random = np.random.default_rng(0)
    target = random.integers(0, 1000, 20_000)
    prediction = np.where(random.random(20_000) < 0.8, target, random.integers(0, 1000, 20_000))
    errors = Errors(
        ClassificationTable.from_arrays(prediction, target, class_names=[f"kind {i}" for i in range(1000)]), "made here"
    )
    view = page_of(errors, "classes")
    assert len(to_script_json(view.state())) < 30_000
    assert len(static_html(view)) < 100_000
    page = open_page(view)
    assert "50 of 1,000 classes" in page.locator(".nb-panelbox").inner_text()
    assert len(names(page)) == 50
    answering(page, errors)
    page.get_by_label("Find a class").fill("kind 99")
    page.wait_for_function("document.querySelectorAll('[aria-label=Classes] tbody tr').length === 11")
    assert set(names(page)) == {"kind 99", *(f"kind {i}" for i in range(990, 1000))}


def test_labels_alone_have_no_curves(open_page: Open) -> None:
    errors = Errors(ClassificationTable.from_arrays(["b", "b", "a"], ["a", "b", "a"]), "made here")
    page = open_page(page_of(errors, "classes"))
    assert page.locator("svg").count() == 0
    page.get_by_role("button", name="wrong").first.click()
    assert went(page, errors)[0] == [0]


def test_one_class_alone_and_no_rows_have_words_for_it(open_page: Open) -> None:
    scores = np.random.default_rng(0).normal(size=(20, 2))
    page = open_page(
        page_of(Errors(ClassificationTable.from_arrays(scores, np.zeros(20, int)), "made here"), "classes")
    )
    assert page.get_by_text("No sample belongs to 1").is_visible()
    empty = Errors(ClassificationTable.from_arrays(scores[:0], np.zeros(0, int)), "made here")
    assert state(empty)["overall"][0]["value"] == [None, None, None]
    fitting = {one.name for one in all_panels() if one.fits(empty)}
    assert "classes" in fitting
    assert not fitting & {"calibration", "flips"}


def test_names_are_shown_as_text(open_page: Open) -> None:
    evil = "<img src=x onerror=window.hit=1>"
    scores = np.random.default_rng(0).normal(size=(50, 2))
    errors = Errors(ClassificationTable.from_arrays(scores, np.arange(50) % 2, class_names=[evil, "b"]), "made here")
    page = open_page(page_of(errors, "classes"))
    assert page.get_by_text(evil).first.is_visible()
    assert page.evaluate("window.hit") is None
    assert "<img" not in page_of(errors, "classes").html()


def test_rows_without_scores_are_left_out_of_the_curves() -> None:
    errors = made(classes=2)
    table = errors.table
    assert isinstance(table, ClassificationTable)
    assert table.scores is not None
    scores = table.scores.copy()
    scores[:10] = np.nan
    broken = Errors(ClassificationTable.from_arrays(scores, table.target), "made here")
    found = state(broken)["curves"]
    assert found["of"] + found["others"] == 590
    assert np.isnan(get_class_probability(broken.table, 1)[:10]).all()  # type: ignore[arg-type, index]


def test_it_fits_a_narrow_page(open_page: Open) -> None:
    page = open_page(page_of(made(classes=2), "classes"), width=320, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
