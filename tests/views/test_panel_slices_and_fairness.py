"""Tests of the slices and fairness panels and of the views of their results."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nbdebug.predictions import ClassificationTable
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors.panels import fairness, slices
from nbdebug.views.page import PACKAGE_FOLDER, inline_module, static_html, style_sheets
from nbdebug.views.panel import Panel, PanelView

from .conftest import OpenPage
from .hostile_text import HOSTILE_TEXT
from .panel_pages import clicked_rows, serve_errors

MOUNT_PANEL = """async ([source, css, name, state]) => {
  document.body.innerHTML = "<style></style><div id=el class=nbdebug></div>";
  document.querySelector("style").textContent = css;
  window.clicks = [];
  const panels = await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })));
  const ask = (request) => (window.python ? window.python(request) : Promise.resolve(undefined));
  const go = (query, label) => clicks.push({ query, label });
  document.getElementById("el").append(panels[`${name}Panel`](state, go, ask));
}"""
PANELS = {panel.name: panel for panel in (slices.PANEL, fairness.PANEL)}


def make_slice_errors(rows: int = 2003, **columns: Any) -> Errors:
    """Errors of a classifier of two classes that is worse at low brightness."""
    rng = np.random.default_rng(0)
    brightness = rng.random(rows).astype(np.float32)
    sex = rng.choice(["male", "female"], rows)
    target = rng.integers(0, 2, rows)
    scores = rng.normal(size=(rows, 2))
    scores[np.arange(rows), target] += np.where(brightness < 0.2, 0.2, 3)
    all_columns = {"brightness": brightness, "sex": sex, "noise": rng.normal(size=rows), **columns}
    return Errors(
        ClassificationTable.from_arrays(scores, target, class_names=["no", "yes"], columns=all_columns), "headline"
    )


def open_panel(page: Any, name: str, errors: Errors, kernel: bool = True, **options: Any) -> None:
    """Open one panel; with ``kernel`` Python answers its requests."""
    if kernel:
        serve_errors(page, errors)
    state = json.loads(json.dumps(PANELS[name].state(errors, **options), allow_nan=False))
    page.evaluate(
        MOUNT_PANEL,
        [inline_module(PACKAGE_FOLDER / f"tools/errors/panels/{name}.js"), style_sheets("tools/errors"), name, state],
    )


def clicked_sorted_rows(page: Any, errors: Errors) -> tuple[np.ndarray, str]:
    """The rows that the last click queries, sorted, and their label."""
    rows, label = clicked_rows(page, errors)
    return np.sort(rows), label


def test_slices_panel_click_queries_the_rows_of_the_slice(page: Any) -> None:
    errors = make_slice_errors()
    open_panel(page, "slices", errors)
    (weak_slice,) = errors.slices().slices
    assert f"Tested {errors.slices().tried} slices" in page.locator(".nb-status").first.inner_text().replace(",", "")
    row = page.locator("tbody tr")
    assert row.count() == 1
    assert f"{weak_slice.value:.1%}" in row.inner_text()
    assert f"{weak_slice.rest:.1%}" in row.inner_text()
    page.get_by_role("button", name=weak_slice.description).click()
    rows, label = clicked_sorted_rows(page, errors)
    assert label == weak_slice.description
    assert np.array_equal(rows, errors.table.matching_rows(weak_slice.query))
    page.get_by_role("button", name=f"{weak_slice.value:.1%}").click()
    rows, label = clicked_sorted_rows(page, errors)
    assert label.startswith("wrong, ")
    assert len(rows) == round(weak_slice.value * weak_slice.support)


def test_slices_panel_measures_custom_slice(page: Any) -> None:
    errors = make_slice_errors()
    open_panel(page, "slices", errors)
    page.locator("summary").click()
    page.get_by_label("Column", exact=True).select_option("brightness")
    page.get_by_label("brightness to").fill("0.5")
    page.get_by_label("And column").select_option("sex")
    page.get_by_label("sex is").select_option("female")
    page.get_by_role("button", name="Measure this slice").click()
    region = page.get_by_role("region", name="Your slice")
    region.wait_for()
    mask = (errors.table.columns["brightness"] <= 0.5) & (errors.table.columns["sex"] == "female")
    assert "brightness ≤ 0.5 and sex = female" in region.inner_text()
    assert f"{(~errors.table.right[mask]).mean():.1%}" in region.inner_text()
    region.get_by_role("button", name="brightness").click()
    assert np.array_equal(clicked_sorted_rows(page, errors)[0], np.flatnonzero(mask))


def test_slices_panel_custom_slice_without_rows_reports_its_count(page: Any) -> None:
    open_panel(page, "slices", make_slice_errors())
    page.locator("summary").click()
    page.get_by_label("Column", exact=True).select_option("brightness")
    page.get_by_label("brightness from").fill("7")
    page.keyboard.press("Enter")
    page.get_by_text("the slice has 0 of 2003 rows").wait_for()


def test_slices_panel_of_large_table_searches_when_opened(page: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slices, "MAX_VALUES_WITHOUT_REQUEST", 10)
    errors = make_slice_errors()
    assert PANELS["slices"].state(errors)["late"]
    assert "errors.slices()" in PANELS["slices"].html(PANELS["slices"].state(errors))
    open_panel(page, "slices", errors)
    page.get_by_role("button", name="brightness ≤").wait_for()
    assert not PANELS["slices"].state(errors)["late"]


def test_slices_panel_of_large_table_without_kernel_shows_python_line(
    page: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slices, "MAX_VALUES_WITHOUT_REQUEST", 10)
    open_panel(page, "slices", make_slice_errors(), kernel=False)
    page.get_by_text("errors.slices()").wait_for()


def test_slices_panel_without_weak_slice_says_so(page: Any) -> None:
    rng = np.random.default_rng(0)
    target = rng.integers(0, 2, 500)
    table = ClassificationTable.from_arrays(rng.permutation(target), target, columns={"x": rng.normal(size=500)})
    open_panel(page, "slices", Errors(table, ""))
    page.get_by_text("No slice is significantly worse").wait_for()


def test_fairness_panel_compares_groups_of_selected_column(page: Any) -> None:
    errors = make_slice_errors()
    open_panel(page, "fairness", errors)
    page.get_by_text("Choose a column").wait_for()
    page.get_by_label("Group by").select_option("sex")
    page.get_by_text("true-positive rate", exact=True).first.wait_for()
    fairness_result = errors.fairness("sex")
    for group in fairness_result.groups:
        for name, rate in group.rates.items():
            text = page.get_by_role("group", name=name, exact=True).inner_text()
            assert f"{rate.value:.1%}" in text
            assert f"{rate.low:.1%} to {rate.high:.1%}, of {rate.rows:,}" in text
    page.get_by_role("group", name="accuracy", exact=True).get_by_role("button", name="female").click()
    rows, label = clicked_sorted_rows(page, errors)
    assert label == "sex female"
    assert np.array_equal(rows, np.flatnonzero(errors.table.columns["sex"] == "female"))
    page.get_by_label("Positive class").select_option("no")
    page.wait_for_function("document.querySelector('select:nth-of-type(1)').value === 'sex'")
    selection_rate = errors.fairness("sex", "no").groups[0].rates["selection rate"]
    page.get_by_role("group", name="selection rate", exact=True).get_by_text(f"{selection_rate.value:.1%}").wait_for()


def test_fairness_panel_opens_with_the_last_compared_column(page: Any) -> None:
    errors = make_slice_errors()
    errors.fairness("brightness")
    errors.fairness("sex")
    errors.fairness("brightness")
    open_panel(page, "fairness", errors, kernel=False)
    assert page.get_by_label("Group by").input_value() == "brightness"
    assert page.get_by_role("group", name="accuracy", exact=True).get_by_role("button").count() == 4


def hostile_panel_views() -> list[PanelView]:
    """Both panels with hostile text in every field."""
    errors = make_slice_errors(**{HOSTILE_TEXT: np.where(np.arange(2003) % 2, HOSTILE_TEXT, "b")})
    errors.fairness(HOSTILE_TEXT)
    panels: list[Panel] = [*PANELS.values()]
    states = [panel.state(errors) for panel in panels]
    return [
        PanelView(panel.name, HOSTILE_TEXT, state, panel.html(state))
        for panel, state in zip(panels, states, strict=True)
    ]


def test_hostile_text_is_not_inserted_as_markup(open_page: OpenPage) -> None:
    page = open_page(*hostile_panel_views())
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert HOSTILE_TEXT in page.locator("body").inner_text()


@pytest.mark.parametrize("width", [320, 900, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_slices_and_fairness_panels_fit_page_width(open_page: OpenPage, width: int, dark: bool) -> None:
    errors = make_slice_errors()
    own = [{"column": "sex", "values": ["male"]}, {"column": "brightness", "low": 0.1, "high": 0.2}]
    states = {"slices": slices.state(errors, own=own), "fairness": fairness.state(errors, "brightness", "yes")}
    page = open_page(*(PanelView(name, name, state) for name, state in states.items()), width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_slices_view_click_shows_python_line_that_returns_rows(open_page: OpenPage) -> None:
    errors = make_slice_errors()
    page = open_page(errors.slices().view())
    page.get_by_role("button", name="brightness ≤").click()
    line = page.locator("pre.nb-code").inner_text()
    rows = eval(line, {"errors": errors})
    assert len(rows) == 24
    assert rows["brightness"].max() <= errors.slices().slices[0].conditions[0].high


def test_slices_and_fairness_views_without_scripts_are_plain_html(open_page: OpenPage) -> None:
    errors = make_slice_errors()
    for view in (errors.slices().view(), errors.fairness("sex").view()):
        page = open_page(view, scripts=False)
        assert page.locator(".nb-plain table").is_visible()
        assert len(static_html(view)) < 60_000


def test_panel_state_of_columns_with_many_values_is_small() -> None:
    columns = {f"column {i}": np.array([f"{'x' * 300} {j}" for j in range(2003)]) for i in range(3)}
    errors = make_slice_errors(**columns)
    assert len(json.dumps(slices.state(errors))) < 100_000
    assert fairness.state(errors)["columns"] == ["brightness", "sex", "noise"]
