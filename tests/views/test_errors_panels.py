"""Panels beside the overview: what is clicked in one is a query, and what takes long waits for a click."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from nbdebug.tools.errors import Errors
from nbdebug.views import page
from nbdebug.views.page import PACKAGE_FOLDER, inline_module, packed_module
from nbdebug.views.panel import Panel

from .errors import browser_of, opened
from .test_errors_page import shows, total

MODULE = """function bigPanel(state, go, ask) {
  const node = document.createElement("div"), press = document.createElement("button");
  press.textContent = `over ${state.edge}`;
  press.onclick = () => go({ ranges: { size: [state.edge, null] } }, `size over ${state.edge}`);
  node.append(press);
  return node;
}
const PANELS = { big: bigPanel };"""


def panel(name: str, quick: bool = True) -> Panel:
    """A panel that leads to the samples over an edge."""
    return Panel(
        name, name.title(), lambda _: True, lambda _: {"edge": 55}, lambda state: f"<p>{state['edge']}</p>", quick
    )


@pytest.fixture
def result() -> Errors:
    """Three classes, 300 pictures."""
    return browser_of()


@pytest.fixture
def with_panels(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Panels on the page and in Python."""

    def put(*panels: Panel) -> None:
        for place in ("presentation", "page_requests"):
            monkeypatch.setattr(f"nbdebug.tools.errors.{place}.applicable_panels", lambda _: panels)
        text = inline_module(PACKAGE_FOLDER / "tools/errors/page.js")
        found = re.search(r"const PANELS=\{.*?\};", text)
        assert found
        monkeypatch.setattr(page, "module_source", lambda _: text.replace(found[0], MODULE))

    return put


def test_a_click_in_a_panel_shows_its_samples_under_its_label(
    page: Any, result: Errors, with_panels: Any, tmp_path: Path
) -> None:
    with_panels(panel("big"), panel("unknown"))
    opened(page, result, tmp_path)
    assert page.locator(".nb-e-tabs button").all_inner_texts() == ["Overview", "Big"]
    page.get_by_role("button", name="Big").click()
    page.get_by_role("button", name="over 55").click()
    shows(page, "size over 55")
    size, right = result.table.columns["size"], result.table.right
    total(page, int((size >= 55).sum()))
    page.get_by_role("button", name="✕ wrong").click()
    total(page, int((~right & (size >= 55)).sum()))
    assert page.locator(".nb-e-chip").all_inner_texts() == ["size over 55", "wrong"]
    page.get_by_label("filter by a column").select_option("loss")
    page.get_by_label("lowest loss").fill("1")
    page.get_by_label("lowest loss").press("Enter")
    shows(page, "loss ≥ 1")
    assert page.locator(".nb-e-chip").all_inner_texts() == ["size over 55", "wrong", "loss ≥ 1"]
    page.get_by_role("button", name="remove loss ≥ 1").click()
    page.get_by_role("button", name="remove size over 55").click()
    total(page, int((~right).sum()))
    page.get_by_role("button", name="Overview").click()
    assert page.locator(".nb-e-stage").is_visible()


def test_a_panel_that_takes_long_is_computed_when_it_is_asked_for(
    page: Any, result: Errors, with_panels: Any, tmp_path: Path
) -> None:
    with_panels(panel("big", quick=False))
    opened(page, result, tmp_path)
    page.get_by_role("button", name="Big").click()
    page.get_by_role("button", name="Compute big").press("Enter")
    page.get_by_role("button", name="over 55").wait_for()
    assert page.evaluate("document.activeElement.ariaLabel") == "Big", "the keyboard is where it was"
    page.get_by_role("button", name="over 55").click()
    shows(page, "size over 55")


def test_without_python_such_a_panel_says_so(page: Any, result: Errors, with_panels: Any, tmp_path: Path) -> None:
    with_panels(panel("big", quick=False))
    opened(page, result, tmp_path, kernel=False)
    page.get_by_role("button", name="Big").click()
    page.get_by_role("button", name="Compute big").click()
    page.get_by_text("Python is not available").wait_for()


def test_the_state_of_a_panel_that_is_too_large_waits(result: Errors, with_panels: Any) -> None:
    large = Panel("large", "Large", lambda _: True, lambda _: {"x": "y" * 400_000}, lambda _: "", True)
    with_panels(panel("big"), large)
    state = json.loads(json.dumps(result.view().state()))
    assert [one["state"] for one in state["panels"]] == [{"edge": 55}, None]


def test_the_module_is_small() -> None:
    assert len(packed_module(PACKAGE_FOLDER / "tools/errors/page.js")) < 90_000
