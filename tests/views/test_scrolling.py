"""What is scrolled fades out at its lower edge while it goes on below."""

from __future__ import annotations

import pytest

from nbdebug.views.page import View

from . import samples
from .conftest import Open
from .test_layers import view

LONG = [(view(layers=30), ".nb-layers"), (samples.overfit(16), ".nb-scroll"), (samples.table(6, 8), ".nb-frame")]
SHORT = [(view(layers=3), ".nb-layers"), (samples.overfit(4), ".nb-scroll"), (samples.table(1, 2), ".nb-frame")]
FADED = "node => getComputedStyle(node).maskImage !== 'none'"


@pytest.mark.parametrize(("shown", "place"), LONG)
@pytest.mark.parametrize("dark", [False, True])
def test_the_lower_edge_fades_until_the_end_is_in_sight(open_page: Open, shown: View, place: str, dark: bool) -> None:
    page = open_page(shown, dark=dark)
    page.locator(f"{place}.nb-below").wait_for()
    assert page.locator(place).evaluate(FADED)
    page.locator(place).evaluate("node => { node.scrollTop = node.scrollHeight; }")
    page.locator(f"{place}:not(.nb-below)").wait_for()
    assert not page.locator(place).evaluate(FADED)


@pytest.mark.parametrize(("shown", "place"), SHORT)
def test_nothing_fades_where_all_is_in_sight(open_page: Open, shown: View, place: str) -> None:
    page = open_page(shown)
    page.locator(place).wait_for()
    assert not page.locator(place).evaluate(FADED)
