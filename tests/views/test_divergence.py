"""Tests of the view of a first divergence: the cells of each strip, their words, and the first one."""

from __future__ import annotations

import pytest

from .conftest import OpenPage
from .sample_views import divergence_view


def test_each_step_is_a_cell_with_its_state_in_words(open_page: OpenPage) -> None:
    page = open_page(divergence_view(), width=900)
    strip = page.get_by_role("img", name="loss: differs from step 3")
    titles = strip.locator("i").evaluate_all("nodes => nodes.map(node => node.title)")
    assert titles == [
        "loss, step 1: equal in every bit",
        "loss, step 2: equal in every bit",
        "loss, step 3: differs",
        "loss, step 4: differs",
        "loss, step 5: differs",
    ]
    assert page.locator(".nb-strip .nb-first").count() == 1
    assert page.locator(".nb-strip .nb-first").get_attribute("title") == titles[2]
    assert page.get_by_role("table", name="First differences").locator("tbody tr").count() == 2


@pytest.mark.parametrize("dark", [False, True])
def test_larger_differences_have_other_colors_than_smaller_and_equal_ones(open_page: OpenPage, dark: bool) -> None:
    page = open_page(divergence_view(), dark=dark)
    cells = page.get_by_role("img", name="loss: differs from step 3").locator("i")
    colors = cells.evaluate_all("nodes => nodes.map(node => getComputedStyle(node).backgroundColor)")
    assert colors[0] == colors[1]
    assert len(set(colors[1:])) == 4
