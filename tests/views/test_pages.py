"""Tests of static pages of every view in a browser."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nbdebug.views.findings import FindingsView
from nbdebug.views.line_chart import LineChart
from nbdebug.views.page import PACKAGE_FOLDER, View, packed_module, static_html, to_script_json

from .canvas_pixels import canvas_colors, first_line_color
from .conftest import OpenPage
from .hostile_text import HOSTILE_TEXT
from .lr_range_views import lr_range_view
from .sample_views import (
    batch_size_view,
    comparison_view,
    crash_view,
    divergence_view,
    findings_view,
    hostile_views,
    line_chart_view,
    overfit_view,
    profile_view,
    table_view,
)

MAX_MODULE_LENGTHS = {
    "tools/data/page.js": 18_000,
    "watching/page.js": 29_000,
    "tools/explain/page.js": 40_500,
    "tools/errors/page.js": 81_500,
}
REMOVE_WHILE_UNPACKED = """html => {
  new MutationObserver(() => document.body.replaceChildren()).observe(document.body, {attributes: true, subtree: true});
  document.body.append(document.createRange().createContextualFragment(html));
  window.view = document.querySelector("[data-view]");
}"""
VIEWS = [
    line_chart_view,
    findings_view,
    overfit_view,
    table_view,
    lr_range_view,
    comparison_view,
    batch_size_view,
    crash_view,
    divergence_view,
    profile_view,
]
MAX_PAGE_LENGTHS = {overfit_view: 60_000, lr_range_view: 60_000}


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_view_fits_page_width(open_page: OpenPage, view: Any, width: int, dark: bool) -> None:
    page = open_page(view(), width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("view", [line_chart_view, overfit_view, lr_range_view])
@pytest.mark.parametrize("dark", [False, True])
def test_chart_is_drawn_in_theme_colors(open_page: OpenPage, view: Any, dark: bool) -> None:
    canvas = open_page(view(), dark=dark).locator(".nb-plot canvas")
    colors = canvas_colors(canvas)
    assert len(colors) > 10
    assert first_line_color(dark) in colors


@pytest.mark.parametrize("view", VIEWS)
def test_view_without_scripts_is_plain_html(open_page: OpenPage, view: Any) -> None:
    page = open_page(view(), scripts=False)
    assert page.locator(".nb-plain table").first.is_visible()
    assert len(static_html(view())) < MAX_PAGE_LENGTHS.get(view, 40_000)


def test_several_views_on_one_page_are_all_drawn(open_page: OpenPage) -> None:
    chart = line_chart_view()
    page = open_page(chart, findings_view(), chart, overfit_view())
    assert page.locator(".nb-title").all_inner_texts() == ["Training", "Checkup", "Training", "Tiny-batch overfit test"]


def test_page_that_is_removed_while_it_is_unpacked_reports_no_error(page: Any) -> None:
    page.evaluate(REMOVE_WHILE_UNPACKED, static_html(findings_view()))
    page.wait_for_function("!view.isConnected && !view.querySelector('.nb-plain')")


@pytest.mark.parametrize("view", hostile_views(), ids=lambda view: type(view).__name__)
def test_view_with_hostile_text_inserts_no_markup(open_page: OpenPage, view: View) -> None:
    page = open_page(view)
    page.locator("details").evaluate_all("nodes => nodes.forEach(node => { node.open = true; })")
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert HOSTILE_TEXT in page.locator("body").inner_text()
    assert "<img" not in re.sub(r"<script.*?</script>", "", static_html(view), flags=re.S)


def test_view_with_failing_script_shows_plain_html(
    browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "page.html"
    view = line_chart_view()
    broken_state = {**view.state(), "lines": [None]}
    monkeypatch.setattr(view, "state", lambda: broken_state)
    file.write_text(static_html(view), encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("table", state="visible")
    assert "validation" in page.locator("table").inner_text()
    page.close()


@pytest.mark.parametrize("name", sorted(str(path.relative_to(PACKAGE_FOLDER)) for path in PACKAGE_FOLDER.rglob("*.js")))
def test_javascript_module_is_small_and_local_without_inner_html(name: str) -> None:
    text = (PACKAGE_FOLDER / name).read_text(encoding="utf-8")
    is_page_module = "export default" in text
    assert not is_page_module or len(packed_module(PACKAGE_FOLDER / name).encode()) <= MAX_MODULE_LENGTHS.get(
        name, 17_000
    )
    assert "http" not in text
    assert "innerHTML" not in text
    assert len(text.splitlines()) <= 450
    assert not name.startswith("views/") or not re.search(r"`[^`]*\$\{[^}`]*`", text), (
        "inlining would remove spaces in nested template literals"
    )


@pytest.mark.parametrize(
    "view",
    [
        line_chart_view(10_000),
        LineChart.from_columns(
            range(3_000), {f"layer{i}.weight": [(i + 1) / (j + 1) for j in range(3_000)] for i in range(40)}
        ),
        overfit_view(64, 96, 300),
        FindingsView(
            findings=[*findings_view().findings[:1]] * 200,
            checked=1,
            not_checked=[*findings_view().not_checked] * 100,
        ),
        table_view(100, 50),
        crash_view(50),
    ],
    ids=["long_chart", "chart_of_many_lines", "overfit", "findings", "table", "crash"],
)
def test_static_page_of_large_view_is_at_most_200_kb(view: Any) -> None:
    assert len(static_html(view).encode()) <= 200_000


def test_to_script_json_escapes_closing_script_tag() -> None:
    assert "<" not in to_script_json({"a": HOSTILE_TEXT})
    assert json.loads(to_script_json({"a": HOSTILE_TEXT})) == {"a": HOSTILE_TEXT}
