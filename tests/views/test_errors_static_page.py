"""Tests of the error browser without a kernel, after a restart, without scripts, and with hostile text."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbdebug.tools.errors.tool import errors_from_predictions
from nbdebug.views.page import PACKAGE_FOLDER, inline_module, static_html
from tests.browser import errors_of

from .conftest import OpenPage
from .error_browser_pages import (
    cell_position,
    click_cell,
    gallery_rows,
    make_card_errors,
    make_image_errors,
    open_error_page,
    wait_for_filter,
)
from .hostile_text import HOSTILE_HTML

PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


QUERY_CODE = """async ([source, part]) => {
  const store = await import("data:text/javascript;base64," + source);
  return store.queryCode({ ...store.queryEmpty(), ...part });
}"""
BLOCKED_SCRIPT_MESSAGES = ("Blocked script execution in 'about:srcdoc'", "Not allowed to load local resource")


@pytest.fixture
def blocking_page(browser: Any) -> Iterator[Any]:
    """A page whose only errors may be scripts that it blocked."""
    context = browser.new_context()
    errors = errors_of(context)
    yield context.new_page()
    context.close()
    assert [error for error in errors if not error.startswith(BLOCKED_SCRIPT_MESSAGES)] == []


def hostile_cards() -> list[dict[str, Any]]:
    """A card of each kind with hostile text in every field."""
    return [
        {"kind": "text", "text": HOSTILE_HTML},
        {"kind": "text", "text": HOSTILE_HTML, "tokens": [[HOSTILE_HTML, 1.0], ["b", None], [HOSTILE_HTML, -0.5]]},
        {"kind": "table", "rows": [[HOSTILE_HTML, HOSTILE_HTML, 9.0], ["b", "2", None]]},
        {"kind": "series", "lines": [[1, 2, None, 3], [2, 1, 0, 1]], "names": [HOSTILE_HTML, "b"]},
        {"kind": "image", "src": f'x" onerror="window.hit = 1{HOSTILE_HTML}', "width": 2, "height": 2},
        {"kind": "image", "src": PIXEL, "overlay": "javascript:window.hit = 1", "width": 1, "height": 1},
        {"kind": "audio", "src": f"javascript:window.hit = 1{HOSTILE_HTML}", "lines": [[0, 1, 0]]},
        {"kind": "html", "html": f"<b>bold</b>{HOSTILE_HTML}<script>parent.hit = 1; top.hit = 1</script>"},
        {"kind": "trouble", "text": HOSTILE_HTML},
        {"kind": "new", "text": HOSTILE_HTML},
    ]


@pytest.mark.parametrize("kernel", [False, True])
def test_error_page_with_hostile_text_inserts_no_markup(blocking_page: Any, tmp_path: Path, kernel: bool) -> None:
    errors = make_card_errors(hostile_cards() * 3, names=[HOSTILE_HTML, f"b{HOSTILE_HTML}", "c"])
    table = errors.table.with_columns({HOSTILE_HTML: np.array([HOSTILE_HTML, "x"] * 15), "odd": np.arange(30)})
    hostile_errors = type(errors)(table, HOSTILE_HTML, errors.samples, errors.dataset, title=HOSTILE_HTML)
    hostile_errors.tag(range(30), HOSTILE_HTML, note=HOSTILE_HTML)
    page = open_error_page(blocking_page, hostile_errors, tmp_path, kernel)
    page.get_by_role("button", name="all", exact=True).click()
    page.get_by_label("filter by a column").select_option(HOSTILE_HTML)
    page.locator(".nb-e-choice input").first.check()
    page.mouse.move(*cell_position(page, 0, 0))
    click_cell(page, 0, 0)
    while page.locator(".nb-e-chip").count():
        page.locator(".nb-e-chip").first.click()
    page.locator(".nb-e-card").first.click()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    assert page.evaluate("window.hit") is None
    assert page.locator(".nbdebug img[onerror], .nbdebug script").count() == 0


def test_error_page_without_scripts_escapes_hostile_text(open_page: OpenPage) -> None:
    errors = make_card_errors(hostile_cards(), names=[HOSTILE_HTML, "b", "c"])
    errors.tag(range(10), HOSTILE_HTML, note=HOSTILE_HTML)
    page = open_page(errors.view(), scripts=False)
    assert page.locator(".nbdebug img[onerror], .nb-plain script").count() == 0
    assert HOSTILE_HTML in page.locator(".nb-plain").inner_text()


def test_html_sample_is_shown_in_sandboxed_frame(page: Any, tmp_path: Path) -> None:
    open_error_page(page, make_card_errors([{"kind": "html", "html": "<b>bold</b>"}] * 6), tmp_path)
    frame = page.locator(".nb-e-card iframe").first
    assert frame.get_attribute("sandbox") == ""
    assert frame.content_frame.locator("b").inner_text() == "bold"


def test_gallery_draws_every_kind_of_sample(blocking_page: Any, tmp_path: Path) -> None:
    page = open_error_page(blocking_page, make_card_errors(hostile_cards()), tmp_path)
    page.get_by_role("button", name="all", exact=True).click()
    page.wait_for_function("document.querySelectorAll('.nb-e-card').length === 10")
    for kind, count in {"text": 2, "table": 1, "series": 1, "image": 2, "audio": 1, "html": 1, "trouble": 1}.items():
        assert page.locator(f".nb-e-as-{kind}").count() == count + (kind == "table")
    assert page.locator(".nb-e-odd").inner_text().strip().startswith(HOSTILE_HTML)
    assert page.locator(".nb-e-as-series path").count() == 2
    assert page.locator(".nb-e-token").count() == 2


def test_gallery_of_table_rows_has_four_columns_and_cuts_no_name(page: Any, tmp_path: Path) -> None:
    cells = [[f"class_{i}", "0", None] for i in range(6)]
    page.set_viewport_size({"width": 1100, "height": 900})
    open_error_page(page, make_card_errors([{"kind": "table", "rows": cells} for _ in range(8)]), tmp_path)
    page.get_by_role("button", name="all", exact=True).click()
    page.wait_for_function("document.querySelectorAll('.nb-e-card').length === 8")
    boxes = [card.bounding_box() for card in page.locator(".nb-e-card").all()]
    assert len({box["x"] for box in boxes}) == 4
    assert page.locator(".nb-e-shown th").evaluate_all(
        "nodes => nodes.every((node) => node.scrollWidth <= node.clientWidth)"
    )


def test_error_page_without_kernel_sorts_and_filters_stored_samples(page: Any, tmp_path: Path) -> None:
    errors = make_image_errors()
    open_error_page(page, errors, tmp_path, kernel=False)
    stored_rows = gallery_rows(page)
    size, table = errors.table.columns["size"], errors.table
    assert "first 24 of" in page.locator(".nb-e-pages").inner_text()
    page.get_by_label("sort by").select_option("size")
    assert gallery_rows(page) == sorted(stored_rows, key=lambda row: -size[row])
    click_cell(page, 2, 0)
    wait_for_filter(page, "target class 2 → class 0")
    assert set(gallery_rows(page)) >= {
        row for row in stored_rows if (table.target[row], table.prediction[row]) == (2, 0)
    }
    line = page.locator("code").first.inner_text()
    assert line == 'result.rows(cells=[(2, 0)], sort="size")'
    frame = eval(line, {"result": errors})
    assert len(frame) == min(24, int(table.grid.counts[2, 0]))
    click_cell(page, 1, 1)
    wait_for_filter(page, "target class 1 → class 1")
    assert len(gallery_rows(page)) == 2
    assert "of each cell" in page.locator("div.nb-note", has_text="This page holds").inner_text()
    page.get_by_role("button", name="remove").click()
    page.locator(".nb-e-card").first.click(modifiers=["Control"])
    assert f"result.tag([{gallery_rows(page)[0]}], " in page.locator(".nb-e-selection code").inner_text()


@pytest.mark.parametrize(
    ("query", "line"),
    [
        ({}, "result.rows()"),
        ({"ranges": {"loss": [1, None]}, "right": False}, 'result.rows(ranges={"loss": (1, None)}, right=False)'),
        (
            {"values": {"site": ['a"b']}, "descending": False},
            'result.rows(values={"site": ["a\\"b"]}, descending=False)',
        ),
        ({"tag": "wrong label"}, 'result.tagged("wrong label")'),
        ({"rows": list(range(30))}, f"result.rows(rows=[{', '.join(map(str, range(20)))}, …])"),
    ],
    ids=["empty", "range", "value", "tag", "many_rows"],
)
def test_query_code_is_python_of_the_query(page: Any, query: dict[str, Any], line: str) -> None:
    source = inline_module(PACKAGE_FOLDER / "tools/errors/store.js")
    encoded_source = base64.b64encode(source.encode()).decode()
    assert page.evaluate(QUERY_CODE, [encoded_source, query]) == line


def test_error_page_after_kernel_restart_uses_stored_samples(page: Any, tmp_path: Path) -> None:
    open_error_page(page, make_image_errors(), tmp_path)
    page.get_by_role("button", name="next page").click()
    page.get_by_text("25–48 of").wait_for()
    page.evaluate("restart()")
    page.get_by_text("Python is no longer available").wait_for()
    assert "first 24 of" in page.locator(".nb-e-pages").inner_text()
    click_cell(page, 2, 0)
    wait_for_filter(page, "target class 2 → class 0")
    assert page.locator("code", has_text="cells=[(2, 0)]").is_visible()


def test_error_page_without_scripts_has_metric_matrix_and_worst_samples(open_page: OpenPage) -> None:
    errors = make_image_errors()
    page = open_page(errors.view(), scripts=False)
    text = page.locator(".nb-plain").inner_text()
    assert errors.headline in text
    assert page.locator("table").first.locator("tr").nth(1).locator("td").all_inner_texts() == [
        "class 0",
        *map(str, errors.table.grid.counts[0]),
    ]
    worst_samples = page.locator("table").nth(1)
    assert worst_samples.locator("tr").count() == 25
    assert worst_samples.locator("img").first.evaluate("node => node.naturalWidth") == 12


def test_error_page_of_many_classes_without_scripts_lists_confused_pairs(open_page: OpenPage) -> None:
    page = open_page(make_image_errors(classes=40, rows=400).view(), scripts=False)
    assert "Most confused pairs" in page.locator(".nb-plain").inner_text()
    assert page.locator("table").first.locator("tr").count() == 31


@pytest.mark.parametrize(("width", "dark"), [(320, False), (320, True), (1400, False), (700, True)])
def test_error_page_fits_page_width(open_page: OpenPage, width: int, dark: bool) -> None:
    errors = make_image_errors(names=["a", "a name that is far too long to stand beside anything at all", "c"])
    page = open_page(errors.view(), width=width, dark=dark)
    page.locator(".nb-e-card").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize(
    ("targets", "predictions"),
    [([0, 1] * 9, [0, 1] * 9), ([0, 1, 1] * 6, [0, 1, 0] * 6), ([0] * 18, [0] * 18)],
    ids=["all_right", "labels_only", "one_class"],
)
def test_error_page_opens_for_degenerate_predictions(
    open_page: OpenPage, targets: list[int], predictions: list[int]
) -> None:
    page = open_page(errors_from_predictions(predictions, targets).view())
    page.locator(".nb-e-stage").wait_for()
    if predictions == targets:
        page.get_by_text("No wrong predictions match.").wait_for()


def test_error_page_omits_samples_above_size_limit(tmp_path: Path) -> None:
    sample = {"kind": "text", "text": "x" * 150_000}
    view = make_card_errors([sample] * 30).view()
    assert len(static_html(view).encode()) < 1_000_000
    kinds = [card["shown"]["kind"] for card in json.loads(json.dumps(view.state()))["first"]["cards"]]
    assert kinds.count("text") == 1
    assert set(kinds[1:]) == {"trouble"}


@pytest.mark.parametrize(("classes", "left_out"), [(3, 0), (12, 12 * 12 - 36)])
def test_saved_page_holds_samples_of_every_cell_wrong_ones_first(classes: int, left_out: int) -> None:
    errors = make_image_errors(4_000, classes=classes)
    view, table = errors.view(), errors.table
    cards = view.state()["stored"]
    wrong = [not card["right"] for card in cards]
    assert wrong == sorted(wrong, reverse=True)
    assert view.stored_note.startswith(
        f"This page holds {24 + len(cards)} of 4,000 samples: the first 24, and up to 2 of"
    )
    assert (f"without {left_out} smaller cells" in view.stored_note) == bool(left_out)
    cells = {
        (table.target[i], table.prediction[i])
        for i in [card["row"] for card in [*cards, *view.state()["first"]["cards"]]]
    }
    if not left_out:
        assert len(cells) == classes**2
        rows = [card["row"] for card in cards if card["right"] and table.target[card["row"]] == 1]
        losses = np.where((table.target == 1) & (table.prediction == 1), table.columns["loss"], -1)
        assert rows == np.argsort(-losses, kind="stable")[:2].tolist()


def test_saved_page_leaves_out_samples_of_cells_above_size_limit() -> None:
    view = make_card_errors([{"kind": "text", "text": "x" * 20_000}] * 200).view()
    assert len(view.state()["stored"]) == 2
    assert re.search(r"without \d+ samples for which there was no space\.", view.stored_note)
    assert len(static_html(view).encode()) < 1_000_000
