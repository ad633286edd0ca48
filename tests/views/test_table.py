"""The table in a real browser: folded, sorted, filtered, asked for more, and walked through by the keyboard."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nbdebug.rules.examples import classifier
from nbdebug.tools.summary import summary
from nbdebug.views.page import static_html, to_script_json
from nbdebug.views.table import Column, FoldableTable, TableRow, TextCell, format_percent, limit_rows

from . import samples
from .conftest import Open
from .test_live_modules import Page

CONTRAST = """() => {
  const paper = document.querySelector(".nbdebug").appendChild(document.createElement("i"));
  paper.style.color = "var(--nb-paper)";
  const channel = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (layers) => {
    pen.clearRect(0, 0, 1, 1);
    for (const one of layers) { pen.fillStyle = one; pen.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((v) => channel(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const worst = (node) => {
    const under = [getComputedStyle(paper).color];
    for (let one = node; one; one = one.parentElement) under.unshift(getComputedStyle(one).backgroundColor);
    const behind = light([...under]), ink = light([...under, getComputedStyle(node).color]);
    return (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
  };
  const words = [...document.querySelectorAll(".nbdebug *")].filter((node) =>
    node.checkVisibility() && [...node.childNodes].some((one) => one.nodeType === 3 && one.data.trim()));
  return Math.min(...words.map(worst));
}"""


def names(page: Any) -> list[str]:
    """The names of the rows that are there, in order."""
    return list(page.locator(".nb-row .nb-name b").all_inner_texts())


def row(page: Any, name: str) -> Any:
    """The first row of a name."""
    return page.locator(".nb-row", has=page.locator(f".nb-name b:text-is('{name}')")).first


def sort(page: Any, heading: str) -> None:
    page.get_by_role("button", name=heading, exact=True).click()


def test_rows_hang_under_each_other_and_fold(open_page: Open) -> None:
    page = open_page(samples.table())
    assert names(page) == ["Net", "0", "0", "1", "2", "1", "0", "1", "2"]
    row(page, "0").locator(".nb-chevron").click()
    assert names(page) == ["Net", "0", "1", "0", "1", "2"]
    assert row(page, "0").get_attribute("aria-expanded") == "false"
    assert "6 of 9 rows" in page.locator(".nb-tools").inner_text()
    page.get_by_role("button", name="Unfold all").click()
    assert len(names(page)) == 9
    page.get_by_role("button", name="Fold all").click()
    assert names(page) == ["Net", "0", "1"]


def test_sorted_rows_stand_side_by_side_with_their_whole_path(open_page: Open) -> None:
    page = open_page(samples.table())
    sort(page, "rate")
    assert "0.0 Linear" in page.locator(".nb-row .nb-name").first.inner_text()
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("rate")
    rates = page.locator(".nb-row td[data-label=rate]").all_inner_texts()
    assert rates == ["0.1", "0.05", "0.03333", "frozen", "frozen", "frozen", "", "", ""]
    sort(page, "rate")
    assert page.locator(".nb-row td[data-label=rate]").all_inner_texts()[:4] == [
        "frozen",
        "frozen",
        "frozen",
        "0.03333",
    ]
    sort(page, "rate")
    assert page.locator("th[aria-sort=none]").count() == 6
    assert names(page)[:3] == ["Net", "0", "0"]
    sort(page, "findings")
    assert page.locator(".nb-row .nb-mark").first.inner_text() == "✕ O503"
    assert "0.1 Linear" in page.locator(".nb-row .nb-name").first.inner_text()


def test_a_filter_shows_what_it_hits_and_all_above(open_page: Open) -> None:
    page = open_page(samples.table())
    page.get_by_role("button", name="Fold all").click()
    page.get_by_role("searchbox").fill("O503")
    assert names(page) == ["Net", "0", "1"]
    assert "3 of 9 rows" in page.locator(".nb-tools").inner_text()
    page.get_by_role("searchbox").fill("1.2 linear")
    assert names(page) == ["Net", "1", "2"]
    page.get_by_role("searchbox").fill("nothing of the kind")
    assert names(page) == []
    page.get_by_role("searchbox").fill("")
    assert names(page) == ["Net", "0", "1"]


def test_a_mark_tells_what_it_stands_for(open_page: Open) -> None:
    page = open_page(samples.table())
    mark = page.locator(".nb-mark")
    assert mark.get_attribute("title") == "parameter-not-optimized: No parameter group holds 0.1.weight."
    mark.click()
    told = page.locator(".nb-told")
    assert "O503 parameter-not-optimized: No parameter group holds" in told.inner_text()
    assert "[4, 4] n=16 x∈[-1, 1] μ=0 σ=0.5 f32" in told.inner_text()
    page.keyboard.press("Escape")
    assert told.count() == 0


def test_numbers_have_bars_and_shares_are_in_percent(open_page: Open) -> None:
    page = open_page(samples.table(1, 2))
    first = page.locator(".nb-row").first
    assert first.locator("td").all_inner_texts()[1:3] == ["40", "50%"]
    wide = page.locator("td[data-label=trainable] .nb-part").first.evaluate(
        "node => getComputedStyle(node).backgroundSize"
    )
    assert wide.startswith("50%")
    big = FoldableTable(
        columns=[Column("name"), Column("n", "number")], rows=[TableRow("a", [1_234_567]), TableRow("b", [-0.5])]
    )
    assert open_page(big).locator("td").all_inner_texts() == ["1,234,567", "\u22120.5"]


def test_the_keyboard_alone_reaches_all(open_page: Open) -> None:
    page = open_page(samples.table())
    focused = "document.activeElement.querySelector('.nb-name b')?.textContent"
    page.locator(".nb-row").first.focus()
    assert page.locator(".nb-row[tabindex='0']").count() == 1
    for key, name in [("ArrowDown", "0"), ("ArrowDown", "0"), ("ArrowDown", "1"), ("ArrowLeft", "0"), ("End", "2")]:
        page.keyboard.press(key)
        assert page.evaluate(focused) == name
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    assert len(names(page)) == 6
    page.keyboard.press("ArrowRight")
    assert len(names(page)) == 9
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".nb-told").count() == 1
    page.keyboard.press("Enter")
    assert page.locator(".nb-told").count() == 0
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == "Net"


def test_the_table_says_what_it_is_to_those_who_do_not_see_it(open_page: Open) -> None:
    page = open_page(samples.table())
    assert page.get_by_role("treegrid", name="Summary").count() == 1
    assert page.get_by_role("columnheader").count() == 6
    assert [one.get_attribute("aria-level") for one in page.locator(".nb-row").all()[:3]] == ["1", "2", "3"]
    assert page.get_by_role("searchbox", name="Filter").count() == 1


@pytest.mark.parametrize("width", [560, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_all_words_can_be_read_in_light_and_dark_narrow_and_wide(open_page: Open, width: int, dark: bool) -> None:
    view = samples.table()
    view.notice = ("The forward pass stopped.", "error")
    page = open_page(view, width=width, dark=dark)
    page.locator(".nb-mark").click()
    page.mouse.move(0, 0)
    assert page.evaluate(CONTRAST) >= 4.5
    frame = page.locator(".nb-frame")
    assert frame.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    tops = (
        row(page, "Net")
        .locator("th, td:not(.nb-empty)")
        .evaluate_all("all => new Set(all.map((one) => Math.round(one.getBoundingClientRect().top))).size")
    )
    assert (tops > 1) == (width == 560)


def test_thousands_of_rows_stay_quick(open_page: Open) -> None:
    columns = [Column("name"), Column("n", "number"), Column("mode")]
    view = FoldableTable("Many", columns=columns, rows=[TableRow("layer", [i, "train"]) for i in range(4000)])
    assert len(view.state()["table"]) == 4000
    assert len(static_html(view).encode()) <= 200_000
    page = open_page(view)
    assert page.locator(".nb-row").count() < 400
    page.locator("input").fill("399")
    page.wait_for_function("[...document.querySelectorAll('.nb-row')].every((one) => one.textContent.includes('399'))")
    page.locator("input").fill("")
    page.locator(".nb-sort").first.click()
    page.locator(".nb-row").first.focus()
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.textContent").startswith("layer3,999")


def test_scrolling_down_brings_the_rows_that_were_not_drawn(open_page: Open) -> None:
    page = open_page(FoldableTable("Many", columns=[Column("name")], rows=[TableRow(f"layer{i}") for i in range(600)]))
    drawn = page.locator(".nb-row").count()
    page.locator(".nb-frame").evaluate("node => node.scrollTo(0, node.scrollHeight)")
    page.wait_for_function(f"document.querySelectorAll('.nb-row').length > {drawn}")


def test_what_a_page_cannot_hold_goes_from_the_deepest(open_page: Open) -> None:
    view = samples.table(100, 400)
    state = view.state()
    assert len(to_script_json(state)) < 110_000
    assert {one[0] for one in state["table"]} == {0, 1}
    assert state["more"] == 40_000
    page = open_page(view)
    assert "… and 40,000 more rows at deeper levels." in page.locator(".nb-frame + .nb-note").inner_text()


def test_rows_too_many_for_a_page_lose_their_details_first() -> None:
    long = [("weight", f"text {i} " * 20) for i in range(4)]
    view = FoldableTable(columns=[Column("name")], rows=[TableRow(str(i), details=long) for i in range(1000)])
    assert [len(one) for one in view.state()["table"]] == [9] * 1000
    view.rows = [TableRow(str(i), details=[("weight", f"text {i} " * 20)]) for i in range(1000)]
    assert [len(one) for one in view.state()["table"]] == [5] * 1000


def test_fitting_keeps_whole_levels_then_the_first_rows() -> None:
    rows = samples.table().rows
    assert [one.level for one in limit_rows(rows, 9)] == [0, 1, 2, 2, 2, 1, 2, 2, 2]
    assert [one.level for one in limit_rows(rows, 8)] == [0, 1, 1]
    flat = [TableRow(str(i)) for i in range(5)]
    assert [one.name for one in limit_rows(flat, 3)] == ["0", "1", "2"]


@pytest.mark.parametrize(("share", "text"), [(0.0, "0%"), (0.001, "<1%"), (0.5, "50%"), (0.999, ">99%"), (1.0, "100%")])
def test_a_share_is_whole_only_where_it_is(open_page: Open, share: float, text: str) -> None:
    view = FoldableTable(columns=[Column("name"), Column("part", "share")], rows=[TableRow("a", [share])])
    assert format_percent(share) == text
    assert open_page(view).locator("td").inner_text().strip() == text


def test_without_scripts_it_is_a_plain_table_with_what_its_marks_tell(open_page: Open) -> None:
    page = open_page(samples.table(), scripts=False)
    plain = page.locator(".nb-plain")
    assert plain.locator("tr").count() == 10
    assert plain.locator("tr").nth(1).locator("td").all_inner_texts()[:4] == ["Net", "[8, 4] → [8, 3]", "120", "50%"]
    assert "0.1: O503: parameter-not-optimized" in plain.locator("li").inner_text()


def test_values_that_json_does_not_know_are_left_out() -> None:
    view = FoldableTable(
        columns=[Column("n"), Column("v", "number")],
        rows=[TableRow("a", [float("nan")]), TableRow("b", [TextCell("x", float("inf"))])],
    )
    state = view.state()
    json.dumps(state, allow_nan=False)
    assert state["table"][0][4] == [None]


def test_a_new_state_takes_the_place_of_the_old_one(page: Any) -> None:
    view = samples.table()
    live = Page(page, view)
    view.rows, view.status = view.rows[:2], "fewer"
    live.emit({"state": view.snapshot()})
    assert names(page) == ["Net", "0"]
    assert "fewer" in page.locator(".nb-status").inner_text()


def test_the_summary_of_a_model_is_such_a_page(open_page: Open) -> None:
    page = open_page(summary(classifier()).view())
    assert "parameters" in page.locator(".nb-status").inner_text()
    sort(page, "weight")
    assert page.locator(".nb-row").first.inner_text()
    page.locator(".nb-row").first.click()
    assert "x∈[" in page.locator(".nb-told").inner_text()
