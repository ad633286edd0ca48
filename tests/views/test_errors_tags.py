"""Tests of selection, tags, notes and sample details in the error browser."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbdebug.tools.errors import Errors

from .error_browser_pages import gallery_rows, open_error_page, wait_for_total


@pytest.fixture
def page(page: Any, errors: Errors, tmp_path: Path) -> Any:
    """The page of ``errors``."""
    return open_error_page(page, errors, tmp_path)


def card(page: Any, i: int) -> Any:
    """A card of the gallery."""
    return page.locator(".nb-e-card").nth(i)


def wait_for_selection(page: Any, count: int) -> None:
    """Wait until Python knows that ``count`` samples are selected."""
    page.wait_for_function(
        "n => requests.findLast((request) => request.kind === 'select')?.rows.length === n", arg=count
    )


def test_gallery_selection_by_shift_control_and_check_box(page: Any, errors: Errors) -> None:
    rows = gallery_rows(page)
    card(page, 1).click(modifiers=["Control"])
    card(page, 4).click(modifiers=["Shift"])
    card(page, 8).locator(".nb-e-check").click()
    page.get_by_text("5 selected").wait_for()
    wait_for_selection(page, 5)
    assert errors.selected == [*rows[1:5], rows[8]]
    card(page, 2).click(modifiers=["Control"])
    page.get_by_text("4 selected").wait_for()
    page.get_by_role("button", name="Clear the selection").click()
    wait_for_selection(page, 0)
    assert errors.selected == []


def test_select_all_selects_every_sample_of_the_query(page: Any, errors: Errors) -> None:
    count = len(errors.rows(right=False, count=300))
    wait_for_total(page, count)
    card(page, 0).click(modifiers=["Control"])
    page.get_by_role("button", name=f"Select all {count}").click()
    page.get_by_text(f"{count} selected").wait_for()
    wait_for_selection(page, count)
    assert sorted(errors.selected) == sorted(errors.rows(right=False, count=300).index)
    assert not page.get_by_role("button", name="Select all").is_visible()
    page.get_by_role("group", name="tags", exact=True).get_by_role("button", name="ambiguous").click()
    page.get_by_role("button", name="Clear the selection").click()
    page.wait_for_function("() => requests.some((request) => request.kind === 'mark' && request.tag)")
    assert len(errors.tagged("ambiguous")) == count


def test_gallery_keys_move_select_and_tag(page: Any, errors: Errors) -> None:
    rows = gallery_rows(page)
    columns = page.locator(".nb-e-card").evaluate_all(
        "nodes => nodes.filter((node) => node.offsetTop === nodes[0].offsetTop).length"
    )
    card(page, 0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.keyboard.press("w")
    page.locator(".nb-e-tag").nth(1).wait_for()
    assert errors.tags.tagged("wrong label") == sorted(rows[columns : columns + 2])
    page.keyboard.press("w")
    page.wait_for_function("!document.querySelector('.nb-e-tag')")
    assert errors.tags.tagged() == []
    page.keyboard.press("Escape")
    wait_for_selection(page, 0)
    page.keyboard.press("a")
    page.locator(".nb-e-tag", has_text="ambiguous").wait_for()
    assert errors.tags.tagged("ambiguous") == [rows[columns + 1]]
    page.keyboard.press("Control+a")
    wait_for_selection(page, 24)
    assert set(errors.selected) == set(rows)


def test_selection_persists_between_gallery_pages(page: Any, errors: Errors) -> None:
    first = gallery_rows(page)[0]
    card(page, 0).click(modifiers=["Control"])
    page.get_by_role("button", name="next page").click()
    page.get_by_text("25–48 of").wait_for()
    second = gallery_rows(page)[3]
    card(page, 3).click(modifiers=["Control"])
    wait_for_selection(page, 2)
    assert errors.selected == [first, second]
    page.get_by_role("button", name="previous page").click()
    page.get_by_text("1–24 of").wait_for()
    assert card(page, 0).get_attribute("aria-selected") == "true"


def test_custom_tag_and_note_are_stored_and_filter_the_gallery(page: Any, errors: Errors) -> None:
    rows = gallery_rows(page)
    for i in (0, 1):
        card(page, i).click(modifiers=["Control"])
    page.get_by_label("own tag").fill("blurred")
    page.get_by_label("own tag").press("Enter")
    page.get_by_role("button", name="blurred").wait_for()
    page.get_by_label("note", exact=True).fill("look again")
    page.get_by_label("note", exact=True).press("Enter")
    page.locator(".nb-e-noted").nth(1).wait_for()
    assert errors.tagged("blurred")["note"].tolist() == ["look again"] * 2
    page.get_by_label("filter by a tag").select_option(label="blurred (2)")
    wait_for_total(page, 2)
    assert set(gallery_rows(page)) == set(rows[:2])
    page.locator(".nb-e-chip", has_text="tag blurred").wait_for()
    code = page.locator(".nb-e-lists pre").inner_text()
    assert 'dataset = result.without("blurred")' in code
    assert 'dbg.label_effect(errors=result, tag="blurred")' in code


def test_sample_detail_shows_all_columns_and_moves_by_keys(page: Any, errors: Errors) -> None:
    rows = gallery_rows(page)
    card(page, 2).click()
    detail = page.locator(".nb-e-detail")
    detail.locator(".nb-e-top-k").wait_for()
    assert f"sample {rows[2]}" in detail.inner_text()
    top_class = errors.table.top[rows[2], 0]
    assert detail.locator(".nb-e-top-k th").first.inner_text().startswith(f"class {top_class}")
    for name in (*errors.table.columns, "target", "prediction"):
        assert detail.locator("th", has_text=name).first.is_visible()
    assert page.locator(".nb-e-card").first.is_hidden()
    page.keyboard.press("ArrowRight")
    detail.get_by_text(f"sample {rows[3]}").wait_for()
    page.get_by_role("button", name="previous sample").click()
    detail.get_by_text(f"sample {rows[2]}").wait_for()
    page.keyboard.press("Escape")
    card(page, 2).wait_for()
    assert detail.is_hidden()
    assert page.evaluate("document.activeElement.classList.contains('nb-e-card')")
    page.keyboard.press("Enter")
    detail.wait_for()


def test_sample_detail_stores_tag_and_note(page: Any, errors: Errors) -> None:
    row = gallery_rows(page)[0]
    card(page, 0).click()
    detail = page.locator(".nb-e-detail")
    detail.locator(".nb-e-top-k").wait_for()
    page.keyboard.press("f")
    detail.locator(".nb-e-tag", has_text="fix later").wait_for()
    detail.get_by_label("note").fill("was a 7\nonce")
    detail.get_by_label("note").blur()
    page.wait_for_function("requests.some((request) => request.note)")
    detail.get_by_role("button", name="back", exact=False).first.click()
    page.locator(".nb-e-noted").wait_for()
    assert errors.tags.notes == {row: "was a 7\nonce"}
    assert errors.tags.tagged("fix later") == [row]


def test_tag_keys_in_note_field_type_text(page: Any, errors: Errors) -> None:
    card(page, 0).click()
    note = page.locator(".nb-e-detail").get_by_label("note")
    note.focus()
    page.keyboard.type("waf")
    assert note.input_value() == "waf"
    assert errors.tags.tagged() == []
