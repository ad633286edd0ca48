"""Tests of the error browser with many classes and many samples."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np

from nbdebug.predictions.table import Grid
from nbdebug.tools.errors.view import grid_state, sparse_cells
from nbdebug.views.page import static_html, to_script_json

from .error_browser_pages import (
    cell_position,
    click_cell,
    make_image_errors,
    make_many_class_errors,
    open_error_page,
    wait_for_filter,
)


def test_gallery_with_50_samples_per_page_shows_50_images_after_click(page: Any, tmp_path: Path) -> None:
    open_error_page(page, make_image_errors(600, side=64), tmp_path)
    page.get_by_label("samples per page").select_option("50")
    for kind in ("right", "wrong"):
        page.locator(".nb-tab").filter(has_text=kind).click()
        right = "true" if kind == "right" else "false"
        page.wait_for_function(f"window.requests.length && requests.at(-1).query?.right === {right}")
        page.wait_for_function("document.querySelectorAll('.nb-e-card img').length === 50")


def test_page_of_million_samples_and_thousand_classes_is_below_1_mb(page: Any, tmp_path: Path) -> None:
    result = make_many_class_errors(1000, 1_000_000)
    view = result.view()
    assert len(to_script_json(view.state())) <= 600_000
    assert len(static_html(view).encode()) <= 1_000_000
    open_error_page(page, result, tmp_path)
    page.locator(".nb-e-pair").first.click()
    page.wait_for_function(
        "document.querySelectorAll('.nb-e-chip').length === 1 && requests.at(-1).query.cells.length === 1"
    )


def test_matrix_of_300_classes_zooms_and_moves_by_keys(page: Any, tmp_path: Path) -> None:
    result = make_many_class_errors(300, 30_000)
    open_error_page(page, result, tmp_path)
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
    wait_for_filter(page, "target class 0011 → class 0003")
    assert page.evaluate("requests.at(-1).query.cells") == [[11, 3]]
    page.get_by_role("button", name="zoom to the whole").click()
    page.wait_for_function("JSON.parse(document.querySelector('.nb-e-stage').dataset.look).zoom === 1")


def test_matrix_wheel_zooms_only_after_click(page: Any, tmp_path: Path) -> None:
    open_error_page(page, make_many_class_errors(300, 30_000), tmp_path)
    zoom = "() => JSON.parse(document.querySelector('.nb-e-stage').dataset.look).zoom"
    page.mouse.move(*cell_position(page, 150, 150, (300, 300)))
    page.mouse.wheel(0, -300)
    page.wait_for_timeout(100)
    assert page.evaluate(zoom) == 1
    page.mouse.click(*cell_position(page, 150, 150, (300, 300)))
    page.mouse.wheel(0, -600)
    page.wait_for_function(f"({zoom})() > 2")


def test_sparse_cells_of_300_classes_keep_the_50000_largest_counts() -> None:
    rng = np.random.default_rng(0)
    counts = rng.integers(1, 9, (300, 300))
    cells, omitted_count = sparse_cells(counts)
    assert (len(cells) // 2, omitted_count) == (50_000, 40_000)
    indices = np.cumsum(cells[::2])
    assert (counts.ravel()[indices] == cells[1::2]).all()
    assert min(cells[1::2]) >= np.sort(counts.ravel())[40_000]


def test_grid_state_of_columns_without_diagonal_ranks_wrong_cells(page: Any) -> None:
    counts = np.array([[5, 1, 2], [0, 9, 4]])
    grid = Grid(
        counts, ("cat", "dog"), ("hit", "miss", "extra"), column_title="what", diagonal=False, correct_columns=(0,)
    )
    state = grid_state(grid)
    assert state["orders"] == {"errors": [1, 0]}
    assert [pair[:3] for pair in state["pairs"]] == [[1, 1, 9], [1, 2, 4], [0, 2, 2], [0, 1, 1]]
    view = make_image_errors().view()
    view.grid = grid
    encoded_page = base64.b64encode(f"<!doctype html><meta charset=utf-8>{static_html(view)}".encode()).decode()
    page.goto(f"data:text/html;base64,{encoded_page}")
    page.get_by_text("dog → miss").wait_for()
    assert json.loads(page.locator(".nb-e-stage").get_attribute("data-look"))["wide"] > 200


def test_matrix_click_of_two_classes_filters_by_cell(page: Any, tmp_path: Path) -> None:
    open_error_page(page, make_image_errors(200, classes=2), tmp_path)
    click_cell(page, 0, 1, (2, 2))
    wait_for_filter(page, "target class 0 → class 1")
