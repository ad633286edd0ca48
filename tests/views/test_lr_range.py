"""Tests of the learning-rate range view: handle, labels, live rows and requests to Python."""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from nbdebug.tools.lr_range.view import LrRangeView
from nbdebug.views.page import PACKAGE_FOLDER, inline_module, static_html

from .canvas_pixels import canvas_colors
from .conftest import OpenPage
from .live_pages import LivePage
from .lr_range_views import confirmed_view, loss_at_rate, lr_range_view, make_sweep

IMPORT_MODULE = 'async source => { window.chart = await import("data:text/javascript," + encodeURIComponent(source)); }'
FAKE_KERNEL = """() => {
  window.requests = [];
  window.answer = {};
  window.kernelAlive = true;
  addEventListener("nbdebug-ask", ({detail}) => {
    requests.push(detail);
    const {to, ask, kind} = detail, response = kind === "hello" ? kernelAlive && {} : answer;
    if (response) dispatchEvent(new CustomEvent("nbdebug-answer", {detail: {to, ask, kind, ...response}}));
  });
  dispatchEvent(new CustomEvent("nbdebug-opened"));
}"""


@pytest.fixture
def lr_range_page(page: Any, tmp_path: Path) -> Any:
    """A page that sends requests to its result."""
    file = tmp_path / "page.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(lr_range_view(), "result"), encoding="utf-8")
    page.goto(file.as_uri())
    page.get_by_role("slider").wait_for()
    return page


def handle_value(page: Any) -> float:
    """The value of the handle."""
    return float(page.get_by_role("slider").get_attribute("aria-valuenow"))


def test_lr_range_page_is_below_60_kb() -> None:
    assert len(static_html(lr_range_view(5))) < 60_000


def test_lr_range_page_without_scripts_contains_all_results(open_page: OpenPage) -> None:
    text = open_page(lr_range_view(), scripts=False).locator("body").inner_text()
    for expected in ("about 0.021", "200 times lower", "steepest", "0.018 to 0.024", "91 steps", "OneCycleLR"):
        assert expected in text


def test_handle_drag_reads_loss_and_slope_at_the_pointer(open_page: OpenPage) -> None:
    page = open_page(lr_range_view(1, sweeps=[make_sweep(0, ended="finished")]))
    assert handle_value(page) == 0.021
    box = page.get_by_role("slider").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] - 200, box["y"] + 60, steps=3)
    page.mouse.up()
    value = handle_value(page)
    assert value < 0.01
    loss = loss_at_rate(value)
    slope = (loss_at_rate(value * 1.1) - loss_at_rate(value / 1.1)) / (2 * math.log10(1.1))
    reading = page.locator(".nb-reading").inner_text().replace("\N{MINUS SIGN}", "-")
    match = re.search(r"loss (\S+), slope (\S+) a decade", reading)
    assert match
    assert float(match[1]) == pytest.approx(loss, abs=0.02)
    assert float(match[2]) == pytest.approx(slope, abs=0.05)
    assert str(value) in page.locator("code").first.inner_text()


def test_handle_moves_by_suggestion_names_and_keys(open_page: OpenPage) -> None:
    page = open_page(lr_range_view())
    page.get_by_role("button", name="steepest").click()
    assert handle_value(page) == 6e-4
    slider = page.get_by_role("slider")
    slider.press("ArrowRight")
    assert handle_value(page) > 6e-4
    for key, end in (("Home", 1e-7), ("End", 10.0)):
        slider.press(key)
        assert handle_value(page) == pytest.approx(end, rel=0.01)
    assert "no loss measured" in page.locator(".nb-reading").inner_text()


@pytest.mark.parametrize("fields", [{"recommended": None, "suggestions": []}, {"sweeps": []}])
def test_lr_range_view_without_recommendation_or_sweeps_is_readable(
    open_page: OpenPage, fields: dict[str, Any]
) -> None:
    page = open_page(lr_range_view(verdict="flat", headline="No information.", **fields))
    assert handle_value(page) == (1e-4 if "recommended" in fields else 0.021)
    assert "No information." in page.locator(".nb-banner").inner_text()
    assert len(canvas_colors(page.locator(".nb-plot canvas"))) > 3


@pytest.mark.parametrize("width", [280, 420, 900])
def test_place_labels_without_overlap_and_within_width(page: Any, width: int) -> None:
    page.evaluate(IMPORT_MODULE, inline_module(PACKAGE_FOLDER / "tools/lr_range/range_chart.js"))
    for spread in (1, 7, 30, 120):
        flags = [{"at": 40 + spread * i * (1 + i % 3) % (width - 40), "wide": 40 + 17 * (i % 5)} for i in range(7)]
        positions = page.evaluate("([flags, width]) => chart.placeLabels(flags, 30, width)", [flags, width])
        assert len(positions) == 7
        for label, other_label in combinations(positions, 2):
            separate = (
                label["start"] + label["wide"] < other_label["start"]
                or other_label["start"] + other_label["wide"] < label["start"]
            )
            assert separate or label["row"] != other_label["row"]
        assert all(label["start"] >= 30 and label["start"] + label["wide"] <= width for label in positions)


def test_place_labels_with_enough_space_uses_lowest_row(page: Any) -> None:
    page.evaluate(IMPORT_MODULE, inline_module(PACKAGE_FOLDER / "tools/lr_range/range_chart.js"))
    flags = [{"at": 100 * i, "wide": 60} for i in range(1, 6)]
    assert [label["row"] for label in page.evaluate("flags => chart.placeLabels(flags, 30, 900)", flags)] == [0] * 5


