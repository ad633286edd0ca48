"""The panel of calibration in a browser: its bins and bars lead to rows, its temperature is offered where it helps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors.panels import calibration
from nbdebug.tools.errors.panels.calibration import PANEL, state
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import to_script_json

from .conftest import Open
from .panels import answering, made, page_of, went


def test_a_bin_leads_to_its_rows(open_page: Open) -> None:
    errors = made()
    bins = errors.calibration()
    page = open_page(page_of(errors, "calibration"))
    spots = page.get_by_label("Reliability diagram").get_by_role("button")
    assert spots.count() == len(bins.counts)
    spots.nth(3).press("Enter")
    sure = errors.table.columns["confidence"]
    wanted = np.flatnonzero((sure >= bins.lowest[3]) & (sure <= bins.highest[3]))
    assert sorted(went(page, errors)[0]) == wanted.tolist()
    assert len(wanted) == bins.counts[3]


def test_a_bar_leads_to_its_rows(open_page: Open) -> None:
    errors = made()
    table = errors.table
    assert isinstance(table, ClassificationTable)
    page = open_page(page_of(errors, "calibration"))
    page.get_by_role("button", name="confidence 0.5 to 0.55, wrong").click()
    sure = table.columns["confidence"]
    wanted = np.flatnonzero((sure >= 0.5) & (sure < 0.55) & ~table.right)
    rows, label = went(page, errors)
    assert sorted(rows) == wanted.tolist()
    assert label == "confidence 0.5 to 0.55, wrong"
    counts = state(errors)["histogram"]
    assert sum(counts["right"]) == table.right.sum()
    assert sum(counts["wrong"]) == (~table.right).sum()


def test_a_model_that_is_too_sure_is_told_and_mended(open_page: Open) -> None:
    errors = made(3000, sharp=6)
    page = open_page(page_of(errors, "calibration"))
    assert page.get_by_text("Overconfident").is_visible()
    found = errors.temperature()
    assert page.get_by_text(f"Divide the logits by {found.temperature:.3g}").is_visible()
    assert f"/ {found.temperature:.3g}).softmax(-1)" in page.locator("pre").inner_text()


def test_a_calibrated_model_is_left_alone(open_page: Open) -> None:
    random = np.random.default_rng(1)
    chances = random.dirichlet(np.ones(4), 2000)
    target = (random.random((2000, 1)) > chances.cumsum(1)).sum(1).clip(max=3)
    page = open_page(page_of(Errors(ClassificationTable.from_arrays(chances, target), "made here"), "calibration"))
    assert page.get_by_text("No miscalibration beyond chance").is_visible()
    assert page.get_by_text("No temperature scaling is needed").is_visible()
    assert page.locator("pre").count() == 0


def test_one_class_is_looked_at_on_its_own(open_page: Open) -> None:
    errors = made()
    page = open_page(page_of(errors, "calibration"))
    answering(page, errors)
    page.get_by_label("Calibration of").select_option("the probability of cat")
    page.get_by_text("↑ share of the class").wait_for()
    bins = errors.calibration("cat")
    page.get_by_label("Reliability diagram").get_by_role("button").nth(0).click()
    rows, _ = went(page, errors)
    chance = errors.table.columns["chance of cat"]
    assert sorted(rows) == np.flatnonzero(chance <= bins.highest[0]).tolist()
    page.get_by_label("Calibration of").select_option("the confidence of the prediction")
    page.get_by_text("↑ accuracy").wait_for()


def test_without_python_it_says_what_to_write(open_page: Open) -> None:
    page = open_page(page_of(made(), "calibration"))
    page.get_by_label("Calibration of").select_option("the probability of cat")
    assert page.get_by_text("errors.calibration(2)").is_visible()


def test_a_large_table_is_looked_at_when_it_is_opened(open_page: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibration, "MAX_ROWS_WITHOUT_REQUEST", 100)
    monkeypatch.setattr(calibration, "MAX_SCORES_WITHOUT_REQUEST", 100)
    errors = made(3000, sharp=6)
    view = page_of(errors, "calibration")
    assert view.first["later"]
    assert len(to_script_json(view.state())) < 1000
    page = open_page(view)
    assert page.get_by_text("errors.calibration()").is_visible()
    answering(page, errors)
    page.get_by_role("button", name="Compute calibration").click()
    page.get_by_label("Reliability diagram").wait_for()
    assert page.get_by_text("errors.calibration()").count() == 0
    asked: Any = state(errors, now=True)
    assert asked["scaling"] == {"later": True}
    eager = open_page(page_of(errors, "calibration", now=True))
    answering(eager, errors)
    eager.get_by_role("button", name="Check whether temperature scaling helps").click()
    eager.get_by_text("Divide the logits by").wait_for()


@pytest.mark.parametrize(
    ("predictions", "said"),
    [
        (np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]] * 30), "(model(x).log() / "),
        (np.array([5.5, -4.0, 3.0] * 30), ".sigmoid()"),
        (np.array([[0.5, 5.0], [3.0, 0.5], [0.1, 4]] * 30), ".softmax(-1)"),
    ],
)
def test_the_line_is_for_what_the_model_gives(predictions: np.ndarray, said: str) -> None:
    errors = Errors(ClassificationTable.from_arrays(predictions, [0, 1, 0] * 30), "made here")
    assert said in state(errors)["scaling"]["code"]


def test_it_is_for_tables_with_confidences_only() -> None:
    assert PANEL.fits(made())
    assert not PANEL.fits(Errors(ClassificationTable.from_arrays([0, 1], [0, 1]), "labels"))
    assert not PANEL.fits(Errors(ClassificationTable.from_arrays(np.full((3, 2), np.nan), [0, 1, 0]), "no numbers"))
    assert not PANEL.fits(Errors(ClassificationTable.from_arrays(np.eye(3), [-1, -1, -1]), "no targets"))


def test_rows_without_target_or_score_are_told(open_page: Open) -> None:
    random = np.random.default_rng(0)
    scores, target = random.normal(size=(60, 3)), random.integers(0, 3, 60)
    scores[0, 0], target[1:3] = np.nan, -1
    page = open_page(page_of(Errors(ClassificationTable.from_arrays(scores, target), "made here"), "calibration"))
    assert page.get_by_text("3 samples without a target or a score").is_visible()


def test_one_sample_and_one_class_are_drawn(open_page: Open) -> None:
    for target in ([0], [0, -1], [0] * 30):
        scores = np.random.default_rng(0).normal(size=(len(target), 2))
        errors = Errors(ClassificationTable.from_arrays(scores, target), "made here")
        assert open_page(page_of(errors, "calibration")).get_by_label("Reliability diagram").is_visible()


def test_it_fits_a_narrow_page(open_page: Open) -> None:
    page = open_page(page_of(made(sharp=4), "calibration"), width=320, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
