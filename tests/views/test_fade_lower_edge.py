"""Tests of the faded lower edge of scrolling views."""

from __future__ import annotations

import pytest

from nbdebug.views.page import View

from .conftest import OpenPage
from .layers_pages import layers_view
from .sample_views import overfit_view, table_view

SCROLLING_VIEWS = [
    (layers_view(layers=30), ".nb-layers"),
    (overfit_view(16), ".nb-scroll"),
    (table_view(6, 8), ".nb-frame"),
]
SHORT_VIEWS = [(layers_view(layers=3), ".nb-layers"), (overfit_view(4), ".nb-scroll"), (table_view(1, 2), ".nb-frame")]
IS_FADED = "node => getComputedStyle(node).maskImage !== 'none'"


@pytest.mark.parametrize(("view", "selector"), SCROLLING_VIEWS)
@pytest.mark.parametrize("dark", [False, True])
def test_lower_edge_of_scrolling_view_fades_until_its_end_is_visible(
    open_page: OpenPage, view: View, selector: str, dark: bool
) -> None:
    page = open_page(view, dark=dark)
    page.locator(f"{selector}.nb-below").wait_for()
    assert page.locator(selector).evaluate(IS_FADED)
    page.locator(selector).evaluate("node => { node.scrollTop = node.scrollHeight; }")
    page.locator(f"{selector}:not(.nb-below)").wait_for()
    assert not page.locator(selector).evaluate(IS_FADED)


@pytest.mark.parametrize(("view", "selector"), SHORT_VIEWS)
def test_lower_edge_of_fully_visible_view_does_not_fade(open_page: OpenPage, view: View, selector: str) -> None:
    page = open_page(view)
    page.locator(selector).wait_for()
    assert not page.locator(selector).evaluate(IS_FADED)
