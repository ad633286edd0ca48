"""Tests of the page of the error browser with a kernel."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbdebug.tools.errors import Errors

from .error_browser_pages import (
    cell_position,
    click_cell,
    gallery_rows,
    open_error_page,
    wait_for_filter,
    wait_for_total,
)

ANSWER_TROUBLE = """() => addEventListener("nbdebug-ask", ({detail: {to, ask, kind}}) => {
  dispatchEvent(new CustomEvent("nbdebug-answer", {detail: {to, ask, kind, trouble: "SetupError: no"}}));
})"""


@pytest.fixture
def page(page: Any, errors: Errors, tmp_path: Path) -> Any:
    """The page of ``errors``."""
    return open_error_page(page, errors, tmp_path)


def test_error_page_opens_with_wrong_samples_by_descending_loss(page: Any, errors: Errors) -> None:
    wrong = errors.rows(right=False, count=300)
    wait_for_total(page, len(wrong))
    losses = errors.table.columns["loss"][gallery_rows(page)]
    assert (np.diff(losses) <= 0).all()
    assert not errors.table.right[gallery_rows(page)].any()
    assert len(gallery_rows(page)) == 24


def test_matrix_cell_click_shows_its_samples_by_descending_loss(page: Any, errors: Errors) -> None:
    click_cell(page, 2, 0)
    wait_for_filter(page, "target class 2 → class 0")
    count = int(errors.table.grid.counts[2, 0])
    wait_for_total(page, count)
    rows = gallery_rows(page)
    assert (errors.table.target[rows] == 2).all()
    assert (errors.table.prediction[rows] == 0).all()
    losses = errors.table.columns["loss"]
    assert (np.diff(losses[rows]) <= 0).all()
    assert losses[rows[0]] == losses[errors.table.rows_in_cell(2, 0)].max()


def test_matrix_shift_click_and_drag_select_several_cells(page: Any, errors: Errors) -> None:
    counts = errors.table.grid.counts
    click_cell(page, 2, 0)
    page.keyboard.down("Shift")
    click_cell(page, 0, 1)
    page.keyboard.up("Shift")
    wait_for_filter(page, "2 cells")
    wait_for_total(page, int(counts[2, 0] + counts[0, 1]))
    page.mouse.move(*cell_position(page, 0, 1))
    page.mouse.down()
    page.mouse.move(*cell_position(page, 1, 2), steps=4)
    page.mouse.up()
    wait_for_filter(page, "target class 0 to class 1 → class 1 to class 2")
    wait_for_total(page, int(counts[0:2, 1:3].sum()))


def test_matrix_class_name_click_selects_row_or_column(page: Any, errors: Errors) -> None:
    counts = errors.table.grid.counts
    stage = page.locator(".nb-e-stage").bounding_box()
    page.mouse.click(stage["x"] + 40, cell_position(page, 1, 0)[1])
    wait_for_filter(page, "target class 1")
    wait_for_total(page, int(counts[1].sum()))
    page.mouse.click(cell_position(page, 0, 2)[0], stage["y"] + 25)
    wait_for_filter(page, "prediction class 2")
    wait_for_total(page, int(counts[:, 2].sum()))


def test_matrix_arrow_keys_move_and_enter_shows_samples(page: Any, errors: Errors) -> None:
    counts = errors.table.grid.counts
    page.locator(".nb-e-stage").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".nb-e-stage .nb-tip").inner_text().startswith("target class 1 → prediction class 1")
    page.keyboard.press("Enter")
    wait_for_filter(page, "target class 1 → class 1")
    wait_for_total(page, int(counts[1, 1]))
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    wait_for_filter(page, "target class 1 → class 1 to class 2")
    wait_for_total(page, int(counts[1, 1:3].sum()))


def test_matrix_hover_shows_count_and_shares_of_cell(page: Any, errors: Errors) -> None:
    page.mouse.move(*cell_position(page, 0, 2))
    counts = errors.table.grid.counts
    tip = page.locator(".nb-e-stage .nb-tip").inner_text()
    assert "target class 0 → prediction class 2" in tip
    assert f"{counts[0, 2]} samples" in tip
    row_share, column_share = (round(100 * counts[0, 2] / counts.sum(axis)[at]) for axis, at in ((1, 0), (0, 2)))
    assert f"{row_share}% of target class 0, {column_share}% of prediction class 2" in tip


def test_confused_pair_click_shows_its_samples(page: Any, errors: Errors) -> None:
    wrong = errors.table.grid.counts * (1 - np.eye(3, dtype=int))
    i, j = divmod(int(wrong.argmax()), 3)
    first = page.locator(".nb-e-pair").first
    assert str(wrong.max()) in first.inner_text()
    first.click()
    wait_for_filter(page, f"target class {i} → class {j}")
    wait_for_total(page, int(wrong.max()))
    assert first.get_attribute("aria-current") == "true"


def test_gallery_pages_turn_by_buttons_and_keys(page: Any, errors: Errors) -> None:
    page.get_by_role("button", name="all", exact=True).click()
    wait_for_total(page, 300)
    order = list(np.argsort(-errors.table.columns["loss"], kind="stable"))
    page.get_by_role("button", name="next page").click()
    page.get_by_text("25–48 of 300").wait_for()
    assert gallery_rows(page) == order[24:48]
    page.locator(".nb-e-card").first.focus()
    page.keyboard.press("PageDown")
    page.get_by_text("49–72 of 300").wait_for()
    assert page.evaluate("document.activeElement.classList.contains('nb-e-card')")
    page.keyboard.press("PageUp")
    page.get_by_text("25–48 of 300").wait_for()
    page.get_by_label("samples per page").select_option("100")
    page.get_by_text("1–100 of 300").wait_for()
    assert gallery_rows(page) == order[:100]


def test_gallery_sorts_by_column_in_both_directions(page: Any, errors: Errors) -> None:
    page.get_by_role("button", name="all", exact=True).click()
    page.get_by_label("sort by").select_option("size")
    page.wait_for_function("document.querySelector('.nb-e-value').textContent.startsWith('size')")
    size = errors.table.columns["size"]
    assert gallery_rows(page) == list(np.argsort(-size)[:24])
    page.get_by_role("button", name="highest first").click()
    page.wait_for_function(
        "n => document.querySelector('.nb-e-card > .nb-unseen').textContent === `sample ${n}`", arg=int(size.argmin())
    )
    assert gallery_rows(page) == list(np.argsort(size)[:24])


def test_column_range_and_value_filters_combine_and_can_be_removed(page: Any, errors: Errors) -> None:
    size, site, right = errors.table.columns["size"], errors.table.columns["site"], errors.table.right
    page.get_by_label("filter by a column").select_option("size")
    page.get_by_label("lowest size").fill("50")
    page.get_by_label("lowest size").press("Enter")
    wait_for_filter(page, "size ≥ 50")
    wait_for_total(page, int((~right & (size >= 50)).sum()))
    page.get_by_label("filter by a column").select_option("site")
    page.get_by_label("south").check()
    wait_for_filter(page, "site = south")
    wait_for_total(page, int((~right & (size >= 50) & (site == "south")).sum()))
    page.get_by_role("button", name="remove wrong").click()
    wait_for_total(page, int(((size >= 50) & (site == "south")).sum()))
    page.get_by_role("button", name="remove size ≥ 50").click()
    wait_for_total(page, int((site == "south").sum()))
    page.get_by_role("button", name="remove site = south").click()
    page.get_by_text("all 300 samples").wait_for()


def test_histogram_bar_click_filters_by_its_range(page: Any, errors: Errors) -> None:
    page.get_by_label("filter by a column").select_option("size")
    bar = page.locator(".nb-e-bars i").nth(12)
    low, high = (float(number) for number in bar.get_attribute("title").split(":")[0].split(" to "))
    bar.click()
    page.locator(".nb-e-chip", has_text="size").wait_for()
    size = errors.table.columns["size"]
    assert page.evaluate("requests.at(-1).query.ranges.size") == pytest.approx([low, high], rel=1e-3)
    assert (size[gallery_rows(page)] >= low - 0.1).all()


def test_matrix_order_of_classes_and_row_percent_redraw(page: Any) -> None:
    before = page.locator(".nb-e-stage canvas").evaluate("node => node.toDataURL()")
    page.get_by_label("order of the classes").select_option("errors")
    page.wait_for_function("before => document.querySelector('.nb-e-stage canvas').toDataURL() !== before", arg=before)
    page.get_by_role("button", name="row %").click()
    assert page.get_by_role("button", name="row %").get_attribute("aria-pressed") == "true"


def test_error_page_shows_trouble_of_python(page: Any) -> None:
    page.evaluate(ANSWER_TROUBLE)
    page.get_by_role("button", name="all", exact=True).click()
    page.get_by_text("SetupError: no").wait_for()
