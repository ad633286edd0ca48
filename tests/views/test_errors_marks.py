"""What the user writes in the error browser: selection, tags, notes; and one sample in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbdebug.tools.errors import Errors

from .errors import browser_of, opened
from .test_errors_page import rows, total


@pytest.fixture
def result() -> Errors:
    """Three classes, 300 pictures."""
    return browser_of()


@pytest.fixture
def page(page: Any, result: Errors, tmp_path: Path) -> Any:
    """Its page, answered by it."""
    return opened(page, result, tmp_path)


def card(page: Any, i: int) -> Any:
    """One card of the gallery."""
    return page.locator(".nb-e-card").nth(i)


def selects(page: Any, count: int) -> None:
    """Waits until Python knows that so many are selected."""
    page.wait_for_function("n => asked.findLast((one) => one.kind === 'select')?.rows.length === n", arg=count)


def test_shift_and_control_and_the_corner_select(page: Any, result: Errors) -> None:
    shown = rows(page)
    card(page, 1).click(modifiers=["Control"])
    card(page, 4).click(modifiers=["Shift"])
    card(page, 8).locator(".nb-e-check").click()
    page.get_by_text("5 selected").wait_for()
    selects(page, 5)
    assert result.selected == [*shown[1:5], shown[8]]
    card(page, 2).click(modifiers=["Control"])
    page.get_by_text("4 selected").wait_for()
    page.get_by_role("button", name="Clear the selection").click()
    selects(page, 0)
    assert result.selected == []


def test_all_that_is_asked_for_is_selected_at_once(page: Any, result: Errors) -> None:
    count = len(result.rows(right=False, count=300))
    total(page, count)
    card(page, 0).click(modifiers=["Control"])
    page.get_by_role("button", name=f"Select all {count}").click()
    page.get_by_text(f"{count} selected").wait_for()
    selects(page, count)
    assert sorted(result.selected) == sorted(result.rows(right=False, count=300).index)
    assert not page.get_by_role("button", name="Select all").is_visible()
    page.get_by_role("group", name="tags", exact=True).get_by_role("button", name="ambiguous").click()
    page.get_by_role("button", name="Clear the selection").click()
    page.wait_for_function("() => asked.some((one) => one.kind === 'mark' && one.tag)")
    assert len(result.tagged("ambiguous")) == count


def test_keys_walk_select_and_tag(page: Any, result: Errors) -> None:
    shown = rows(page)
    broad = page.locator(".nb-e-card").evaluate_all(
        "all => all.filter((one) => one.offsetTop === all[0].offsetTop).length"
    )
    card(page, 0).focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Space")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Space")
    page.keyboard.press("w")
    page.locator(".nb-e-tag").nth(1).wait_for()
    assert result.tags.tagged("wrong label") == sorted(shown[broad : broad + 2])
    page.keyboard.press("w")
    page.wait_for_function("!document.querySelector('.nb-e-tag')")
    assert result.tags.tagged() == []
    page.keyboard.press("Escape")
    selects(page, 0)
    page.keyboard.press("a")
    page.locator(".nb-e-tag", has_text="ambiguous").wait_for()
    assert result.tags.tagged("ambiguous") == [shown[broad + 1]]
    page.keyboard.press("Control+a")
    selects(page, 24)
    assert set(result.selected) == set(shown)


def test_a_selection_is_kept_from_page_to_page(page: Any, result: Errors) -> None:
    first = rows(page)[0]
    card(page, 0).click(modifiers=["Control"])
    page.get_by_role("button", name="next page").click()
    page.get_by_text("25–48 of").wait_for()
    second = rows(page)[3]
    card(page, 3).click(modifiers=["Control"])
    selects(page, 2)
    assert result.selected == [first, second]
    page.get_by_role("button", name="previous page").click()
    page.get_by_text("1–24 of").wait_for()
    assert card(page, 0).get_attribute("aria-selected") == "true"


def test_own_tags_and_notes_are_written_and_found_again(page: Any, result: Errors) -> None:
    shown = rows(page)
    for i in (0, 1):
        card(page, i).click(modifiers=["Control"])
    page.get_by_label("own tag").fill("blurred")
    page.get_by_label("own tag").press("Enter")
    page.get_by_role("button", name="blurred").wait_for()
    page.get_by_label("note", exact=True).fill("look again")
    page.get_by_label("note", exact=True).press("Enter")
    page.locator(".nb-e-noted").nth(1).wait_for()
    assert result.tagged("blurred")["note"].tolist() == ["look again"] * 2
    page.get_by_label("filter by a tag").select_option(label="blurred (2)")
    total(page, 2)
    assert set(rows(page)) == set(shown[:2])
    page.locator(".nb-e-chip", has_text="tag blurred").wait_for()


def test_a_sample_opens_in_full_and_its_neighbors_are_a_key_away(page: Any, result: Errors) -> None:
    shown = rows(page)
    card(page, 2).click()
    detail = page.locator(".nb-e-detail")
    detail.locator(".nb-e-top-k").wait_for()
    assert f"sample {shown[2]}" in detail.inner_text()
    best = result.table.top[shown[2], 0]
    assert detail.locator(".nb-e-top-k th").first.inner_text().startswith(f"class {best}")
    for name in (*result.table.columns, "target", "prediction"):
        assert detail.locator("th", has_text=name).first.is_visible()
    assert page.locator(".nb-e-card").first.is_hidden()
    page.keyboard.press("ArrowRight")
    detail.get_by_text(f"sample {shown[3]}").wait_for()
    page.get_by_role("button", name="previous sample").click()
    detail.get_by_text(f"sample {shown[2]}").wait_for()
    page.keyboard.press("Escape")
    card(page, 2).wait_for()
    assert detail.is_hidden()
    assert page.evaluate("document.activeElement.classList.contains('nb-e-card')")
    page.keyboard.press("Enter")
    detail.wait_for()


def test_the_open_sample_takes_tags_and_a_note(page: Any, result: Errors) -> None:
    row = rows(page)[0]
    card(page, 0).click()
    detail = page.locator(".nb-e-detail")
    detail.locator(".nb-e-top-k").wait_for()
    page.keyboard.press("f")
    detail.locator(".nb-e-tag", has_text="fix later").wait_for()
    detail.get_by_label("note").fill("was a 7\nonce")
    detail.get_by_label("note").blur()
    page.wait_for_function("asked.some((one) => one.note)")
    detail.get_by_role("button", name="back", exact=False).first.click()
    page.locator(".nb-e-noted").wait_for()
    assert result.tags.notes == {row: "was a 7\nonce"}
    assert result.tags.tagged("fix later") == [row]


def test_letters_in_a_field_are_text(page: Any, result: Errors) -> None:
    card(page, 0).click()
    note = page.locator(".nb-e-detail").get_by_label("note")
    note.focus()
    page.keyboard.type("waf")
    assert note.input_value() == "waf"
    assert result.tags.tagged() == []
