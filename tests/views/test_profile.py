"""Tests of the view of a profile: the stacked bars, the recommended change, and the roofline."""

from __future__ import annotations

import pytest

from .conftest import OpenPage
from .sample_views import profile_view


def test_each_step_is_a_bar_of_stacked_phases(open_page: OpenPage) -> None:
    page = open_page(profile_view(), width=900)
    bars = page.locator("section[aria-label='Timeline of the steps'] svg g")
    assert bars.count() == 12
    heights = (
        bars.nth(11).locator("rect").evaluate_all("nodes => nodes.map(node => Number(node.getAttribute('height')))")
    )
    assert [height / heights[1] for height in heights] == pytest.approx([0.51, 1.0, 2.0])
    assert bars.nth(0).locator("title").text_content() == "step 1: data 0.4 ms, forward 1 ms, backward 2 ms"


def test_recommended_change_shows_its_code(open_page: OpenPage) -> None:
    page = open_page(profile_view())
    row = page.get_by_role("table", name="Changes that were tried").locator("tbody tr")
    assert "recommended" in row.inner_text()
    assert "num_workers=4" in row.inner_text()


def test_columns_without_values_are_left_out(open_page: OpenPage) -> None:
    view = profile_view()
    view.tables["trials"] = [{**row, "cells": [*row["cells"][:3], "–", "–"]} for row in view.tables["trials"]]
    table = open_page(view).get_by_role("table", name="Changes that were tried")
    assert table.locator("th").all_inner_texts() == ["change", "ms per step", "gain"]
    assert table.locator("tbody td").count() == 3


@pytest.mark.parametrize("dark", [False, True])
def test_roofline_has_a_point_for_each_module_below_the_ceiling(open_page: OpenPage, dark: bool) -> None:
    svg = open_page(profile_view(), dark=dark).get_by_role("img", name="Roofline: modules below the measured ceilings")
    heights = svg.locator("circle").evaluate_all("nodes => nodes.map(node => Number(node.getAttribute('cy')))")
    ceiling = svg.locator("line").evaluate_all(
        "nodes => Math.min(...nodes.map(node => Number(node.getAttribute('y2'))))"
    )
    assert len(heights) == 2
    assert min(heights) > ceiling
    assert svg.locator("circle title").all_text_contents()[0].startswith("fc: 12 FLOP per byte, 30 G FLOP per second")