def test_read_curves_is_median_of_sweeps_at_value(page: Any) -> None:
    page.evaluate(IMPORT_MODULE, inline_module(PACKAGE_FOLDER / "tools/lr_range/range_chart.js"))
    lines = [{"x": [0.01, 0.1, 1], "y": [3 + i, 2 + i, 1 + i]} for i in (0, 1, 5)] + [
        {"x": [0.01], "y": [9]},
        {"x": [], "y": []},
    ]
    reading = page.evaluate("lines => chart.readCurves(lines, 10 ** -1.5, true)", lines)
    assert reading == pytest.approx({"count": 3, "loss": 3.5, "low": 2.5, "high": 7.5, "slope": -1})
    assert page.evaluate("lines => chart.readCurves(lines, 2, true)", lines)["loss"] is None
    assert page.evaluate("lines => chart.readCurves(lines, 0.055, false).slope", lines) == pytest.approx(-1 / 0.09)
    assert page.evaluate("lines => chart.seedBand(lines)", lines)[0] == {"x": 0.01, "low": 3, "high": 9}


def test_confirmation_runs_are_drawn_and_listed_and_their_rates_move_handle(open_page: OpenPage) -> None:
    page = open_page(confirmed_view(), width=320)
    assert len(canvas_colors(page.locator(".nb-trial canvas"))) > 3
    rows = page.locator(".nb-trial tbody tr").all_inner_texts()
    assert [row.split("\t")[-1].strip() for row in rows] == ["✕ diverged", "✓ kept", "clearly worse"]
    assert "±" in rows[2]
    page.locator(".nb-trial").get_by_role("button", name="0.0148").last.click()
    assert handle_value(page) == 0.0148
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    text = open_page(confirmed_view(), scripts=False).locator("body").inner_text()
    assert "Lowered from 0.03 to 0.021" in text
    assert "clearly worse" in text


def test_live_confirmation_rows_extend_their_own_curve(page: Any) -> None:
    view = LrRangeView(seeds=[0], span=(1e-3, 1.0), sweeps=[make_sweep(0)], trying=0.021, stoppable=True)
    live = LivePage(page, view)
    assert page.locator(".nb-trial").is_visible()
    live.send_rows(0, [view.append({"training": 0, "step": i, "loss": 2.0 - i, "smooth": 2.0}) for i in (0, 1)])
    assert page.evaluate("state.trained") == view.state()["trained"]
    assert page.evaluate("state.trained[0].x") == [0, 1]
    assert page.evaluate("state.lines") == view.state()["lines"]


def test_live_sweep_rows_give_the_curves_of_the_state(page: Any) -> None:
    view = LrRangeView(seeds=[0, 1], span=(1e-3, 1.0), stoppable=True, status="sweep 1 of 2")
    live = LivePage(page, view)
    assert page.get_by_role("slider").count() == 0
    rows = [{"sweep": i, "value": 0.125, "loss": 2.0, "smooth": 1.5} for i in (0, 0, 1)]
    live.send_rows(0, [view.append(row) for row in rows])
    assert page.evaluate("state.lines") == view.state()["lines"]
    assert page.get_by_text("sweep 1 of 2").is_visible()
    assert page.locator("code").is_hidden()
    page.locator(".nb-stop").click()
    assert page.evaluate("messages") == [{"kind": "stop"}]


def test_use_button_sends_rate_and_shows_answer_of_python(lr_range_page: Any) -> None:
    assert lr_range_page.locator(".nb-use").is_hidden()
    lr_range_page.evaluate(FAKE_KERNEL)
    lr_range_page.evaluate("answer = {said: 'lr is 0.021 now.', current: 0.021}")
    lr_range_page.get_by_role("button", name="Use 0.021").click()
    assert lr_range_page.get_by_text("lr is 0.021 now.").is_visible()
    requests = lr_range_page.evaluate("requests")
    assert requests[0] == {"to": "result", "kind": "hello"}
    assert requests[1] == {"to": "result", "kind": "use", "value": 0.021, "ask": requests[1]["ask"]}
    assert lr_range_page.get_by_text("200 times lower").count() == 0
    assert lr_range_page.locator("code").first.is_hidden()


def test_use_button_shows_trouble_of_python(lr_range_page: Any) -> None:
    lr_range_page.evaluate(FAKE_KERNEL)
    lr_range_page.evaluate("answer = {trouble: 'SetupError: optimizer is none of yours'}")
    lr_range_page.locator(".nb-use").click()
    assert lr_range_page.get_by_text("optimizer is none of yours").is_visible()
    assert lr_range_page.get_by_text("200 times lower").is_visible()


def test_use_button_without_answer_waits_and_sends_one_request(lr_range_page: Any) -> None:
    lr_range_page.evaluate(FAKE_KERNEL)
    lr_range_page.evaluate("answer = null")
    lr_range_page.locator(".nb-use").click()
    lr_range_page.get_by_text("Waiting for the cell").wait_for()
    lr_range_page.locator(".nb-use").dispatch_event("click")
    assert lr_range_page.evaluate("requests.length") == 2
    lr_range_page.evaluate("kernelAlive = false; dispatchEvent(new CustomEvent('nbdebug-closed'))")
    assert lr_range_page.locator(".nb-use").is_hidden()
    assert lr_range_page.get_by_text("Waiting").count() == 0
    assert lr_range_page.locator("code").first.is_visible()
