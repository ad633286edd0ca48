"""Tests of the residuals panel of the error browser."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.regression import RegressionTable
from nbdebug.tools.errors.panels import residuals
from nbdebug.tools.errors.panels.residuals import PANEL, state
from nbdebug.tools.errors.result import Errors
from nbdebug.views.page import to_script_json

from .conftest import OpenPage
from .panel_pages import clicked_rows, error_panel_page, serve_errors


def make_regression_errors(rows: int = 3000) -> Errors:
    random = np.random.default_rng(0)
    age = random.uniform(0, 10, rows)
    target = random.normal(0, 2, rows)
    columns = {"age": age, "kind": np.where(age > 5, "old", "<b>new</b>")}
    table = RegressionTable.from_arrays(target + random.normal(0, 1 + age / 3, rows), target, columns=columns)
    return Errors(table, table.headline())


def rows_within(errors: Errors, ranges: dict[str, Any]) -> list[int]:
    within = np.ones(len(errors.table), bool)
    for name, (low, high) in ranges.items():
        values = errors.table.columns[name]
        within &= (values >= (-np.inf if low is None else low)) & (values <= (np.inf if high is None else high))
    return np.flatnonzero(within).tolist()


def drag(page: Any, *points: tuple[float, float]) -> None:
    """Drag from a point of the plot to others, as shares of its size."""
    box = page.get_by_role("application").locator("canvas").bounding_box()
    ((x, y), *later_points) = [(box["x"] + u * box["width"], box["y"] + v * box["height"]) for u, v in points]
    page.mouse.move(x, y)
    page.mouse.down()
    for point in later_points:
        page.mouse.move(*point, steps=4)
    page.mouse.up()


@pytest.mark.parametrize("rows", [300, 3000])
def test_residual_plot_box_queries_its_rows(open_page: OpenPage, rows: int) -> None:
    errors = make_regression_errors(rows)
    page = open_page(error_panel_page(errors, "residuals"))
    drag(page, (0.4, 0.3), (0.7, 0.6))
    ranges = page.evaluate("clicks.at(-1).query.ranges")
    rows_in_box, label = clicked_rows(page, errors)
    assert sorted(rows_in_box) == rows_within(errors, ranges)
    assert 0 < len(rows_in_box) < rows
    assert label.startswith("prediction ")
    reading = page.locator(".nb-reading").inner_text()
    count = int(reading.split(": ")[1].removeprefix("about ").split()[0].replace(",", ""))
    assert abs(count - len(rows_in_box)) <= (0 if rows == 300 else 0.1 * len(rows_in_box))


def test_residual_plot_box_at_edge_is_open_ended(open_page: OpenPage) -> None:
    errors = make_regression_errors()
    errors.table.columns["residual"][7] = 1e6
    page = open_page(error_panel_page(errors, "residuals"))
    assert "drawn at the edge: 1." in page.locator(".nb-panelbox").inner_text()
    drag(page, (0.001, 0.3), (0.999, 0.001))
    rows_in_box, label = clicked_rows(page, errors)
    assert label.startswith("any prediction, residual from ")
    assert 7 in rows_in_box


def test_residual_plot_keys_select_box_and_escape_clears_it(open_page: OpenPage) -> None:
    errors = make_regression_errors()
    page = open_page(error_panel_page(errors, "residuals"))
    stage = page.get_by_role("application")
    for key in ("ArrowRight", "ArrowRight", "ArrowUp", "Shift+ArrowLeft", "Shift+ArrowUp", "Enter"):
        stage.press(key)
    (x0, x1), (y0, y1) = state(errors)["plot"]["ends"]
    ranges = page.evaluate("clicks.at(-1).query.ranges")
    assert ranges["prediction"] == pytest.approx([x0 + 0.5 * (x1 - x0), x0 + 0.6 * (x1 - x0)])
    assert ranges["residual"] == pytest.approx([y0 + 0.5 * (y1 - y0), y0 + 0.8 * (y1 - y0)])
    assert sorted(clicked_rows(page, errors)[0]) == rows_within(errors, ranges)
    stage.press("Escape")
    stage.press("Enter")
    assert page.evaluate("clicks.length") == 1


def test_residual_plot_dot_click_queries_its_sample(open_page: OpenPage) -> None:
    errors = make_regression_errors(1)
    page = open_page(error_panel_page(errors, "residuals"))
    page.get_by_role("application").locator("canvas").click(position=page.evaluate(CENTER))
    assert clicked_rows(page, errors)[0] == [0]


CENTER = """() => {
  const {width, height} = document.querySelector("canvas").getBoundingClientRect();
  return {x: (46 + width - 12) / 2, y: (18 + height - 34) / 2};
}"""


def test_residual_plot_of_other_column_is_computed_on_request(open_page: OpenPage) -> None:
    errors = make_regression_errors()
    page = open_page(error_panel_page(errors, "residuals"))
    assert "Residuals fall with prediction" in page.get_by_role("status").first.inner_text()
    x_control = page.get_by_label("across")
    assert x_control.locator("option").all_inner_texts() == ["loss", "target", "prediction", "residual", "age"]
    x_control.select_option("age")
    assert page.get_by_text('errors.to_frame().plot.scatter("age", "residual")').is_visible()
    serve_errors(page, errors)
    page.get_by_label("across").select_option("loss")
    page.get_by_label("across").select_option("age")
    page.get_by_text("in the highest tenth of age as in the lowest tenth (heteroscedastic)").wait_for()
    drag(page, (0.5, 0.2), (0.8, 0.8))
    ranges = page.evaluate("clicks.at(-1).query.ranges")
    assert set(ranges) == {"age", "residual"}
    assert sorted(clicked_rows(page, errors)[0]) == rows_within(errors, ranges)


def test_residuals_panel_state_is_small_and_of_large_table_computed_on_request(
    open_page: OpenPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors = make_regression_errors(200_000)
    assert len(to_script_json(state(errors))) < 100_000
    monkeypatch.setattr(residuals, "MAX_ROWS_WITHOUT_REQUEST", 1000)
    large_state = state(errors)
    assert large_state["later"]
    assert large_state["plot"] is None
    assert state(errors, now=True)["plot"]["rows"] == 200_000
    page = open_page(error_panel_page(errors, "residuals"))
    assert page.get_by_text("Python is not available").is_visible()


def test_residuals_state_omits_nan_rows_and_rejects_text_columns() -> None:
    errors = make_regression_errors(300)
    errors.table.columns["residual"][:10] = np.nan
    errors.table.columns["age"][:] = np.nan
    assert state(errors)["plot"]["rows"] == 290
    assert state(errors, x="age")["said"] == "No sample has a number for both age and residual."
    with pytest.raises(SetupError, match="column 'kind' holds texts; expected numbers"):
        state(errors, x="kind")
    with pytest.raises(SetupError, match="column is 'height'"):
        state(errors, x="height")


def test_residual_plot_counts_and_trend_equal_numpy_reference() -> None:
    errors = make_regression_errors()
    plot = state(errors)["plot"]
    x, y = (errors.table.columns[name] for name in ("prediction", "residual"))
    expected_counts, _, _ = np.histogram2d(x, y, plot["boxes"], plot["ends"])
    counts = np.zeros_like(expected_counts)
    for i, j, count in plot["cells"]:
        counts[i, j] = count
    np.testing.assert_array_equal(counts, expected_counts)
    assert counts.sum() + plot["beyond"] == 3000
    order = np.argsort(x, kind="stable")[:150]
    assert plot["trend"]["mean"][0] == pytest.approx(y[order].mean())
    assert plot["trend"]["low"][0] == pytest.approx(np.quantile(y[order], 0.1))


def test_residuals_panel_fits_only_regression() -> None:
    assert PANEL.fits(make_regression_errors())
    assert not PANEL.fits(Errors(ClassificationTable.from_arrays([0, 1], [0, 1]), "labels"))
    assert "<td>" in PANEL.html(state(make_regression_errors()))
    table = RegressionTable.from_arrays(np.random.default_rng(0).normal(size=(90, 12)), np.zeros((90, 12)))
    assert state(Errors(table, ""))["y"] == "worst residual"


def test_residuals_panel_fits_narrow_page(open_page: OpenPage) -> None:
    page = open_page(error_panel_page(make_regression_errors(), "residuals"), width=320, dark=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    assert page.get_by_role("application").is_visible()
