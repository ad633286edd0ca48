"""The panel of baselines in a browser: a bar for each answer, and the rows that only a baseline gets right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from nbdebug.tools.errors.panels.baselines import PANEL, fits, html, state
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import View, to_script_json
from tests.baselines.trained_models import collect_errors as browser_of
from tests.baselines.trained_models import train_classifier as classes
from tests.baselines.trained_models import train_regressor as numbers

from .conftest import Open


@dataclass
class Page(View):
    module: ClassVar[str] = str(Path(__file__).with_name("baselines_page.js"))
    sheets: ClassVar[tuple[str, ...]] = ("errors",)

    first: Mapping[str, Any] = field(default_factory=dict)

    def state(self) -> dict[str, Any]:
        return dict(self.first)

    def html(self) -> str:
        return html(dict(self.first))


@pytest.fixture(scope="module")
def errors() -> Errors:
    return browser_of(classes(epochs=1))


def test_each_answer_has_a_bar_and_its_interval(open_page: Open, errors: Errors) -> None:
    page = open_page(Page(first=state(errors)))
    rows = page.locator("[aria-label='Baselines by accuracy'] tbody tr")
    found = errors.baselines()
    assert rows.count() == 1 + len(found.names)
    linear = rows.filter(has_text="linear")
    one = found.get("linear", "accuracy")
    assert one is not None
    assert f"{one.value:.1%}" in linear.inner_text()
    assert f"{one.low:.1%} to {one.high:.1%}" in linear.inner_text()
    width = linear.locator(".nb-gauge").evaluate("one => Number(getComputedStyle(one).getPropertyValue('--nb-v'))")
    assert width == pytest.approx(one.value, abs=1e-3)


def test_another_metric_is_chosen_by_the_keyboard(open_page: Open, errors: Errors) -> None:
    page = open_page(Page(first=state(errors)))
    page.get_by_role("button", name="log loss").focus()
    page.keyboard.press("Enter")
    assert page.locator("[aria-label='Baselines by log loss'] tbody tr").count() == 4
    assert page.evaluate("document.activeElement.textContent") == "log loss"
    assert page.evaluate("document.activeElement.getAttribute('aria-pressed')") == "true"


def test_what_only_a_baseline_gets_right_leads_to_its_rows(open_page: Open, errors: Errors) -> None:
    page = open_page(Page(first=state(errors)))
    page.get_by_title("only linear is right").click()
    went = page.evaluate("went.at(-1)")
    table, rows = errors.table, np.array(went["query"]["rows"])
    assert went["label"] == "only linear is right"
    assert len(rows) == len(errors.baselines().only["linear"]) > 0
    assert table.right is not None
    assert not table.right[rows].any()
    answer = errors.answer({"kind": "rows", "query": went["query"]})
    assert answer["total"] == len(rows)


def test_numbers_have_errors_for_metrics_and_rows_that_are_nearer(open_page: Open) -> None:
    errors = browser_of(numbers(epochs=1))
    page = open_page(Page(first=state(errors)), width=320, dark=True)
    assert page.get_by_role("button", name="mean absolute error").is_visible()
    page.get_by_title("linear is closer").click()
    assert page.evaluate("went.at(-1).query.rows.length") == len(errors.baselines().only["linear"])
    assert page.evaluate("document.documentElement.scrollWidth <= 320")


def test_without_scripts_it_is_a_table(open_page: Open, errors: Errors) -> None:
    page = open_page(Page(first=state(errors)), scripts=False)
    assert page.locator("table tr").count() > 10
    assert page.get_by_text("majority").first.is_visible()


def test_names_are_text(open_page: Open) -> None:
    name = "<img src=x onerror=window.hurt=1>"
    errors = browser_of(classes(epochs=1, class_names=[name, "b", "c", "d"]))
    page = open_page(Page(first=state(errors)))
    assert page.locator("img").count() == 0
    assert page.evaluate("window.hurt") is None


def test_the_state_is_small_and_the_panel_is_for_classes_and_numbers(errors: Errors) -> None:
    assert len(to_script_json(state(errors))) < 20_000
    assert fits(errors)
    assert not PANEL.quick
