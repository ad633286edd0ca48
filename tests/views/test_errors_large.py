"""The error browser with many classes and many samples: small pages, quick clicks, cells that can be found."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from nbdebug.predictions.table import Grid
from nbdebug.tools.errors.tool import errors_from_predictions
from nbdebug.tools.errors.view import grid_state, sparse_cells
from nbdebug.views.page import static_html, to_script_json

from .errors import browser_of, cell, opened
from .test_errors_page import shows


def many(classes: int, rows: int) -> Any:
    """Labels of many classes, of which two of three are right and the rest go anywhere."""
    rng = np.random.default_rng(0)
    targets = rng.integers(0, classes, rows)
    guesses = np.where(rng.random(rows) < 0.66, targets, rng.integers(0, classes, rows))
    names = [f"class {i:04d}" for i in range(classes)]
    return errors_from_predictions(guesses, targets, class_names=names, columns={"loss": rng.random(rows)})


def test_fifty_pictures_are_there_after_a_click(page: Any, tmp_path: Path) -> None:
    opened(page, browser_of(600, side=64), tmp_path)
    page.get_by_label("samples per page").select_option("50")
    for kind in ("right", "wrong"):
        page.locator(".nb-tab").filter(has_text=kind).click()
        right = "true" if kind == "right" else "false"
        page.wait_for_function(f"window.asked.length && asked.at(-1).query?.right === {right}")
        page.wait_for_function("document.querySelectorAll('.nb-e-card img').length === 50")


def test_a_million_samples_of_a_thousand_classes_are_a_small_page(page: Any, tmp_path: Path) -> None:
    result = many(1000, 1_000_000)
    view = result.view()
    assert len(to_script_json(view.state())) <= 600_000
    assert len(static_html(view).encode()) <= 1_000_000
    opened(page, result, tmp_path)
    page.locator(".nb-e-pair").first.click()
    page.wait_for_function(
        "document.querySelectorAll('.nb-e-chip').length === 1 && asked.at(-1).query.cells.length === 1"
    )


def test_a_cell_among_many_is_found_by_zoom_and_by_keys(page: Any, tmp_path: Path) -> None:
    result = many(300, 30_000)
    opened(page, result, tmp_path)
    stage = page.locator(".nb-e-stage")
    for _ in range(5):
        page.get_by_role("button", name="zoom in").click()
    page.wait_for_function("JSON.parse(document.querySelector('.nb-e-stage').dataset.look).zoom > 20")
    stage.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("PageDown")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert stage.locator(".nb-tip").inner_text().startswith("target class 0011 → prediction class 0003")
    page.keyboard.press("Enter")
    shows(page, "target class 0011 → class 0003")
    assert page.evaluate("asked.at(-1).query.cells") == [[11, 3]]
    page.get_by_role("button", name="zoom to the whole").click()
    page.wait_for_function("JSON.parse(document.querySelector('.nb-e-stage').dataset.look).zoom === 1")


def test_the_wheel_leaves_the_page_alone_until_the_cells_are_clicked(page: Any, tmp_path: Path) -> None:
    opened(page, many(300, 30_000), tmp_path)
    zoom = "() => JSON.parse(document.querySelector('.nb-e-stage').dataset.look).zoom"
    page.mouse.move(*cell(page, 150, 150, 300))
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(100)
    assert page.evaluate(zoom) == 1
    click_at = cell(page, 150, 150, 300)
    page.mouse.click(*click_at)
    page.mouse.wheel(0, -600)
    page.wait_for_function(f"({zoom})() > 2")


def test_names_of_classes_take_whole_rows_where_cells_were_left_out(page: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 9, (300, 300))
    cells, left_out = sparse_cells(counts)
    assert (len(cells) // 2, left_out) == (50_000, 40_000)
    where = np.cumsum(cells[::2])
    assert (counts.ravel()[where] == cells[1::2]).all()
    assert min(cells[1::2]) >= np.sort(counts.ravel())[40_000]


def test_an_overview_of_columns_that_are_no_classes(page: Any, tmp_path: Path) -> None:
    counts = np.array([[5, 1, 2], [0, 9, 4]])
    grid = Grid(
        counts, ("cat", "dog"), ("hit", "miss", "extra"), column_title="what", diagonal=False, correct_columns=(0,)
    )
    state = grid_state(grid)
    assert state["orders"] == {"errors": [1, 0]}
    assert [one[:3] for one in state["pairs"]] == [[1, 1, 9], [1, 2, 4], [0, 2, 2], [0, 1, 1]]
    view = browser_of().view()
    view.grid = grid
    encoded = base64.b64encode(f"<!doctype html><meta charset=utf-8>{static_html(view)}".encode()).decode()
    page.goto(f"data:text/html;base64,{encoded}")
    page.get_by_text("dog → miss").wait_for()
    assert json.loads(page.locator(".nb-e-stage").get_attribute("data-look"))["wide"] > 200


def test_a_click_on_the_names_asks_for_two_classes_too(page: Any, tmp_path: Path) -> None:
    opened(page, browser_of(200, classes=2), tmp_path)
    page.mouse.move(*cell(page, 0, 1, 2))
    page.mouse.click(*cell(page, 0, 1, 2))
    shows(page, "target class 0 → class 1")
