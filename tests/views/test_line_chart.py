"""Tests of the line chart."""

from __future__ import annotations

import math
import re
from array import array

import pytest

from nbdebug.views.line_chart import LineChart, pack_rows, sparkline, thin_indices

from .canvas_pixels import canvas_colors, first_line_color
from .conftest import OpenPage
from .sample_views import line_chart_view


def test_thin_indices_keep_ends_extremes_and_gaps() -> None:
    y = [math.sin(i / 500) for i in range(10_000)]
    y[1234], y[7777], y[5000] = 99.0, -99.0, math.nan
    indices = thin_indices(y, 300)
    assert len(indices) <= 300
    assert {0, 1234, 5000, 7777, 9_999} <= set(indices)
    assert indices == sorted(indices)


def test_pack_rows_encodes_missing_as_nan_and_non_finite_as_inf() -> None:
    values = array("f")
    values.frombytes(pack_rows([{"a": 1.0, "b": math.nan}, {"a": 2.0}], ["a", "b"]))
    assert [values[0], values[1], values[2]] == [1.0, math.inf, 2.0]
    assert math.isnan(values[3])


def test_sparkline_follows_values_and_is_empty_without_any() -> None:
    assert sparkline([0, 1, 2, 3]) == "▁▃▆█"
    assert sparkline([math.nan]) == ""


def test_line_chart_state_counts_non_finite_values_and_keeps_exact_steps() -> None:
    view = LineChart(series={"loss": [(123_456, 1.0), (123_457, math.nan), (math.nan, 2.0)]})
    assert view.state()["lines"] == [{"name": "loss", "x": [123456, 123457], "y": [1, None], "bad": 1}]


def test_line_chart_head_omits_non_finite_marks_and_limits() -> None:
    head = LineChart(marks=[(math.nan, "a"), (1, "b")], limits=[(math.inf, "c")]).head()
    assert head == {"status": "", "marks": [{"at": 1, "text": "b"}], "limits": []}


def test_line_chart_append_adds_lines_and_leaves_others_unchanged() -> None:
    view = LineChart(x_label="epoch")
    view.append({"epoch": 0, "loss": 1.0})
    view.append({"epoch": 1, "loss": 0.5, "accuracy": 0.9})
    assert [(line["name"], line["x"]) for line in view.state()["lines"]] == [("loss", [0, 1]), ("accuracy", [1])]
    assert view.count == 2


def test_line_chart_canvas_uses_device_pixel_ratio(open_page: OpenPage) -> None:
    canvas = open_page(line_chart_view(), scale=2).locator(".nb-plot canvas")
    assert canvas.evaluate("node => node.width / node.clientWidth") == pytest.approx(2, abs=0.01)


def test_line_chart_follows_container_width(open_page: OpenPage) -> None:
    page = open_page(line_chart_view())
    page.set_viewport_size({"width": 500, "height": 800})
    page.wait_for_function("document.querySelector('.nb-plot canvas').clientWidth < 500")


def test_line_chart_legend_click_hides_line(open_page: OpenPage) -> None:
    page = open_page(line_chart_view())
    canvas = page.locator(".nb-plot canvas")
    assert first_line_color() in canvas_colors(canvas)
    page.get_by_role("button", name="train").click()
    assert page.get_by_role("button", name="train").get_attribute("aria-pressed") == "false"
    assert first_line_color() not in canvas_colors(canvas)


def test_line_chart_logarithmic_axis_redraws_and_counts_non_positive_values(open_page: OpenPage) -> None:
    page = open_page(LineChart(series={"gap": [(0, 1.0), (1, 0.0), (2, 0.01)]}))
    canvas = page.locator(".nb-plot canvas")
    before = canvas.evaluate("node => node.toDataURL()")
    page.get_by_role("button", name="log", exact=True).click()
    assert canvas.evaluate("node => node.toDataURL()") != before
    assert "1 not positive" in page.locator(".nb-note").inner_text()


def test_line_chart_counts_non_finite_values(open_page: OpenPage) -> None:
    assert "validation: 2 not finite" in open_page(line_chart_view()).locator(".nb-note").inner_text()


def test_line_chart_pointer_and_arrow_keys_read_values(open_page: OpenPage) -> None:
    page = open_page(line_chart_view())
    canvas, tip = page.locator(".nb-plot canvas"), page.locator(".nb-tip")
    canvas.hover(position={"x": 450, "y": 100})
    assert re.search(r"step \d+", tip.inner_text())
    assert "validation" in tip.inner_text()
    page.mouse.move(0, 0)
    assert tip.is_hidden()
    canvas.focus()
    page.keyboard.press("Home")
    assert "step 0" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert "step 1" in tip.inner_text()
    assert "step 1" in page.locator("[aria-live]").inner_text()
    page.keyboard.press("End")
    assert "step 299" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def test_line_chart_has_label_with_points_and_first_value(open_page: OpenPage) -> None:
    label = open_page(line_chart_view()).get_by_role("img").first.get_attribute("aria-label")
    assert "train: 300 points, first 2.3" in label


def test_line_chart_of_no_or_single_point_is_drawn(open_page: OpenPage) -> None:
    page = open_page(
        LineChart(title="empty"),
        LineChart(series={"one": [(3, 0.5)]}),
        LineChart(series={"bad": [(0, None)]}, log=True),
    )
    assert page.locator("canvas").count() == 3


def test_point_that_another_line_covers_stays_visible(open_page: OpenPage) -> None:
    points = [(step, 1 / (1 + step)) for step in range(10)]
    view = LineChart(title="loss", series={"training": points, "validation": points})
    canvas = open_page(view).locator(".nb-plot canvas")
    assert first_line_color() in canvas_colors(canvas)
