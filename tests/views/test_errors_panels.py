"""Tests of panels next to the overview: queries from clicks, and slow panels."""

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

from .error_browser_pages import open_error_page, wait_for_filter, wait_for_total

BIG_PANEL = """function bigPanel(state, go, ask) {
  const node = document.createElement("div"), button = document.createElement("button");
  button.textContent = `over ${state.edge}`;
  button.onclick = () => go({ ranges: { size: [state.edge, null] } }, `size over ${state.edge}`);
  node.append(button);
  return node;
}
const PANELS = { big: bigPanel };"""


def edge_panel(name: str, quick: bool = True) -> Panel:
    """A panel whose button queries samples with a size of at least 55."""
    return Panel(
        name, name.title(), lambda _: True, lambda _: {"edge": 55}, lambda state: f"<p>{state['edge']}</p>", quick
    )


@pytest.fixture
def replace_panels(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replace the panels of the page and of Python."""

    def install(*panels: Panel) -> None:
        for module in ("presentation", "page_requests"):
            monkeypatch.setattr(f"nbdebug.tools.errors.{module}.applicable_panels", lambda _: panels)
        text = inline_module(PACKAGE_FOLDER / "tools/errors/page.js")
        match = re.search(r"const PANELS=\{.*?\};", text)
        assert match
        monkeypatch.setattr(page, "inline_module", lambda _: text.replace(match[0], BIG_PANEL))

    return install


def test_panel_click_shows_samples_and_label_of_its_query(
    page: Any, errors: Errors, replace_panels: Any, tmp_path: Path
) -> None:
    replace_panels(edge_panel("big"), edge_panel("unknown"))
    open_error_page(page, errors, tmp_path)
    assert page.locator(".nb-e-tabs button").all_inner_texts() == ["Overview", "Big"]
    page.get_by_role("button", name="Big").click()
    page.get_by_role("button", name="over 55").click()
    wait_for_filter(page, "size over 55")
    size, right = errors.table.columns["size"], errors.table.right
    wait_for_total(page, int((size >= 55).sum()))
    page.get_by_role("button", name="✕ wrong").click()
    wait_for_total(page, int((~right & (size >= 55)).sum()))
    assert page.locator(".nb-e-chip").all_inner_texts() == ["size over 55", "wrong"]
    page.get_by_label("filter by a column").select_option("loss")
    page.get_by_label("lowest loss").fill("1")
    page.get_by_label("lowest loss").press("Enter")
    wait_for_filter(page, "loss ≥ 1")
    assert page.locator(".nb-e-chip").all_inner_texts() == ["size over 55", "wrong", "loss ≥ 1"]
    page.get_by_role("button", name="remove loss ≥ 1").click()
    page.get_by_role("button", name="remove size over 55").click()
    wait_for_total(page, int((~right).sum()))
    page.get_by_role("button", name="Overview").click()
    assert page.locator(".nb-e-stage").is_visible()


def test_slow_panel_is_computed_on_request(page: Any, errors: Errors, replace_panels: Any, tmp_path: Path) -> None:
    replace_panels(edge_panel("big", quick=False))
    open_error_page(page, errors, tmp_path)
    page.get_by_role("button", name="Big").click()
    page.get_by_role("button", name="Compute big").press("Enter")
    page.get_by_role("button", name="over 55").wait_for()
    assert page.evaluate("document.activeElement.ariaLabel") == "Big", "the focus stays on the panel"
    page.get_by_role("button", name="over 55").click()
    wait_for_filter(page, "size over 55")


def test_slow_panel_without_kernel_reports_that_python_is_unavailable(
    page: Any, errors: Errors, replace_panels: Any, tmp_path: Path
) -> None:
    replace_panels(edge_panel("big", quick=False))
    open_error_page(page, errors, tmp_path, kernel=False)
    page.get_by_role("button", name="Big").click()
    page.get_by_role("button", name="Compute big").click()
    page.get_by_text("Python is not available").wait_for()


def test_page_state_omits_panel_state_above_size_limit(errors: Errors, replace_panels: Any) -> None:
    large_panel = Panel("large", "Large", lambda _: True, lambda _: {"x": "y" * 400_000}, lambda _: "", True)
    replace_panels(edge_panel("big"), large_panel)
    state = json.loads(json.dumps(errors.view().state()))
    assert [panel["state"] for panel in state["panels"]] == [{"edge": 55}, None]


def test_error_page_module_is_below_90_kb() -> None:
    assert len(packed_module(PACKAGE_FOLDER / "tools/errors/page.js")) < 90_000
