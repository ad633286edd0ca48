"""Every view as a static page in a real browser."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from nbdebug.finding import Finding, Location
from nbdebug.views.findings import FindingsView
from nbdebug.views.line_chart import LineChart
from nbdebug.views.page import PACKAGE_FOLDER, packed_module, static_html

from . import samples, sweeps
from .conftest import Open

LARGE_PAGES = {"watching/page.js": 25_000, "tools/explain/page.js": 40_000, "tools/errors/page.js": 80_000}
VIEWS = [samples.curves, samples.findings, samples.overfit, samples.table, sweeps.lr_range]
INK = """node => {
  const p = node.getContext("2d").getImageData(0, 0, node.width, node.height).data, seen = new Set();
  for (let i = 0; i < p.length; i += 4) if (p[i + 3] > 200) seen.add(`${p[i]},${p[i + 1]},${p[i + 2]}`);
  return seen.size; }"""


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("width", [360, 1600])
@pytest.mark.parametrize("dark", [False, True])
def test_no_view_scrolls_sideways(open_page: Open, view: Any, width: int, dark: bool) -> None:
    page = open_page(view(), width=width, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("view", [samples.curves, samples.overfit, sweeps.lr_range])
@pytest.mark.parametrize("dark", [False, True])
def test_charts_are_drawn_in_the_colors_of_their_theme(open_page: Open, view: Any, dark: bool) -> None:
    canvas = open_page(view(), dark=dark).locator(".nb-plot canvas")
    assert canvas.evaluate(INK) > 10
    blue = "90,174,255" if dark else "0,102,179"
    assert canvas.evaluate(INK.replace("seen.size", f"seen.has('{blue}')"))


def test_a_chart_is_sharp_where_a_pixel_is_two(open_page: Open) -> None:
    canvas = open_page(samples.curves(), scale=2).locator(".nb-plot canvas")
    assert canvas.evaluate("node => node.width / node.clientWidth") == pytest.approx(2, abs=0.01)


def test_a_chart_follows_the_width_of_its_container(open_page: Open) -> None:
    page = open_page(samples.curves())
    page.set_viewport_size({"width": 500, "height": 800})
    page.wait_for_function("document.querySelector('.nb-plot canvas').clientWidth < 500")


@pytest.mark.parametrize("view", VIEWS)
def test_without_scripts_the_content_is_plain_html(open_page: Open, view: Any) -> None:
    page = open_page(view(), scripts=False)
    assert page.locator(".nb-plain").is_visible()
    assert page.locator("table").count() > 0


def test_several_views_stand_on_one_page(open_page: Open) -> None:
    twice = samples.curves()
    page = open_page(twice, samples.findings(), twice, samples.overfit())
    assert page.locator(".nb-title").all_inner_texts() == ["Training", "Checkup", "Training", "Tiny-batch overfit test"]


@pytest.mark.parametrize("index", range(5))
def test_text_from_data_never_becomes_markup(open_page: Open, index: int) -> None:
    view = samples.nasty()[index]
    page = open_page(view)
    page.locator("details").evaluate_all("all => all.forEach(one => { one.open = true; })")
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert samples.NASTY in page.locator("body").inner_text()
    assert "<img" not in re.sub(r"<script.*?</script>", "", static_html(view), flags=re.S)


def test_a_view_that_breaks_leaves_its_plain_html(browser: Any, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(static_html(samples.curves()).replace('"lines":[', '"lines":[null,'), encoding="utf-8")
    page = browser.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector("table", state="visible")
    assert "validation" in page.locator("table").inner_text()
    page.close()


def test_legend_hides_a_line(open_page: Open) -> None:
    page = open_page(samples.curves())
    canvas, before = page.locator(".nb-plot canvas"), "0,102,179"
    page.get_by_role("button", name="train").click()
    assert page.get_by_role("button", name="train").get_attribute("aria-pressed") == "false"
    assert not canvas.evaluate(INK.replace("seen.size", f"seen.has('{before}')"))


def test_log_switch_changes_the_picture_and_counts_what_it_cannot_show(open_page: Open) -> None:
    page = open_page(LineChart(series={"gap": [(0, 1.0), (1, 0.0), (2, 0.01)]}))
    canvas = page.locator(".nb-plot canvas")
    before = canvas.evaluate("node => node.toDataURL()")
    page.get_by_role("button", name="logarithmic axis").click()
    assert canvas.evaluate("node => node.toDataURL()") != before
    assert "1 not positive" in page.locator(".nb-note").inner_text()


def test_values_that_are_not_finite_are_counted(open_page: Open) -> None:
    assert "validation: 2 not finite" in open_page(samples.curves()).locator(".nb-note").inner_text()


def test_pointer_and_arrow_keys_read_values(open_page: Open) -> None:
    page = open_page(samples.curves())
    canvas, tip = page.locator(".nb-plot canvas"), page.locator(".nb-tip")
    canvas.hover(position={"x": 450, "y": 100})
    assert re.search(r"step \d+", tip.inner_text())
    assert "validation" in tip.inner_text()
    page.mouse.move(0, 0)
    assert tip.is_hidden()
    canvas.focus()
    page.keyboard.press("Home")
    assert "step 0" in tip.inner_text()
    page.keyboard.press("ArrowRight")
    assert "step 1" in tip.inner_text()
    assert "step 1" in page.locator("[aria-live]").inner_text()
    page.keyboard.press("End")
    assert "step 299" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()


def test_a_chart_speaks_for_those_who_do_not_see_it(open_page: Open) -> None:
    words = open_page(samples.curves()).get_by_role("img").first.get_attribute("aria-label")
    assert "train: 300 points, first 2.3" in words


def test_charts_of_nothing_and_of_one_point_draw(open_page: Open) -> None:
    page = open_page(
        LineChart(title="empty"),
        LineChart(series={"one": [(3, 0.5)]}),
        LineChart(series={"bad": [(0, None)]}, log=True),
    )
    assert page.locator("canvas").count() == 3


def test_findings_show_the_line_and_nest_consequences(open_page: Open) -> None:
    page = open_page(samples.findings())
    assert page.locator(".nb-cards > .nb-card").count() == 3
    first = page.locator(".nb-card").first
    assert "In[12], line 7" in first.locator(".nb-place").first.inner_text()
    assert first.locator(".nb-hit").inner_text().strip().endswith("return F.softmax(x, dim=1)")
    assert first.locator(".nb-where .nb-code > div").count() == 5
    page.get_by_text("Explains 2 more").click()
    assert page.get_by_text("16 examples cannot be memorized.").is_visible()


def test_a_module_that_is_called_by_a_number_is_said_to_be_one(open_page: Open) -> None:
    found = Finding("It ends in softmax.", Location(module="7", step=3), code="L201", name="softmax", severity="error")
    page = open_page(FindingsView(findings=[found.to_dict()]))
    assert page.locator(".nb-place").inner_text() == str(found.where) == "module 7 · step 3"
    assert str(Location(module="7", parameter="7.weight")) == "7.weight"


def test_filter_hides_a_severity_and_lifts_its_consequences(open_page: Open) -> None:
    page = open_page(samples.findings())
    page.get_by_role("button", name="2 errors").click()
    top = page.locator(".nb-cards > .nb-card")
    assert top.locator(".nb-tag b").all_inner_texts() == ["O503", "L208", "D112"]
    page.get_by_role("button", name="2 errors").click()
    assert top.first.locator(".nb-tag b").first.inner_text() == "L201"


def test_copy_puts_the_fix_on_the_clipboard(open_page: Open) -> None:
    page = open_page(samples.findings())
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy the fix").first.click()
    page.get_by_text("Copied").wait_for()
    assert page.evaluate("navigator.clipboard.readText()") == "return x  # CrossEntropyLoss applies log_softmax itself"


def test_nothing_found_reads_as_good_news(open_page: Open) -> None:
    assert "Nothing found by 12 checks" in open_page(FindingsView(checked=12)).locator(".nb-good").inner_text()


def test_before_the_first_check_there_is_no_good_news(open_page: Open) -> None:
    assert open_page(FindingsView()).locator(".nb-good").count() == 0


def test_progress_and_early_stop_are_said(open_page: Open) -> None:
    page = open_page(
        FindingsView(progress={"done": 3, "total": 12, "name": "broadcast-loss", "seconds_left": 14.2}),
        FindingsView(checked=3, stopped=True),
    )
    assert "3 of 12 · broadcast-loss · about 15 s left" in page.locator(".nb-progress").first.inner_text()
    assert "Stopped after 3 checks" in page.locator(".nb-warning").inner_text()


def test_scrubber_sets_predictions_back(open_page: Open) -> None:
    page = open_page(samples.overfit())
    body, slider = page.locator(".nb-examples tbody"), page.get_by_label("recorded step")
    assert "✓ digit 0" in body.inner_text()
    slider.fill("0")
    assert "✕ digit 3" in body.inner_text()
    assert "your SGD, lr 0.1, step 0" in page.locator(".nb-scrub").inner_text()


def test_overfit_shows_verdict_pictures_and_sparklines(open_page: Open) -> None:
    page = open_page(samples.overfit())
    assert "All 8 examples are memorized." in page.locator(".nb-banner").inner_text()
    assert page.locator(".nb-thumb").evaluate_all("all => all.every(one => one.naturalWidth === 8)")
    assert page.locator(".nb-examples canvas").first.evaluate(INK) > 2


@pytest.mark.parametrize("name", sorted(str(path.relative_to(PACKAGE_FOLDER)) for path in PACKAGE_FOLDER.rglob("*.js")))
def test_modules_are_small_local_and_plain(name: str) -> None:
    text = (PACKAGE_FOLDER / name).read_text(encoding="utf-8")
    whole = "export default" in text
    assert not whole or len(packed_module(PACKAGE_FOLDER / name).encode()) <= LARGE_PAGES.get(name, 15_000)
    assert "http" not in text
    assert "innerHTML" not in text
    assert len(text.splitlines()) <= 450
    assert not name.startswith("views/") or not re.search(r"`[^`]*\$\{[^}`]*`", text), (
        "a template inside a template would lose its blanks"
    )


@pytest.mark.parametrize(
    "view",
    [
        samples.curves(10_000),
        LineChart.from_columns(
            range(3_000), {f"layer{i}.weight": [(i + 1) / (j + 1) for j in range(3_000)] for i in range(40)}
        ),
        samples.overfit(64, 96, 300),
        FindingsView(
            findings=[*samples.findings().findings[:1]] * 200,
            checked=1,
            not_checked=[*samples.findings().not_checked] * 100,
        ),
        samples.table(100, 50),
    ],
)
def test_a_page_is_at_most_200_kb(view: Any) -> None:
    assert len(static_html(view).encode()) <= 200_000
