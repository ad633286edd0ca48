"""Tests of the static page of the layers view."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nbdebug.finding import Finding, Location
from nbdebug.records import SIGNAL_LABELS as SIGNALS
from nbdebug.records import Record, RecordedModule
from nbdebug.records.record import RunEvent
from nbdebug.views.page import static_html
from nbdebug.watching.view import LayersView

from .canvas_pixels import canvas_colors, first_line_color
from .conftest import OpenPage
from .hostile_text import HOSTILE_TEXT
from .layers_pages import ROW_NAMES, ROWS, canvas_images, layers_view, open_layers, set_slider, wait_for_frames
from .recorded_runs import make_record


def test_layer_list_orders_rows_by_severity(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view())
    names = page.locator(ROW_NAMES).all_inner_texts()
    assert names[:2] == ["block2.7.linear Linear", "block1.3.linear Linear"]
    assert all(name.startswith("block0.") for name in names[2:8])
    signs = page.locator(f"{ROWS} .nb-dot").all_inner_texts()
    assert signs[:3] == ["✕", "▲", "●"]


def test_layer_list_draws_only_visible_rows(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view(layers=300))
    assert page.locator(".nb-line").count() < 20
    assert page.get_by_role("treegrid").get_attribute("aria-rowcount") == "300"
    page.get_by_role("treegrid").evaluate("node => { node.scrollTop = node.scrollHeight; }")
    wait_for_frames(page)
    rows = page.locator(ROWS)
    assert "300" in rows.evaluate_all("nodes => nodes.map((node) => node.ariaRowIndex)")
    assert rows.count() < 20


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [560, 1200])
def test_layers_view_draws_canvases_in_theme_colors_and_fits_width(open_page: OpenPage, dark: bool, width: int) -> None:
    page = open_layers(open_page, layers_view(), dark=dark, width=width)
    page.locator(".nb-line").first.click()
    for canvas in page.locator("canvas:visible").all():
        assert len(canvas_colors(canvas)) > 4
    assert first_line_color(dark) in canvas_colors(page.locator(f"{ROWS} canvas").first)
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_step_slider_redraws_all_rows(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view())
    images_at_last_step = canvas_images(page)
    set_slider(page, 40)
    assert re.search("step (30|40|50)", page.locator(".nb-scrub").inner_text())  # the nearest step on the page
    images = canvas_images(page)
    assert len(images) == len(images_at_last_step)
    assert all(image != last_image for image, last_image in zip(images, images_at_last_step, strict=True))


def test_click_on_run_curves_moves_step_slider(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view())
    page.locator(".nb-plot canvas").click(position={"x": 300, "y": 100})
    wait_for_frames(page)
    assert 0 < int(page.get_by_label("recorded step").input_value()) < 390


def test_run_curves_are_grouped_by_quantity(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view())
    groups = page.get_by_role("group", name="curves")
    assert groups.get_by_role("button").all_inner_texts() == [
        "Loss",
        "Score",
        "Learning rate",
        "Gradient norm",
        "Step time",
    ]
    assert page.locator(".nb-entry").all_inner_texts() == ["loss", "validation loss"]
    before = page.locator(".nb-plot canvas").evaluate("node => node.toDataURL()")
    groups.get_by_role("button", name="Score").click()
    assert page.locator(".nb-entry").all_inner_texts() == ["score of fixed validation samples"]
    assert page.locator(".nb-plot canvas").evaluate("node => node.toDataURL()") != before


def test_run_curves_label_lists_findings_as_marks(open_page: OpenPage) -> None:
    view = layers_view()
    view.record.events += [RunEvent(60, "finding", "G409 a-rule"), RunEvent(80, "finding", "T604 oscillating-loss")]
    label = open_layers(open_page, view).locator(".nb-plot canvas").get_attribute("aria-label")
    assert re.findall(r"(\S+) at (\d+)\.", label) == [("G402", "120"), ("G401", "40"), ("inf", "100"), ("G409", "60")]


def test_run_curves_show_labels_instead_of_column_names(open_page: OpenPage) -> None:
    view = layers_view()
    steps, loss = view.record.series("loss")
    for step, value in zip(steps[::50].tolist(), loss[::50].tolist(), strict=True):
        view.record.evaluations.append(step, dict.fromkeys(SIGNALS, value) | {"accuracy": 0.5})
    page = open_layers(open_page, view)
    names = []
    for group in page.get_by_role("group", name="curves").get_by_role("button").all():
        group.click()
        names += page.locator(".nb-entry").all_inner_texts()

    assert "accuracy" in names
    assert "loss of fixed training samples" in names
    assert not [name for name in names if "_" in name]
    assert "_" not in "".join(re.findall(r"<th[^>]*>(.*?)</th>", view.html()))


def test_gradient_norm_group_suggests_clip_threshold_with_histogram(open_page: OpenPage) -> None:
    view = layers_view()
    page = open_layers(open_page, view)
    assert page.locator("details").is_hidden()
    page.get_by_role("button", name="Gradient norm").click()
    page.locator("summary").click()
    norms = np.sort(view.record.series("gradient_norm")[1])
    match = re.search(r"threshold: ([\d.]+)", page.locator("summary").inner_text())
    assert match is not None
    assert float(match[1]) == pytest.approx(np.percentile(norms, 95), rel=0.06)
    assert len(canvas_colors(page.locator("details canvas"))) > 4


def test_layer_filter_shows_matches_and_count(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view())
    page.get_by_label("Filter layers").fill("block1 3")
    assert page.locator(ROW_NAMES).all_inner_texts() == ["block1.3.linear Linear"]
    assert "1 of 30 layers" in page.locator(".nb-tools").inner_text()
    page.get_by_label("Filter layers").fill("nothing like it")
    assert page.locator(ROWS).count() == 0


def test_layer_tree_folds_and_sums_up_severity(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view())
    page.get_by_role("button", name="By module").click()
    assert page.locator(ROW_NAMES).all_inner_texts()[:3] == ["block0", "0", "linear Linear"]
    page.locator(".nb-line").first.locator(".nb-chevron").click()
    assert page.locator(ROW_NAMES).all_inner_texts()[:2] == ["block0", "block1"]
    assert page.locator(".nb-line").first.get_attribute("aria-expanded") == "false"
    page.get_by_role("button", name="Fold all").click()
    assert page.locator(ROW_NAMES).all_inner_texts() == ["block0", "block1", "block2"]
    assert page.locator(f"{ROWS} .nb-dot").all_inner_texts() == ["●", "▲", "✕"]


def test_layer_detail_draws_histograms_over_time_in_three_modes(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view())
    page.locator(".nb-line").nth(1).click()
    panel = page.get_by_role("region", name="layer over time")
    assert "G402 was seen." in panel.inner_text()
    assert panel.locator("tbody th").all_inner_texts() == ["weight", "weight gradient", "weight update", "activation"]
    images = set()
    for name in ("Heat strip", "Percentiles", "Ridge"):
        panel.get_by_role("button", name=name).click()
        assert len(canvas_colors(panel.locator("canvas"))) > 4
        images.add(panel.locator("canvas").evaluate("node => node.toDataURL()"))
    panel.get_by_role("button", name="activation").click()
    images.add(panel.locator("canvas").evaluate("node => node.toDataURL()"))
    assert len(images) == 4
    panel.get_by_role("button", name="Close").click()
    assert panel.is_hidden()


def test_layer_list_and_tree_are_operable_by_keyboard(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view())
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
    assert page.locator(ROW_NAMES).all_inner_texts()[:2] == ["block0", "block1"]
    page.keyboard.press("ArrowRight")
    assert page.locator(ROW_NAMES).all_inner_texts()[:2] == ["block0", "0"]


def test_layer_row_canvas_has_label_with_finding(open_page: OpenPage) -> None:
    page = open_layers(open_page, layers_view())
    label = page.locator(f"{ROWS} canvas").nth(1).get_attribute("aria-label")
    assert re.match(r"update to weight \S+, .*G402 was seen\.", label)


def test_layers_without_signals_are_listed_by_name(open_page: OpenPage) -> None:
    record = Record(modules=[RecordedModule("spare", "Linear", ("spare.weight",)), RecordedModule("act", "ReLU")])
    record.run.append(0, {"loss": 1.0})
    page = open_layers(open_page, LayersView(record))
    assert page.locator(ROW_NAMES).all_inner_texts() == ["spare Linear", "act ReLU"]


def test_layers_view_of_record_without_modules_is_drawn(open_page: OpenPage) -> None:
    record = make_record(50, 3)
    record.modules = []
    page = open_page(LayersView(), LayersView(record))
    page.wait_for_selector(".nb-line canvas")
    assert page.locator(ROW_NAMES).all_inner_texts()[0].startswith("block0.")


def test_run_curves_count_non_finite_values(open_page: OpenPage) -> None:
    record = Record()
    for step, loss in enumerate([1.0, np.inf, 0.5]):
        record.run.append(step, {"loss": loss})
    assert "loss: 1 not finite" in open_page(LayersView(record)).locator(".nb-bar.nb-note").inner_text()


def test_layers_view_without_scripts_is_table_of_60_layers(open_page: OpenPage) -> None:
    page = open_page(layers_view(layers=90), scripts=False)
    assert page.locator("table").count() == 2
    assert "block2.7.linear" in page.locator("table").nth(1).locator("tr").nth(1).inner_text()
    assert "and 30 more layers" in page.locator("body").inner_text()
    assert "error G401 a-rule: G401 was seen." in page.locator("body").inner_text()


def test_layers_view_with_hostile_text_inserts_no_markup(open_page: OpenPage) -> None:
    record = make_record(50, 2)
    record.modules = [RecordedModule(HOSTILE_TEXT, HOSTILE_TEXT, ("block0.0.linear.weight",), True)]
    record.events.append(RunEvent(3, "note", HOSTILE_TEXT))
    finding = Finding(HOSTILE_TEXT, Location(HOSTILE_TEXT), code="X", name=HOSTILE_TEXT, severity="error").to_dict()
    view = LayersView(record, [finding], HOSTILE_TEXT, HOSTILE_TEXT)
    page = open_layers(open_page, view)
    page.locator(".nb-line").first.click()
    assert page.evaluate("window.broken") is None
    assert page.locator("img").count() == 0
    assert HOSTILE_TEXT in page.locator(".nb-panel").inner_text()
    assert "<img" not in re.sub(r"<script.*?</script>", "", static_html(view), flags=re.S)


@pytest.mark.parametrize("layers", [15, 120, 400])
def test_layers_page_has_bounded_size_and_says_what_it_leaves_out(layers: int) -> None:
    view = layers_view(1_700, layers)  # more than all tables keep
    assert len(static_html(view).encode()) <= 120_000
    assert ("leaves out" in view.state()["status"]) == (layers == 400)
