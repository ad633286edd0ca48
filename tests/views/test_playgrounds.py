"""Tests of the page of a playground in a browser, with and without Python."""

from __future__ import annotations

from typing import Any

import pytest

import nbdebug
from nbdebug.playgrounds.play import Play

from .conftest import OpenPage
from .live_pages import LivePage


@pytest.fixture(scope="module")
def play() -> Play:
    return nbdebug.play("loss-curves")


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1200, False)])
def test_saved_playground_shows_charts_and_controls_that_do_not_move(
    open_page: OpenPage, play: Play, width: int, dark: bool
) -> None:
    page = open_page(play.view(), width=width, dark=dark)
    page.locator(".nb-charts canvas").wait_for()
    assert page.locator(".nb-control input:disabled").count() == 2
    assert 'nbdebug.play("loss-curves")' in page.locator(".nb-note[role=status]:not(.nb-banner)").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_playground_without_scripts_is_plain_html(open_page: OpenPage, play: Play) -> None:
    text = open_page(play.view(), scripts=False).locator(".nb-plain").inner_text()
    assert "What is behind this curve?" in text
    assert "validation" in text


def test_sliders_send_only_the_last_move_while_python_computes(page: Any, play: Play) -> None:
    live = LivePage(page, play.view())
    live.send({"kind": "hello"})
    page.locator(".nb-control input").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    moves = page.evaluate("messages.filter((message) => message.kind === 'set')")
    assert [move["positions"] for move in moves] == [{"example": [1]}]
    state = play.set({"example": 2}).view().state()
    live.send({"ask": moves[0]["ask"], "kind": "set", "state": state})
    moves = page.evaluate("messages.filter((message) => message.kind === 'set')")
    assert moves[-1]["positions"] == {"example": [3]}
    live.send({"ask": moves[-1]["ask"], "kind": "set", "state": play.set({"example": 4}).view().state()})
    assert page.locator(".nb-control b").first.inner_text() == "4"
    page.get_by_role("button", name="stalled").click()
    assert page.evaluate("messages.at(-1).cause") == "stalled"


def test_drawing_is_moved_by_pointer_and_keyboard(page: Any) -> None:
    play = nbdebug.play("shap")
    live = LivePage(page, play.view())
    live.send({"kind": "hello"})
    board = page.get_by_role("group", name="Draw the effect of x₁").locator(".nb-board")
    box = board.bounding_box()
    page.mouse.move(box["x"] + 4, box["y"] + 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] - 4, box["y"] + box["height"] - 2, steps=30)
    page.mouse.up()
    points = page.get_by_role("slider", name="Draw the effect of x₁: point")
    drawn = [int(point.input_value()) for point in points.all()]
    assert len(drawn) == 9
    assert drawn == sorted(drawn, reverse=True)
    assert drawn[0] - drawn[-1] >= 7  # the pointer moves down within each point
    points.last.press("ArrowUp")
    assert points.last.get_attribute("aria-valuetext") == "-0.75"
    moves = page.evaluate("messages.filter((message) => message.kind === 'set')")
    assert len(moves) == 1
    live.send({"ask": moves[0]["ask"], "kind": "set", "state": play.view().state()})
    last = page.evaluate("messages.at(-1).positions.drawing")
    assert last == [*drawn[:-1], 1]
