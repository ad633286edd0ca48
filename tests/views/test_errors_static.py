"""The error browser without a kernel, after one has gone, without scripts, and with hostile text in every place."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nbdebug.tools.errors.tool import errors_from_predictions
from nbdebug.views.page import PACKAGE_FOLDER, inline_module, static_html
from tests.browser import errors_of

from .conftest import Open
from .errors import browser_of, cell, of_cards, opened
from .test_errors_page import click, rows, shows

ATTACK = '<script>window.hit = 1</script><img src=x onerror="window.hit = 1">"\'&'
PIXEL = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="


CODE = """async ([source, part]) => {
  const made = await import("data:text/javascript;base64," + source);
  return made.queryCode({ ...made.queryEmpty(), ...part });
}"""
BLOCKED = ("Blocked script execution in 'about:srcdoc'", "Not allowed to load local resource")


@pytest.fixture
def hostile(browser: Any) -> Iterator[Any]:
    """A page that may complain of the scripts that it did not run, and of nothing else."""
    context = browser.new_context()
    errors = errors_of(context)
    yield context.new_page()
    context.close()
    assert [one for one in errors if not one.startswith(BLOCKED)] == []


def attacked() -> list[dict[str, Any]]:
    """A card of each kind whose every text is an attack."""
    return [
        {"kind": "text", "text": ATTACK},
        {"kind": "text", "text": ATTACK, "tokens": [[ATTACK, 1.0], ["b", None], [ATTACK, -0.5]]},
        {"kind": "table", "rows": [[ATTACK, ATTACK, 9.0], ["b", "2", None]]},
        {"kind": "series", "lines": [[1, 2, None, 3], [2, 1, 0, 1]], "names": [ATTACK, "b"]},
        {"kind": "image", "src": f'x" onerror="window.hit = 1{ATTACK}', "width": 2, "height": 2},
        {"kind": "image", "src": PIXEL, "overlay": "javascript:window.hit = 1", "width": 1, "height": 1},
        {"kind": "audio", "src": f"javascript:window.hit = 1{ATTACK}", "lines": [[0, 1, 0]]},
        {"kind": "html", "html": f"<b>bold</b>{ATTACK}<script>parent.hit = 1; top.hit = 1</script>"},
        {"kind": "trouble", "text": ATTACK},
        {"kind": "new", "text": ATTACK},
    ]


@pytest.mark.parametrize("kernel", [False, True])
def test_text_of_the_data_never_becomes_html(hostile: Any, tmp_path: Path, kernel: bool) -> None:
    made = of_cards(attacked() * 3, names=[ATTACK, f"b{ATTACK}", "c"])
    table = made.table.with_columns({ATTACK: np.array([ATTACK, "x"] * 15), "odd": np.arange(30)})
    result = type(made)(table, ATTACK, made.samples, made.dataset, title=ATTACK)
    result.tag(range(30), ATTACK, note=ATTACK)
    page = opened(hostile, result, tmp_path, kernel)
    page.get_by_role("button", name="all", exact=True).click()
    page.get_by_label("filter by a column").select_option(ATTACK)
    page.locator(".nb-e-choice input").first.check()
    page.mouse.move(*cell(page, 0, 0))
    click(page, 0, 0)
    while page.locator(".nb-e-chip").count():
        page.locator(".nb-e-chip").first.click()
    page.locator(".nb-e-card").first.click()
    for _ in range(10):
        page.keyboard.press("ArrowRight")
    page.wait_for_timeout(300)
    assert page.evaluate("window.hit") is None
    assert page.locator(".nbdebug img[onerror], .nbdebug script").count() == 0


def test_without_scripts_the_text_is_escaped(open_page: Open) -> None:
    result = of_cards(attacked(), names=[ATTACK, "b", "c"])
    result.tag(range(10), ATTACK, note=ATTACK)
    page = open_page(result.view(), scripts=False)
    assert page.locator(".nbdebug img[onerror], .nb-plain script").count() == 0
    assert ATTACK in page.locator(".nb-plain").inner_text()


def test_the_users_own_html_is_shown_and_kept_apart(page: Any, tmp_path: Path) -> None:
    opened(page, of_cards([{"kind": "html", "html": "<b>bold</b>"}] * 6), tmp_path)
    frame = page.locator(".nb-e-card iframe").first
    assert frame.get_attribute("sandbox") == ""
    assert frame.content_frame.locator("b").inner_text() == "bold"


def test_each_kind_is_drawn(hostile: Any, tmp_path: Path) -> None:
    page = opened(hostile, of_cards(attacked()), tmp_path)
    page.get_by_role("button", name="all", exact=True).click()
    page.wait_for_function("document.querySelectorAll('.nb-e-card').length === 10")
    for kind, count in {"text": 2, "table": 1, "series": 1, "image": 2, "audio": 1, "html": 1, "trouble": 1}.items():
        assert page.locator(f".nb-e-as-{kind}").count() == count + (kind == "table")
    assert page.locator(".nb-e-odd").inner_text().strip().startswith(ATTACK)
    assert page.locator(".nb-e-as-series path").count() == 2
    assert page.locator(".nb-e-token").count() == 2


def test_rows_of_a_table_stand_close_enough_to_be_looked_through(page: Any, tmp_path: Path) -> None:
    cells = [[f"class_{i}", "0", None] for i in range(6)]
    page.set_viewport_size({"width": 1100, "height": 900})
    opened(page, of_cards([{"kind": "table", "rows": cells} for _ in range(8)]), tmp_path)
    page.get_by_role("button", name="all", exact=True).click()
    page.wait_for_function("document.querySelectorAll('.nb-e-card').length === 8")
    cards = [one.bounding_box() for one in page.locator(".nb-e-card").all()]
    assert len({one["x"] for one in cards}) == 4
    assert page.locator(".nb-e-shown th").evaluate_all("all => all.every((one) => one.scrollWidth <= one.clientWidth)")


def test_a_page_without_a_kernel_sorts_and_filters_what_it_holds(page: Any, tmp_path: Path) -> None:
    result = browser_of()
    opened(page, result, tmp_path, kernel=False)
    held = rows(page)
    size, table = result.table.columns["size"], result.table
    assert "first 24 of" in page.locator(".nb-e-pages").inner_text()
    page.get_by_label("sort by").select_option("size")
    assert rows(page) == sorted(held, key=lambda row: -size[row])
    click(page, 2, 0)
    shows(page, "target class 2 → class 0")
    assert set(rows(page)) == {row for row in held if (table.target[row], table.prediction[row]) == (2, 0)}
    line = page.locator("code").first.inner_text()
    assert line == 'result.rows(cells=[(2, 0)], sort="size")'
    frame = eval(line, {"result": result})
    assert len(frame) == min(24, int(table.grid.counts[2, 0]))
    click(page, 1, 1)
    page.get_by_text("No sample in this page matches.").wait_for()
    page.get_by_role("button", name="remove").click()
    page.locator(".nb-e-card").first.click(modifiers=["Control"])
    assert f"result.tag([{rows(page)[0]}], " in page.locator(".nb-e-selection code").inner_text()


@pytest.mark.parametrize(
    ("asked", "line"),
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
)
def test_the_line_of_python_says_what_is_asked_for(page: Any, asked: dict[str, Any], line: str) -> None:
    source = inline_module(PACKAGE_FOLDER / "tools/errors/store.js")
    encoded = base64.b64encode(source.encode()).decode()
    assert page.evaluate(CODE, [encoded, asked]) == line


def test_after_a_restart_the_page_says_so_and_goes_on_with_what_it_holds(page: Any, tmp_path: Path) -> None:
    opened(page, browser_of(), tmp_path)
    page.get_by_role("button", name="next page").click()
    page.get_by_text("25–48 of").wait_for()
    page.evaluate("restart()")
    page.get_by_text("Python is no longer available").wait_for()
    assert "first 24 of" in page.locator(".nb-e-pages").inner_text()
    click(page, 2, 0)
    shows(page, "target class 2 → class 0")
    assert page.locator("code", has_text="cells=[(2, 0)]").is_visible()


def test_without_scripts_it_has_the_matrix_the_metric_and_the_worst(open_page: Open) -> None:
    result = browser_of()
    page = open_page(result.view(), scripts=False)
    text = page.locator(".nb-plain").inner_text()
    assert result.headline in text
    assert page.locator("table").first.locator("tr").nth(1).locator("td").all_inner_texts() == [
        "class 0",
        *map(str, result.table.grid.counts[0]),
    ]
    worst = page.locator("table").nth(1)
    assert worst.locator("tr").count() == 25
    assert worst.locator("img").first.evaluate("node => node.naturalWidth") == 12


def test_many_classes_are_written_as_their_pairs(open_page: Open) -> None:
    page = open_page(browser_of(classes=40, rows=400).view(), scripts=False)
    assert "Most confused pairs" in page.locator(".nb-plain").inner_text()
    assert page.locator("table").first.locator("tr").count() == 31


@pytest.mark.parametrize(("width", "dark"), [(320, False), (320, True), (1400, False), (700, True)])
def test_it_never_scrolls_sideways(open_page: Open, width: int, dark: bool) -> None:
    result = browser_of(names=["a", "a name that is far too long to stand beside anything at all", "c"])
    page = open_page(result.view(), width=width, dark=dark)
    page.locator(".nb-e-card").first.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Escape")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("given", ["right", "labels", "one"])
def test_odd_results_open_too(open_page: Open, given: str) -> None:
    targets = {"right": [0, 1] * 9, "labels": [0, 1, 1] * 6, "one": [0] * 18}[given]
    guesses = {"right": targets, "labels": [0, 1, 0] * 6, "one": [0] * 18}[given]
    page = open_page(errors_from_predictions(guesses, targets).view())
    page.locator(".nb-e-stage").wait_for()
    if given != "labels":
        page.get_by_text("No wrong predictions match.").wait_for()


def test_a_sample_too_large_for_a_page_is_left_to_python(tmp_path: Path) -> None:
    big = {"kind": "text", "text": "x" * 150_000}
    view = of_cards([big] * 30).view()
    assert len(static_html(view).encode()) < 1_000_000
    kinds = [one["shown"]["kind"] for one in json.loads(json.dumps(view.state()))["first"]["cards"]]
    assert kinds.count("text") == 1
    assert set(kinds[1:]) == {"trouble"}
