"""Tests of charts that do not mislead: sparse points, spikes, marks, and a slider on the scale of its chart."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.records.record import RunEvent
from nbdebug.tools.compare_optimizers.view import rank_texts
from nbdebug.views.line_chart import LineChart

from .conftest import OpenPage
from .layers_pages import layers_view, open_layers, set_slider


def log_switch(page: Any) -> Any:
    return page.get_by_role("button", name="log", exact=True).get_attribute("aria-pressed")


def test_run_page_shows_sparse_points_marks_and_slider_on_scale_of_chart(open_page: OpenPage) -> None:
    view = layers_view()
    last = int(view.record.run.steps[-1])
    for step in (0, last // 2, last):
        view.record.evaluations.append(step, {"sample_train_loss": 0.5, "sample_val_loss": 0.6})
    view.record.events.append(RunEvent(200, "note", "a long text of a note that does not fit above the plot at all"))
    page = open_layers(open_page, view)
    assert page.get_by_role("heading").first.inner_text().startswith("Training")
    points = page.locator(".nb-entry", has_text="fixed").locator(".nb-point")
    assert points.count() == 2
    assert points.evaluate_all("nodes => nodes.map((node) => node.clientWidth)") == [4, 4]  # hollow, within the border
    assert "does not fit above the plot at all at 200" in page.locator(".nb-bar.nb-note").inner_text()
    set_slider(page, 100)
    pin, slider = page.locator(".nb-pin").bounding_box(), page.get_by_label("recorded step").bounding_box()
    share = (100 - 0) / last
    assert abs(slider["x"] + 8 + share * (slider["width"] - 16) - pin["x"]) < 2.5
    tabs = page.get_by_role("group", name="curves").get_by_role("button")
    before = [tab.bounding_box() for tab in tabs.all()], page.locator(".nb-frame").bounding_box()["y"]
    tabs.nth(tabs.count() - 2).click()
    assert ([tab.bounding_box() for tab in tabs.all()], page.locator(".nb-frame").bounding_box()["y"]) == before


def test_spike_selects_log_axis_or_is_clipped_with_mark(open_page: OpenPage) -> None:
    values = 1 + 0.2 * np.sin(np.arange(200))
    values[100] = 400
    page = open_page(LineChart(title="positive", series={"loss": list(enumerate(values.tolist()))}))
    assert log_switch(page) == "true"
    page = open_page(LineChart(title="signed", series={"loss": list(enumerate((values - 1).tolist()))}))
    assert log_switch(page) == "false"
    assert "beyond the axis" in page.locator(".nb-bar.nb-note").inner_text()
    page = open_page(LineChart(title="plain", series={"loss": [(i, 2.3 * 0.95**i) for i in range(40)]}))
    assert log_switch(page) == "false"
    page = open_page(LineChart(title="diverges", series={"loss": [(i, max(1.0, 2.0 ** (i - 20))) for i in range(30)]}))
    assert log_switch(page) == "true"


def test_rank_texts_tell_apart_only_candidates_worse_than_all_above() -> None:
    assert rank_texts([1, 1, 1, 1, 3]) == ["not told apart"] * 5
    assert rank_texts([1, 2, 3, 0]) == ["1", "2", "3", ""]
    assert rank_texts([1, 2, 2, 4]) == ["1", "not told apart", "not told apart", "4"]
