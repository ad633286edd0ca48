"""The range test in a browser: pointer and keys, labels that stay apart, live rows, what it asks of Python."""

from __future__ import annotations

import math
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from nbdebug.tools.lr_range.view import LrRangeView
from nbdebug.views.page import PACKAGE_FOLDER, inline_module, static_html

from . import sweeps
from .conftest import Open
from .test_live_modules import Page
from .test_pages import INK

LOADED = 'async source => { window.made = await import("data:text/javascript," + encodeURIComponent(source)); }'
KERNEL = """() => {
  window.asked = [];
  window.answer = {};
  window.alive = true;
  addEventListener("nbdebug-ask", ({detail}) => {
    asked.push(detail);
    const {to, ask, kind} = detail, said = kind === "hello" ? alive && {} : answer;
    if (said) dispatchEvent(new CustomEvent("nbdebug-answer", {detail: {to, ask, kind, ...said}}));
  });
  dispatchEvent(new CustomEvent("nbdebug-opened"));
}"""


@pytest.fixture
def asking(page: Any, tmp_path: Path) -> Any:
    """A page that knows the name of its result."""
    file = tmp_path / "page.html"
    file.write_text("<!doctype html><meta charset=utf-8>" + static_html(sweeps.lr_range(), "result"), encoding="utf-8")
    page.goto(file.as_uri())
    page.get_by_role("slider").wait_for()
    return page


def at(page: Any) -> float:
    """Where the handle stands."""
    return float(page.get_by_role("slider").get_attribute("aria-valuenow"))


def test_a_page_is_small() -> None:
    assert len(static_html(sweeps.lr_range(5))) < 60_000


def test_it_says_all_of_it_without_scripts(open_page: Open) -> None:
    text = open_page(sweeps.lr_range(), scripts=False).locator("body").inner_text()
    for said in ("about 0.021", "200 times lower", "steepest", "0.018 to 0.024", "91 steps", "OneCycleLR"):
        assert said in text


def test_a_drag_reads_loss_and_slope_where_the_pointer_is(open_page: Open) -> None:
    page = open_page(sweeps.lr_range(1, sweeps=[sweeps.sweep(0, ended="finished")]))
    assert at(page) == 0.021
    box = page.get_by_role("slider").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] - 200, box["y"] + 60, steps=3)
    page.mouse.up()
    value = at(page)
    assert value < 0.01
    loss = sweeps.loss_at(value)
    slope = (sweeps.loss_at(value * 1.1) - sweeps.loss_at(value / 1.1)) / (2 * math.log10(1.1))
    said = page.locator(".nb-reading").inner_text().replace("\N{MINUS SIGN}", "-")
    read = re.search(r"loss (\S+), slope (\S+) a decade", said)
    assert read
    assert float(read[1]) == pytest.approx(loss, abs=0.02)
    assert float(read[2]) == pytest.approx(slope, abs=0.05)
    assert str(value) in page.locator("code").first.inner_text()


def test_keys_and_the_names_of_suggestions_move_the_handle(open_page: Open) -> None:
    page = open_page(sweeps.lr_range())
    page.get_by_role("button", name="steepest").click()
    assert at(page) == 6e-4
    slider = page.get_by_role("slider")
    slider.press("ArrowRight")
    assert at(page) > 6e-4
    for key, end in (("Home", 1e-7), ("End", 10.0)):
        slider.press(key)
        assert at(page) == pytest.approx(end, rel=0.01)
    assert "no loss measured" in page.locator(".nb-reading").inner_text()


@pytest.mark.parametrize("given", [{"recommended": None, "suggestions": []}, {"sweeps": []}])
def test_without_an_answer_the_curves_can_be_read_all_the_same(open_page: Open, given: dict[str, Any]) -> None:
    page = open_page(sweeps.lr_range(verdict="flat", headline="No information.", **given))
    assert at(page) == (1e-4 if "recommended" in given else 0.021)
    assert "No information." in page.locator(".nb-banner").inner_text()
    assert page.locator(".nb-plot canvas").evaluate(INK) > 3


@pytest.mark.parametrize("width", [280, 420, 900])
def test_no_label_lies_on_another(page: Any, width: int) -> None:
    page.evaluate(LOADED, inline_module(PACKAGE_FOLDER / "tools/lr_range/range_chart.js"))
    for spread in (1, 7, 30, 120):
        flags = [{"at": 40 + spread * i * (1 + i % 3) % (width - 40), "wide": 40 + 17 * (i % 5)} for i in range(7)]
        placed = page.evaluate("([flags, width]) => made.placeLabels(flags, 30, width)", [flags, width])
        assert len(placed) == 7
        for one, other in combinations(placed, 2):
            apart = one["start"] + one["wide"] < other["start"] or other["start"] + other["wide"] < one["start"]
            assert apart or one["row"] != other["row"]
        assert all(one["start"] >= 30 and one["start"] + one["wide"] <= width for one in placed)


def test_labels_with_room_stand_in_the_lowest_row(page: Any) -> None:
    page.evaluate(LOADED, inline_module(PACKAGE_FOLDER / "tools/lr_range/range_chart.js"))
    flags = [{"at": 100 * i, "wide": 60} for i in range(1, 6)]
    assert [one["row"] for one in page.evaluate("flags => made.placeLabels(flags, 30, 900)", flags)] == [0] * 5


