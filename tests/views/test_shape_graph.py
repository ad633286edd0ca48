"""Tests of the graph of a forward pass that raised: text, chart, plain HTML, and the page."""

from __future__ import annotations

import pytest
from matplotlib.figure import Figure

from .conftest import OpenPage
from .sample_views import crash_view, residual_trace

SAME, HALF = "float32 [4, 16, 16, 16]", "float32 [4, 32, 8, 8]"
NODE_CENTERS = """
nodes => nodes.map(node => node.getBoundingClientRect()).map(box => box.top + box.height / 2)
"""


def test_text_marks_break_and_names_sources_that_are_not_above() -> None:
    lines = [" ".join(line.split()) for line in residual_trace().to_text().splitlines()]
    assert lines == [
        "shapes up to the operation that raised:",
        "… Net float32 [4, 3, 16, 16]",
        f"blocks.0 Block {SAME} → {SAME}",
        f"2. blocks.0.conv Conv2d {SAME} → {SAME}",
        f"3. relu {SAME} → {SAME}",
        f"4. add from input, 3 {SAME}, {SAME} → {SAME}",
        f"… blocks.1 Block {SAME} → cut off",
        f"6. blocks.1.conv Conv2d {SAME} → {HALF}",
        f"7. relu {HALF} → {HALF}",
        f"✕ 8. add from 4, 7 {SAME}, {HALF} → raised",
        f"met: x {SAME} · y {HALF}",
        "not reached: head",
    ]


def test_many_calls_are_shown_without_those_inside_modules_that_ran() -> None:
    trace = residual_trace(30)
    shown = trace.open_rows(40)
    assert [trace.rows[i].name for i in shown[-6:]] == [
        "blocks.28 Block",
        "blocks.29 Block",
        "blocks.30 Block",
        "blocks.30.conv Conv2d",
        "relu",
        "add",
    ]
    assert trace.edges(shown)[shown[-1]] == [shown[-5], shown[-2]]
    assert len(trace.to_text().splitlines()) <= 43


def test_chart_has_marker_of_break_and_line_of_each_tensor() -> None:
    ax = Figure().subplots()
    residual_trace().draw(ax)
    markers = [line.get_marker() for line in ax.lines if line.get_marker() != "None"]
    assert markers == ["s", "o", "o", "o", "o", "o", "X"]
    assert sum(line.get_marker() == "None" for line in ax.lines) == 8
    assert ax.texts[-1].get_text().startswith("add   x float32")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (700, True)])
def test_page_draws_node_beside_each_row_and_marks_break(open_page: OpenPage, width: int, dark: bool) -> None:
    page = open_page(crash_view(), width=width, dark=dark)
    rows = page.locator(".nb-shapes tr")
    assert rows.count() == 9
    assert (
        " ".join(page.locator(".nb-raised").inner_text().split()) == f"add {SAME}, {HALF} → raised x {SAME} · y {HALF}"
    )
    assert page.get_by_text("not reached: head").is_visible()
    nodes = page.locator(".nb-wires rect").evaluate_all(NODE_CENTERS)
    names = page.locator(".nb-shapes tr th").evaluate_all(NODE_CENTERS)
    assert len(nodes) == 6
    assert all(min(abs(node - name) for name in names) < 6 for node in nodes)
    assert page.locator("path.nb-broken").count() == 3


def test_click_folds_calls_of_module_and_its_node_takes_their_tensors(open_page: OpenPage) -> None:
    page = open_page(crash_view())
    page.get_by_role("button", name="calls of blocks.0").click()
    assert page.locator(".nb-shapes tr").count() == 6
    assert page.locator(".nb-wires rect").count() == 4
    assert page.locator("path.nb-broken").count() == 3
    page.get_by_role("button", name="calls of blocks.0").click()
    assert page.locator(".nb-shapes tr").count() == 9


def test_long_trace_opens_with_modules_that_ran_folded(open_page: OpenPage) -> None:
    page = open_page(crash_view(12))
    assert page.locator(".nb-shapes tr").count() == 1 + 12 + 4


def test_page_without_scripts_has_table_of_calls(open_page: OpenPage) -> None:
    page = open_page(crash_view(), scripts=False)
    row = page.locator(".nb-plain tr", has_text="✕")
    assert "float32 [4, 32, 8, 8] → raised" in row.inner_text()
    assert page.get_by_text("What met: x float32").is_visible()
