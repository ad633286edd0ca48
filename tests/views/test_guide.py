"""Tests of the page of a guide in a browser, without a kernel."""

from __future__ import annotations

import pytest
from torch import nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import classifier
from nbdebug.views.page import View, static_html

from .conftest import OpenPage


@pytest.fixture(scope="module")
def view() -> View:
    debugger = Debugger.of(classifier(nn.Softmax(dim=1)))
    debugger.guide().run("checkup")
    return debugger.guide().view()


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1200, False)])
def test_saved_guide_opens_steps_and_rule_pages_and_runs_nothing(
    open_page: OpenPage, view: View, width: int, dark: bool
) -> None:
    page = open_page(view, width=width, dark=dark)
    assert page.locator("[aria-current]").inner_text().split() == ["✕", "checkup"]
    page.get_by_text("Rule L201").click()
    assert "Cross-entropy expects logits." in page.locator(".nb-rule").inner_text()
    assert page.get_by_role("button", name="Repeat", exact=True).count() == 0
    page.get_by_role("button", name="Next: data").press("Enter")
    assert page.locator(".nb-question").inner_text() == "What enters the model?"
    assert page.locator(".nb-open-step pre").inner_text() == "dbg.data()"
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_guide_without_scripts_lists_all_steps(open_page: OpenPage, view: View) -> None:
    text = open_page(view, scripts=False).locator(".nb-plain").inner_text()
    for excerpt in ("✕ checkup: Does the setup contain a known mistake?", "dbg.repeatable()", "L201"):
        assert excerpt in text
    assert len(static_html(view)) < 40_000