def test_a_reading_is_the_median_of_the_sweeps_that_came_so_far(page: Any) -> None:
    page.evaluate(LOADED, inline_module(PACKAGE_FOLDER / "tools/lr_range/range_chart.js"))
    lines = [{"x": [0.01, 0.1, 1], "y": [3 + i, 2 + i, 1 + i]} for i in (0, 1, 5)] + [
        {"x": [0.01], "y": [9]},
        {"x": [], "y": []},
    ]
    read = page.evaluate("lines => made.readCurves(lines, 10 ** -1.5, true)", lines)
    assert read == pytest.approx({"count": 3, "loss": 3.5, "low": 2.5, "high": 7.5, "slope": -1})
    assert page.evaluate("lines => made.readCurves(lines, 2, true)", lines)["loss"] is None
    assert page.evaluate("lines => made.readCurves(lines, 0.055, false).slope", lines) == pytest.approx(-1 / 0.09)
    assert page.evaluate("lines => made.seedBand(lines)", lines)[0] == {"x": 0.01, "low": 3, "high": 9}


def test_trainings_are_drawn_and_told_and_their_rates_move_the_handle(open_page: Open) -> None:
    page = open_page(sweeps.confirmed(), width=320)
    assert page.locator(".nb-trial canvas").evaluate(INK) > 3
    rows = page.locator(".nb-trial tbody tr").all_inner_texts()
    assert [row.split("\t")[-1].strip() for row in rows] == ["✕ diverged", "✓ kept", "clearly worse"]
    assert "±" in rows[2]
    page.locator(".nb-trial").get_by_role("button", name="0.0148").last.click()
    assert at(page) == 0.0148
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    told = open_page(sweeps.confirmed(), scripts=False).locator("body").inner_text()
    assert "Lowered from 0.03 to 0.021" in told
    assert "clearly worse" in told


def test_rows_of_a_training_come_to_its_own_curve(page: Any) -> None:
    view = LrRangeView(seeds=[0], span=(1e-3, 1.0), sweeps=[sweeps.sweep(0)], trying=0.021, stoppable=True)
    live = Page(page, view)
    assert page.locator(".nb-trial").is_visible()
    live.rows(0, [view.append({"training": 0, "step": i, "loss": 2.0 - i, "smooth": 2.0}) for i in (0, 1)])
    assert page.evaluate("state.trained") == view.state()["trained"]
    assert page.evaluate("state.trained[0].x") == [0, 1]
    assert page.evaluate("state.lines") == view.state()["lines"]


def test_rows_that_arrive_make_the_same_curves_as_the_state(page: Any) -> None:
    view = LrRangeView(seeds=[0, 1], span=(1e-3, 1.0), stoppable=True, status="sweep 1 of 2")
    live = Page(page, view)
    assert page.get_by_role("slider").count() == 0
    rows = [{"sweep": i, "value": 0.125, "loss": 2.0, "smooth": 1.5} for i in (0, 0, 1)]
    live.rows(0, [view.append(row) for row in rows])
    assert page.evaluate("state.lines") == view.state()["lines"]
    assert page.get_by_text("sweep 1 of 2").is_visible()
    assert page.locator("code").is_hidden()
    page.locator(".nb-stop").click()
    assert page.evaluate("sent") == [{"kind": "stop"}]


def test_a_click_asks_python_and_shows_what_it_answers(asking: Any) -> None:
    assert asking.locator(".nb-use").is_hidden()
    asking.evaluate(KERNEL)
    asking.evaluate("answer = {said: 'lr is 0.021 now.', current: 0.021}")
    asking.get_by_role("button", name="Use 0.021").click()
    assert asking.get_by_text("lr is 0.021 now.").is_visible()
    asked = asking.evaluate("asked")
    assert asked[0] == {"to": "result", "kind": "hello"}
    assert asked[1] == {"to": "result", "kind": "use", "value": 0.021, "ask": asked[1]["ask"]}
    assert asking.get_by_text("200 times lower").count() == 0
    assert asking.locator("code").first.is_hidden()


def test_what_python_could_not_do_is_said(asking: Any) -> None:
    asking.evaluate(KERNEL)
    asking.evaluate("answer = {trouble: 'SetupError: optimizer is none of yours'}")
    asking.locator(".nb-use").click()
    assert asking.get_by_text("optimizer is none of yours").is_visible()
    assert asking.get_by_text("200 times lower").is_visible()


def test_an_answer_that_does_not_come_is_waited_for_once(asking: Any) -> None:
    asking.evaluate(KERNEL)
    asking.evaluate("answer = null")
    asking.locator(".nb-use").click()
    asking.get_by_text("Waiting for the cell").wait_for()
    asking.locator(".nb-use").dispatch_event("click")
    assert asking.evaluate("asked.length") == 2
    asking.evaluate("alive = false; dispatchEvent(new CustomEvent('nbdebug-closed'))")
    assert asking.locator(".nb-use").is_hidden()
    assert asking.get_by_text("Waiting").count() == 0
    assert asking.locator("code").first.is_visible()
