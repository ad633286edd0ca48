"""Tests of the baselines panel of the error browser."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.tools.errors.panels.baselines import PANEL, fits, state
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import to_script_json
from tests.baselines.trained_models import collect_errors, train_classifier, train_regressor

from .conftest import OpenPage
from .hostile_text import HOSTILE_NAME
from .panel_pages import error_panel_page


@pytest.fixture(scope="module")
def errors() -> Errors:
    return collect_errors(train_classifier(epochs=1))


def test_baselines_panel_shows_bar_and_interval_of_each_baseline(open_page: OpenPage, errors: Errors) -> None:
    page = open_page(error_panel_page(errors, "baselines"))
    rows = page.locator("[aria-label='Baselines by accuracy'] tbody tr")
    baselines = errors.baselines()
    assert rows.count() == 1 + len(baselines.names)
    linear_row = rows.filter(has_text="linear")
    accuracy = baselines.get("linear", "accuracy")
    assert accuracy is not None
    assert f"{accuracy.value:.1%}" in linear_row.inner_text()
    assert f"{accuracy.low:.1%} to {accuracy.high:.1%}" in linear_row.inner_text()
    gauge = linear_row.locator(".nb-gauge")
    width = gauge.evaluate("node => Number(getComputedStyle(node).getPropertyValue('--nb-v'))")
    assert width == pytest.approx(accuracy.value, abs=1e-3)


def test_baselines_panel_metric_is_selected_by_keyboard(open_page: OpenPage, errors: Errors) -> None:
    page = open_page(error_panel_page(errors, "baselines"))
    page.get_by_role("button", name="log loss").focus()
    page.keyboard.press("Enter")
    assert page.locator("[aria-label='Baselines by log loss'] tbody tr").count() == 4
    assert page.evaluate("document.activeElement.textContent") == "log loss"
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_baselines_panel_click_queries_rows_only_the_baseline_gets_right(open_page: OpenPage, errors: Errors) -> None:
    page = open_page(error_panel_page(errors, "baselines"))
    page.get_by_title("only linear is right").click()
    click = page.evaluate("clicks.at(-1)")
    table, rows = errors.table, np.array(click["query"]["rows"])
    assert click["label"] == "only linear is right"
    assert len(rows) == len(errors.baselines().only["linear"]) > 0
    assert table.right is not None
    assert not table.right[rows].any()
    answer = errors.answer({"kind": "rows", "query": click["query"]})
    assert answer["total"] == len(rows)


def test_baselines_panel_of_regression_queries_rows_the_baseline_predicts_closer(open_page: OpenPage) -> None:
    errors = collect_errors(train_regressor(epochs=1))
    page = open_page(error_panel_page(errors, "baselines"), width=320, dark=True)
    assert page.get_by_role("button", name="mean absolute error").is_visible()
    page.get_by_title("linear is closer").click()
    assert page.evaluate("clicks.at(-1).query.rows.length") == len(errors.baselines().only["linear"])
    assert page.evaluate("document.documentElement.scrollWidth <= 320")


def test_baselines_panel_without_scripts_is_table(open_page: OpenPage, errors: Errors) -> None:
    page = open_page(error_panel_page(errors, "baselines"), scripts=False)
    assert page.locator("table tr").count() > 10
    assert page.get_by_text("majority").first.is_visible()


def test_baselines_panel_with_hostile_class_name_inserts_no_markup(open_page: OpenPage) -> None:
    errors = collect_errors(train_classifier(epochs=1, class_names=[HOSTILE_NAME, "b", "c", "d"]))
    page = open_page(error_panel_page(errors, "baselines"))
    assert page.locator("img").count() == 0
    assert page.evaluate("window.hit") is None


def test_baselines_panel_state_is_small_and_panel_is_not_quick(errors: Errors) -> None:
    assert len(to_script_json(state(errors))) < 20_000
    assert fits(errors)
    assert not PANEL.quick
