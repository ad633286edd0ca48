"""The error browser in Chromium, answered by the real result: from a click to the samples behind it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbdebug.tools.errors import Errors

from .errors import browser_of, cell, opened

BROKEN = """() => addEventListener("nbdebug-ask", ({detail: {to, ask, kind}}) => {
  dispatchEvent(new CustomEvent("nbdebug-answer", {detail: {to, ask, kind, trouble: "SetupError: no"}}));
})"""


@pytest.fixture
def result() -> Errors:
    """Three classes, 300 pictures."""
    return browser_of()


@pytest.fixture
def page(page: Any, result: Errors, tmp_path: Path) -> Any:
    """Its page, answered by it."""
    return opened(page, result, tmp_path)


def rows(page: Any) -> list[int]:
    """The samples in the gallery, in order."""
    labels = page.locator(".nb-e-card").evaluate_all("all => all.map((one) => one.ariaLabel)")
    return [int(one.split(",")[0].removeprefix("sample ")) for one in labels]


def shows(page: Any, text: str) -> None:
    """Waits for the words over the gallery."""
    page.locator(".nb-e-chips").get_by_text(text, exact=True).wait_for()


def total(page: Any, count: int) -> None:
    """Waits until the gallery has so many samples."""
    page.wait_for_function(
        "n => document.querySelector('.nb-e-pages').textContent.endsWith(` of ${n}`)", arg=f"{count:,}"
    )


def click(page: Any, row: int, column: int, **how: Any) -> None:
    """A click in a cell."""
    page.mouse.move(*cell(page, row, column))
    page.mouse.click(*cell(page, row, column), **how)


def test_it_opens_with_the_worst_of_the_wrong_ones(page: Any, result: Errors) -> None:
    wrong = result.rows(right=False, count=300)
    total(page, len(wrong))
    losses = result.table.columns["loss"][rows(page)]
    assert (np.diff(losses) <= 0).all()
    assert not result.table.right[rows(page)].any()
    assert len(rows(page)) == 24


def test_a_click_in_a_cell_brings_its_samples_the_worst_first(page: Any, result: Errors) -> None:
    click(page, 2, 0)
    shows(page, "target class 2 → class 0")
    count = int(result.table.grid.counts[2, 0])
    total(page, count)
    found = rows(page)
    assert (result.table.target[found] == 2).all()
    assert (result.table.prediction[found] == 0).all()
    losses = result.table.columns["loss"]
    assert (np.diff(losses[found]) <= 0).all()
    assert losses[found[0]] == losses[result.table.rows_in_cell(2, 0)].max()


def test_shift_and_a_drag_take_several_cells(page: Any, result: Errors) -> None:
    counts = result.table.grid.counts
    click(page, 2, 0)
    page.keyboard.down("Shift")
    click(page, 0, 1)
    page.keyboard.up("Shift")
    shows(page, "2 cells")
    total(page, int(counts[2, 0] + counts[0, 1]))
    page.mouse.move(*cell(page, 0, 1))
    page.mouse.down()
    page.mouse.move(*cell(page, 1, 2), steps=4)
    page.mouse.up()
    shows(page, "target class 0 to class 1 → class 1 to class 2")
    total(page, int(counts[0:2, 1:3].sum()))


def test_a_name_takes_its_row_or_its_column(page: Any, result: Errors) -> None:
    counts = result.table.grid.counts
    look = page.locator(".nb-e-stage").bounding_box()
    page.mouse.click(look["x"] + 40, cell(page, 1, 0)[1])
    shows(page, "target class 1")
    total(page, int(counts[1].sum()))
    page.mouse.click(cell(page, 0, 2)[0], look["y"] + 25)
    shows(page, "prediction class 2")
    total(page, int(counts[:, 2].sum()))


def test_keys_walk_the_cells_and_enter_shows_them(page: Any, result: Errors) -> None:
    counts = result.table.grid.counts
    page.locator(".nb-e-stage").focus()
    for key in ("ArrowRight", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    assert page.locator(".nb-e-stage .nb-tip").inner_text().startswith("target class 1 → prediction class 1")
    page.keyboard.press("Enter")
    shows(page, "target class 1 → class 1")
    total(page, int(counts[1, 1]))
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Enter")
    shows(page, "target class 1 → class 1 to class 2")
    total(page, int(counts[1, 1:3].sum()))


def test_the_pointer_tells_what_a_cell_is(page: Any, result: Errors) -> None:
    page.mouse.move(*cell(page, 0, 2))
    counts = result.table.grid.counts
    said = page.locator(".nb-e-stage .nb-tip").inner_text()
    assert "target class 0 → prediction class 2" in said
    assert f"{counts[0, 2]} samples" in said
    of_row, of_column = (round(100 * counts[0, 2] / counts.sum(axis)[at]) for axis, at in ((1, 0), (0, 2)))
    assert f"{of_row}% of target class 0, {of_column}% of prediction class 2" in said


def test_a_pair_in_the_list_brings_its_samples(page: Any, result: Errors) -> None:
    wrong = result.table.grid.counts * (1 - np.eye(3, dtype=int))
    i, j = divmod(int(wrong.argmax()), 3)
    first = page.locator(".nb-e-pair").first
    assert str(wrong.max()) in first.inner_text()
    first.click()
    shows(page, f"target class {i} → class {j}")
    total(page, int(wrong.max()))
    assert first.get_attribute("aria-current") == "true"


def test_pages_are_turned_by_buttons_and_keys(page: Any, result: Errors) -> None:
    page.get_by_role("button", name="all", exact=True).click()
    total(page, 300)
    order = list(np.argsort(-result.table.columns["loss"], kind="stable"))
    page.get_by_role("button", name="next page").click()
    page.get_by_text("25–48 of 300").wait_for()
    assert rows(page) == order[24:48]
    page.locator(".nb-e-card").first.focus()
    page.keyboard.press("PageDown")
    page.get_by_text("49–72 of 300").wait_for()
    assert page.evaluate("document.activeElement.classList.contains('nb-e-card')")
    page.keyboard.press("PageUp")
    page.get_by_text("25–48 of 300").wait_for()
    page.get_by_label("samples per page").select_option("100")
    page.get_by_text("1–100 of 300").wait_for()
    assert rows(page) == order[:100]


def test_it_sorts_by_any_column_both_ways(page: Any, result: Errors) -> None:
    page.get_by_role("button", name="all", exact=True).click()
    page.get_by_label("sort by").select_option("size")
    page.wait_for_function("document.querySelector('.nb-e-value').textContent.startsWith('size')")
    size = result.table.columns["size"]
    assert rows(page) == list(np.argsort(-size)[:24])
    page.get_by_role("button", name="highest first").click()
    page.wait_for_function(
        "n => document.querySelector('.nb-e-card').ariaLabel.startsWith(`sample ${n},`)", arg=int(size.argmin())
    )
    assert rows(page) == list(np.argsort(size)[:24])


def test_ranges_and_values_of_columns_are_filters_with_chips(page: Any, result: Errors) -> None:
    size, site, right = result.table.columns["size"], result.table.columns["site"], result.table.right
    page.get_by_label("filter by a column").select_option("size")
    page.get_by_label("lowest size").fill("50")
    page.get_by_label("lowest size").press("Enter")
    shows(page, "size ≥ 50")
    total(page, int((~right & (size >= 50)).sum()))
    page.get_by_label("filter by a column").select_option("site")
    page.get_by_label("south").check()
    shows(page, "site = south")
    total(page, int((~right & (size >= 50) & (site == "south")).sum()))
    page.get_by_role("button", name="remove wrong").click()
    total(page, int(((size >= 50) & (site == "south")).sum()))
    page.get_by_role("button", name="remove size ≥ 50").click()
    total(page, int((site == "south").sum()))
    page.get_by_role("button", name="remove site = south").click()
    page.get_by_text("all 300 samples").wait_for()


def test_a_bar_of_a_histogram_is_a_range(page: Any, result: Errors) -> None:
    page.get_by_label("filter by a column").select_option("size")
    bar = page.locator(".nb-e-bars i").nth(12)
    low, high = (float(one) for one in bar.get_attribute("title").split(":")[0].split(" to "))
    bar.click()
    page.locator(".nb-e-chip", has_text="size").wait_for()
    size = result.table.columns["size"]
    assert page.evaluate("asked.at(-1).query.ranges.size") == pytest.approx([low, high], rel=1e-3)
    assert (size[rows(page)] >= low - 0.1).all()


def test_what_is_written_in_an_order_is_drawn_in_it(page: Any) -> None:
    before = page.locator(".nb-e-stage canvas").evaluate("node => node.toDataURL()")
    page.get_by_label("order of the classes").select_option("errors")
    page.wait_for_function("before => document.querySelector('.nb-e-stage canvas').toDataURL() !== before", arg=before)
    page.get_by_role("button", name="row %").click()
    assert page.get_by_role("button", name="row %").get_attribute("aria-pressed") == "true"


def test_a_question_that_python_cannot_answer_is_told(page: Any) -> None:
    page.evaluate(BROKEN)
    page.get_by_role("button", name="all", exact=True).click()
    page.get_by_text("SetupError: no").wait_for()
