"""Tests of the foldable table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from nbdebug.rules.examples import classifier
from nbdebug.tools.summary import summary
from nbdebug.views.page import static_html, to_script_json
from nbdebug.views.table import Column, FoldableTable, TableRow, TextCell, format_percent, limit_rows

from .conftest import OpenPage
from .live_pages import LivePage
from .sample_views import table_view

LOWEST_CONTRAST_RATIO = """() => {
  const paper = document.querySelector(".nbdebug").appendChild(document.createElement("i"));
  paper.style.color = "var(--nb-paper)";
  const channel = (v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const pen = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const light = (layers) => {
    pen.clearRect(0, 0, 1, 1);
    for (const color of layers) { pen.fillStyle = color; pen.fillRect(0, 0, 1, 1); }
    const [r, g, b] = [...pen.getImageData(0, 0, 1, 1).data].map((v) => channel(v / 255));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const worst = (node) => {
    const under = [getComputedStyle(paper).color];
    for (let at = node; at; at = at.parentElement) under.unshift(getComputedStyle(at).backgroundColor);
    const behind = light([...under]), ink = light([...under, getComputedStyle(node).color]);
    return (Math.max(ink, behind) + 0.05) / (Math.min(ink, behind) + 0.05);
  };
  const words = [...document.querySelectorAll(".nbdebug *")].filter((node) =>
    node.checkVisibility() && [...node.childNodes].some((child) => child.nodeType === 3 && child.data.trim()));
  return Math.min(...words.map(worst));
}"""


def row_names(page: Any) -> list[str]:
    """The names of the drawn rows, in order."""
    return list(page.locator(".nb-row .nb-name b").all_inner_texts())


def row_by_name(page: Any, name: str) -> Any:
    """The first row with a name."""
    return page.locator(".nb-row", has=page.locator(f".nb-name b:text-is('{name}')")).first


def sort_by(page: Any, heading: str) -> None:
    page.get_by_role("button", name=heading, exact=True).click()


def test_table_rows_fold_and_unfold(open_page: OpenPage) -> None:
    page = open_page(table_view())
    assert row_names(page) == ["Net", "0", "0", "1", "2", "1", "0", "1", "2"]
    row_by_name(page, "0").locator(".nb-chevron").click()
    assert row_names(page) == ["Net", "0", "1", "0", "1", "2"]
    assert row_by_name(page, "0").get_attribute("aria-expanded") == "false"
    assert "6 of 9 rows" in page.locator(".nb-tools").inner_text()
    page.get_by_role("button", name="Unfold all").click()
    assert len(row_names(page)) == 9
    page.get_by_role("button", name="Fold all").click()
    assert row_names(page) == ["Net", "0", "1"]


def test_table_sorts_by_column_and_shows_full_paths(open_page: OpenPage) -> None:
    page = open_page(table_view())
    sort_by(page, "rate")
    assert "0.0 Linear" in page.locator(".nb-row .nb-name").first.inner_text()
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("rate")
    rates = page.locator(".nb-row td[data-label=rate]").all_inner_texts()
    assert rates == ["0.1", "0.05", "0.03333", "frozen", "frozen", "frozen", "", "", ""]
    sort_by(page, "rate")
    assert page.locator(".nb-row td[data-label=rate]").all_inner_texts()[:4] == [
        "frozen",
        "frozen",
        "frozen",
        "0.03333",
    ]
    sort_by(page, "rate")
    assert page.locator("th[aria-sort=none]").count() == 6
    assert row_names(page)[:3] == ["Net", "0", "0"]
    sort_by(page, "findings")
    assert page.locator(".nb-row .nb-mark").first.inner_text() == "✕ O503"
    assert "0.1 Linear" in page.locator(".nb-row .nb-name").first.inner_text()


def test_table_filter_shows_matches_and_their_parents(open_page: OpenPage) -> None:
    page = open_page(table_view())
    page.get_by_role("button", name="Fold all").click()
    page.get_by_role("searchbox").fill("O503")
    assert row_names(page) == ["Net", "0", "1"]
    assert "3 of 9 rows" in page.locator(".nb-tools").inner_text()
    page.get_by_role("searchbox").fill("1.2 linear")
    assert row_names(page) == ["Net", "1", "2"]
    page.get_by_role("searchbox").fill("nothing of the kind")
    assert row_names(page) == []
    page.get_by_role("searchbox").fill("")
    assert row_names(page) == ["Net", "0", "1"]


def test_table_tag_click_shows_finding_and_details(open_page: OpenPage) -> None:
    page = open_page(table_view())
    tag = page.locator(".nb-mark")
    assert tag.get_attribute("title") == "parameter-not-optimized: No parameter group holds 0.1.weight."
    tag.click()
    details = page.locator(".nb-told")
    assert "O503 parameter-not-optimized: No parameter group holds" in details.inner_text()
    assert "[4, 4] n=16 x∈[-1, 1] μ=0 σ=0.5 f32" in details.inner_text()
    page.keyboard.press("Escape")
    assert details.count() == 0


def test_table_formats_numbers_and_shows_shares_as_bars_in_percent(open_page: OpenPage) -> None:
    page = open_page(table_view(1, 2))
    first = page.locator(".nb-row").first
    assert first.locator("td").all_inner_texts()[1:3] == ["40", "50%"]
    bar_size = page.locator("td[data-label=trainable] .nb-part").first.evaluate(
        "node => getComputedStyle(node).backgroundSize"
    )
    assert bar_size.startswith("50%")
    view = FoldableTable(
        columns=[Column("name"), Column("n", "number")], rows=[TableRow("a", [1_234_567]), TableRow("b", [-0.5])]
    )
    assert open_page(view).locator("td").all_inner_texts() == ["1,234,567", "\u22120.5"]


def test_table_is_operable_by_keyboard(open_page: OpenPage) -> None:
    page = open_page(table_view())
    focused_name = "document.activeElement.querySelector('.nb-name b')?.textContent"
    page.locator(".nb-row").first.focus()
    assert page.locator(".nb-row[tabindex='0']").count() == 1
    for key, name in [("ArrowDown", "0"), ("ArrowDown", "0"), ("ArrowDown", "1"), ("ArrowLeft", "0"), ("End", "2")]:
        page.keyboard.press(key)
        assert page.evaluate(focused_name) == name
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    assert len(row_names(page)) == 6
    page.keyboard.press("ArrowRight")
    assert len(row_names(page)) == 9
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator(".nb-told").count() == 1
    page.keyboard.press("Enter")
    assert page.locator(".nb-told").count() == 0
    page.keyboard.press("Home")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused_name) == "Net"


def test_table_has_aria_roles_and_levels(open_page: OpenPage) -> None:
    page = open_page(table_view())
    assert page.get_by_role("treegrid", name="Summary").count() == 1
    assert page.get_by_role("columnheader").count() == 6
    assert [row.get_attribute("aria-level") for row in page.locator(".nb-row").all()[:3]] == ["1", "2", "3"]
    assert page.get_by_role("searchbox", name="Filter").count() == 1


@pytest.mark.parametrize("width", [560, 1200])
@pytest.mark.parametrize("dark", [False, True])
def test_table_text_has_contrast_and_fits_frame_in_both_themes(open_page: OpenPage, width: int, dark: bool) -> None:
    view = table_view()
    view.notice = ("The forward pass stopped.", "error")
    page = open_page(view, width=width, dark=dark)
    page.locator(".nb-mark").click()
    page.mouse.move(0, 0)
    assert page.evaluate(LOWEST_CONTRAST_RATIO) >= 4.5
    frame = page.locator(".nb-frame")
    assert frame.evaluate("node => node.scrollWidth - node.clientWidth") <= 0
    tops = (
        row_by_name(page, "Net")
        .locator("th, td:not(.nb-empty)")
        .evaluate_all("nodes => new Set(nodes.map((node) => Math.round(node.getBoundingClientRect().top))).size")
    )
    assert (tops > 1) == (width == 560)


def test_table_of_4000_rows_is_small_and_draws_rows_on_demand(open_page: OpenPage) -> None:
    columns = [Column("name"), Column("n", "number"), Column("mode")]
    view = FoldableTable("Many", columns=columns, rows=[TableRow("layer", [i, "train"]) for i in range(4000)])
    assert len(view.state()["table"]) == 4000
    assert len(static_html(view).encode()) <= 200_000
    page = open_page(view)
    assert page.locator(".nb-row").count() < 400
    page.locator("input").fill("399")
    page.wait_for_function(
        "[...document.querySelectorAll('.nb-row')].every((node) => node.textContent.includes('399'))"
    )
    page.locator("input").fill("")
    page.locator(".nb-sort").first.click()
    page.locator(".nb-row").first.focus()
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.textContent").startswith("layer3,999")


def test_table_scrolling_draws_more_rows(open_page: OpenPage) -> None:
    page = open_page(FoldableTable("Many", columns=[Column("name")], rows=[TableRow(f"layer{i}") for i in range(600)]))
    row_count = page.locator(".nb-row").count()
    page.locator(".nb-frame").evaluate("node => node.scrollTo(0, node.scrollHeight)")
    page.wait_for_function(f"document.querySelectorAll('.nb-row').length > {row_count}")


def test_table_above_size_limit_omits_deepest_level(open_page: OpenPage) -> None:
    view = table_view(100, 400)
    state = view.state()
    assert len(to_script_json(state)) < 110_000
    assert {row[0] for row in state["table"]} == {0, 1}
    assert state["more"] == 40_000
    page = open_page(view)
    assert "… and 40,000 more rows at deeper levels." in page.locator(".nb-frame + .nb-note").inner_text()


def test_table_above_size_limit_omits_details_before_rows() -> None:
    details = [("weight", f"text {i} " * 20) for i in range(4)]
    view = FoldableTable(columns=[Column("name")], rows=[TableRow(str(i), details=details) for i in range(1000)])
    assert [len(row) for row in view.state()["table"]] == [9] * 1000
    view.rows = [TableRow(str(i), details=[("weight", f"text {i} " * 20)]) for i in range(1000)]
    assert [len(row) for row in view.state()["table"]] == [5] * 1000


def test_limit_rows_keeps_whole_levels_then_first_rows() -> None:
    rows = table_view().rows
    assert [row.level for row in limit_rows(rows, 9)] == [0, 1, 2, 2, 2, 1, 2, 2, 2]
    assert [row.level for row in limit_rows(rows, 8)] == [0, 1, 1]
    top_level_rows = [TableRow(str(i)) for i in range(5)]
    assert [row.name for row in limit_rows(top_level_rows, 3)] == ["0", "1", "2"]


@pytest.mark.parametrize(("share", "text"), [(0.0, "0%"), (0.001, "<1%"), (0.5, "50%"), (0.999, ">99%"), (1.0, "100%")])
def test_format_percent_gives_0_and_100_only_for_exact_shares(open_page: OpenPage, share: float, text: str) -> None:
    view = FoldableTable(columns=[Column("name"), Column("part", "share")], rows=[TableRow("a", [share])])
    assert format_percent(share) == text
    assert open_page(view).locator("td").inner_text().strip() == text


def test_table_without_scripts_is_plain_html_with_tag_texts(open_page: OpenPage) -> None:
    page = open_page(table_view(), scripts=False)
    plain_html = page.locator(".nb-plain")
    assert plain_html.locator("tr").count() == 10
    cells = plain_html.locator("tr").nth(1).locator("td").all_inner_texts()
    assert cells[:4] == [
        "Net",
        "[8, 4] → [8, 3]",
        "120",
        "50%",
    ]
    assert "0.1: O503: parameter-not-optimized" in plain_html.locator("li").inner_text()


def test_table_state_replaces_non_finite_values_by_none() -> None:
    view = FoldableTable(
        columns=[Column("n"), Column("v", "number")],
        rows=[TableRow("a", [float("nan")]), TableRow("b", [TextCell("x", float("inf"))])],
    )
    state = view.state()
    json.dumps(state, allow_nan=False)
    assert state["table"][0][4] == [None]


def test_live_table_new_state_replaces_previous_one(page: Any) -> None:
    view = table_view()
    live = LivePage(page, view)
    view.rows, view.status = view.rows[:2], "fewer"
    live.send({"state": view.snapshot()})
    assert row_names(page) == ["Net", "0"]
    assert "fewer" in page.locator(".nb-status").inner_text()


def test_summary_view_sorts_and_shows_details(open_page: OpenPage) -> None:
    page = open_page(summary(classifier()).view())
    assert "parameters" in page.locator(".nb-status").inner_text()
    sort_by(page, "weight")
    assert page.locator(".nb-row").first.inner_text()
    page.locator(".nb-row").first.click()
    assert "x∈[" in page.locator(".nb-told").inner_text()
