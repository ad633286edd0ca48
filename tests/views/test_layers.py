"""The view of all layers as a static page."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from nbdebug.finding import Finding, Location
from nbdebug.records import SIGNAL_LABELS as SIGNALS
from nbdebug.records import Record, RecordedModule
from nbdebug.records.record import RunEvent
from nbdebug.views.page import static_html
from nbdebug.watching.view import LayersView

from . import samples
from .conftest import Open
from .records import recorded
from .test_pages import INK

LINES = ".nb-line:not([hidden])"
NAMES = f"{LINES} .nb-path"


def found(place: dict[str, Any], severity: Any, code: str, step: int | None = None) -> dict[str, Any]:
    where = Location(**place, step=step)
    return Finding(f"{code} was seen.", where, code=code, name="a-rule", severity=severity).to_dict()


def view(steps: int = 400, layers: int = 30) -> LayersView:
    """A run with a warning at one layer, an error at a parameter of another, and a note at a block."""
    record = recorded(steps, layers)
    record.events.append(RunEvent(100, "nonfinite", "loss is inf"))
    findings = [
        found({"module": "block1.3.linear"}, "warning", "G402", 120),
        found({"parameter": "block2.7.linear.bias"}, "error", "G401", 40),
        found({"module": "block0"}, "note", "G409"),
    ]
    return LayersView(record, findings, status="step 400")


def pictures(page: Any) -> list[str]:
    """What the canvases of the rows in sight show."""
    return list(page.locator(f"{LINES} canvas").evaluate_all("all => all.map((one) => one.toDataURL())"))


def slide(page: Any, index: int) -> None:
    page.get_by_label("recorded step").fill(str(index))
    settle(page)


def settle(page: Any) -> None:
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def opened(open_page: Open, shown: LayersView, **options: Any) -> Any:
    page = open_page(shown, **options)
    page.wait_for_selector(".nb-line canvas")
    settle(page)
    return page


def test_worst_layers_come_first(open_page: Open) -> None:
    page = opened(open_page, view())
    names = page.locator(NAMES).all_inner_texts()
    assert names[:2] == ["block2.7.linear Linear", "block1.3.linear Linear"]
    assert all(name.startswith("block0.") for name in names[2:8])
    signs = page.locator(f"{LINES} .nb-dot").all_inner_texts()
    assert signs[:3] == ["✕", "▲", "●"]


def test_only_rows_in_sight_are_drawn(open_page: Open) -> None:
    page = opened(open_page, view(layers=300))
    assert page.locator(".nb-line").count() < 20
    assert page.get_by_role("treegrid").get_attribute("aria-rowcount") == "300"
    page.get_by_role("treegrid").evaluate("node => { node.scrollTop = node.scrollHeight; }")
    settle(page)
    shown = page.locator(LINES)
    assert "300" in shown.evaluate_all("all => all.map((one) => one.ariaRowIndex)")
    assert shown.count() < 20


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [560, 1200])
def test_pictures_are_drawn_in_both_themes(open_page: Open, dark: bool, width: int) -> None:
    page = opened(open_page, view(), dark=dark, width=width)
    page.locator(".nb-line").first.click()
    for canvas in page.locator("canvas:visible").all():
        assert canvas.evaluate(INK) > 4
    blue = "90,174,255" if dark else "0,102,179"
    assert page.locator(f"{LINES} canvas").first.evaluate(INK.replace("seen.size", f"seen.has('{blue}')"))
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_slider_sets_all_rows(open_page: Open) -> None:
    page = opened(open_page, view())
    last = pictures(page)
    slide(page, 3)
    assert "step 30" in page.locator(".nb-scrub").inner_text()
    now = pictures(page)
    assert len(now) == len(last)
    assert all(one != other for one, other in zip(now, last, strict=True))


def test_a_press_in_the_curves_moves_the_slider(open_page: Open) -> None:
    page = opened(open_page, view())
    page.locator(".nb-plot canvas").click(position={"x": 300, "y": 100})
    settle(page)
    assert 0 < int(page.get_by_label("recorded step").input_value()) < 39


def test_curves_come_in_groups_with_findings_as_marks(open_page: Open) -> None:
    page = opened(open_page, view())
    groups = page.get_by_role("group", name="curves")
    assert groups.get_by_role("button").all_inner_texts() == ["Loss", "Score", "Rate", "Gradient norm", "Step time"]
    assert page.locator(".nb-entry").all_inner_texts() == ["loss", "validation loss"]
    before = page.locator(".nb-plot canvas").evaluate("node => node.toDataURL()")
    groups.get_by_role("button", name="Score").click()
    assert page.locator(".nb-entry").all_inner_texts() == ["score of fixed validation samples"]
    assert page.locator(".nb-plot canvas").evaluate("node => node.toDataURL()") != before


def test_a_mark_has_its_finding(open_page: Open) -> None:
    shown = view()
    shown.record.events += [RunEvent(60, "finding", "G409 a-rule"), RunEvent(80, "finding", "T604 oscillating-loss")]
    said = opened(open_page, shown).locator(".nb-plot canvas").get_attribute("aria-label")
    assert re.findall(r"(\S+) at (\d+)\.", said) == [("G402", "120"), ("G401", "40"), ("inf", "100"), ("G409", "60")]


def test_no_name_of_a_column_is_shown(open_page: Open) -> None:
    shown = view()
    steps, loss = shown.record.series("loss")
    for step, value in zip(steps[::50].tolist(), loss[::50].tolist(), strict=True):
        shown.record.evaluations.append(step, dict.fromkeys(SIGNALS, value) | {"accuracy": 0.5})
    page = opened(open_page, shown)
    names = []
    for group in page.get_by_role("group", name="curves").get_by_role("button").all():
        group.click()
        names += page.locator(".nb-entry").all_inner_texts()

    assert "accuracy" in names
    assert "loss of fixed training samples" in names
    assert not [one for one in names if "_" in one]
    assert "_" not in "".join(re.findall(r"<th[^>]*>(.*?)</th>", shown.html()))


def test_a_clip_threshold_is_suggested_with_its_picture(open_page: Open) -> None:
    shown = view()
    page = opened(open_page, shown)
    assert page.locator("details").is_hidden()
    page.get_by_role("button", name="Gradient norm").click()
    page.locator("summary").click()
    norms = np.sort(shown.record.series("gradient_norm")[1])
    said = re.search(r"threshold: ([\d.]+)", page.locator("summary").inner_text())
    assert said is not None
    assert float(said[1]) == pytest.approx(np.percentile(norms, 95), rel=0.06)
    assert page.locator("details canvas").evaluate(INK) > 4


def test_search_filters_and_counts(open_page: Open) -> None:
    page = opened(open_page, view())
    page.get_by_label("Filter layers").fill("block1 3")
    assert page.locator(NAMES).all_inner_texts() == ["block1.3.linear Linear"]
    assert "1 of 30 layers" in page.locator(".nb-tools").inner_text()
    page.get_by_label("Filter layers").fill("nothing like it")
    assert page.locator(LINES).count() == 0


def test_the_tree_folds(open_page: Open) -> None:
    page = opened(open_page, view())
    page.get_by_role("button", name="By module").click()
    assert page.locator(NAMES).all_inner_texts()[:3] == ["block0", "0", "linear Linear"]
    page.locator(".nb-line").first.locator(".nb-chevron").click()
    assert page.locator(NAMES).all_inner_texts()[:2] == ["block0", "block1"]
    assert page.locator(".nb-line").first.get_attribute("aria-expanded") == "false"
    page.get_by_role("button", name="Fold all").click()
    assert page.locator(NAMES).all_inner_texts() == ["block0", "block1", "block2"]
    assert page.locator(f"{LINES} .nb-dot").all_inner_texts() == ["●", "▲", "✕"]


def test_a_layer_opens_over_time_in_three_pictures(open_page: Open) -> None:
    page = opened(open_page, view())
    page.locator(".nb-line").nth(1).click()
    panel = page.get_by_role("region", name="layer over time")
    assert "G402 was seen." in panel.inner_text()
    assert panel.locator("tbody th").all_inner_texts() == ["weight", "weight gradient", "weight update", "activation"]
    seen = set()
    for name in ("Heat strip", "Percentiles", "Ridge"):
        panel.get_by_role("button", name=name).click()
        assert panel.locator("canvas").evaluate(INK) > 4
        seen.add(panel.locator("canvas").evaluate("node => node.toDataURL()"))
    panel.get_by_role("button", name="activation").click()
    seen.add(panel.locator("canvas").evaluate("node => node.toDataURL()"))
    assert len(seen) == 4
    panel.get_by_role("button", name="Close").click()
    assert panel.is_hidden()


def test_all_of_it_works_by_keyboard(open_page: Open) -> None:
    page = opened(open_page, view())
    grid, panel = page.get_by_role("treegrid"), page.locator(".nb-panel")
    grid.focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert panel.is_visible()
    assert "block1.3.linear" in panel.inner_text()
    page.keyboard.press("ArrowUp")
    assert "block2.7.linear" in panel.inner_text()
    page.keyboard.press("End")
    active = page.evaluate(
        "node => document.getElementById(node).ariaRowIndex", grid.get_attribute("aria-activedescendant")
    )
    assert active == "30"
    page.keyboard.press("Escape")
    assert panel.is_hidden()
    page.get_by_role("button", name="By module").click()
    grid.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    assert page.locator(NAMES).all_inner_texts()[:2] == ["block0", "block1"]
    page.keyboard.press("ArrowRight")
    assert page.locator(NAMES).all_inner_texts()[:2] == ["block0", "0"]


def test_rows_speak_for_those_who_do_not_see_them(open_page: Open) -> None:
    page = opened(open_page, view())
    words = page.locator(f"{LINES} canvas").nth(1).get_attribute("aria-label")
    assert re.match(r"update to weight \S+, .*G402 was seen\.", words)


def test_layers_never_seen_are_named_not_drawn(open_page: Open) -> None:
    record = Record(modules=[RecordedModule("spare", "Linear", ("spare.weight",)), RecordedModule("act", "ReLU")])
    record.run.append(0, {"loss": 1.0})
    page = opened(open_page, LayersView(record))
    assert page.locator(NAMES).all_inner_texts() == ["spare Linear", "act ReLU"]


def test_an_empty_record_and_one_without_modules_draw(open_page: Open) -> None:
    bare = recorded(50, 3)
    bare.modules = []
    page = open_page(LayersView(), LayersView(bare))
    page.wait_for_selector(".nb-line canvas")
    assert page.locator(NAMES).all_inner_texts()[0].startswith("block0.")


def test_values_that_are_not_finite_are_counted(open_page: Open) -> None:
    record = Record()
    for step, loss in enumerate([1.0, np.inf, 0.5]):
        record.run.append(step, {"loss": loss})
    assert "loss: 1 not finite" in open_page(LayersView(record)).locator(".nb-bar.nb-note").inner_text()


def test_without_scripts_it_is_a_table(open_page: Open) -> None:
    page = open_page(view(layers=90), scripts=False)
    assert page.locator("table").count() == 2
    assert "block2.7.linear" in page.locator("table").nth(1).locator("tr").nth(1).inner_text()
    assert "and 30 more layers" in page.locator("body").inner_text()
    assert "error G401 a-rule: G401 was seen." in page.locator("body").inner_text()


def test_text_from_data_never_becomes_markup(open_page: Open) -> None:
    record = recorded(50, 2)
    record.modules = [RecordedModule(samples.NASTY, samples.NASTY, ("block0.0.linear.weight",), True)]
    record.events.append(RunEvent(3, "note", samples.NASTY))
    nasty = Finding(samples.NASTY, Location(samples.NASTY), code="X", name=samples.NASTY, severity="error").to_dict()
    shown = LayersView(record, [nasty], samples.NASTY, samples.NASTY)
    page = opened(open_page, shown)
    page.locator(".nb-line").first.click()
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert samples.NASTY in page.locator(".nb-panel").inner_text()
    assert "<img" not in re.sub(r"<script.*?</script>", "", static_html(shown), flags=re.S)


@pytest.mark.parametrize("layers", [15, 60])
def test_a_page_is_at_most_200_kb(layers: int) -> None:
    assert len(static_html(view(3_000, layers)).encode()) <= 200_000
