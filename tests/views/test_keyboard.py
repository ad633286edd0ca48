"""Tests that every view can be used with a keyboard: Tab reaches each control, and each key of a chart or list acts."""

from __future__ import annotations

from typing import Any

import pytest

from nbdebug.views.page import View

from .conftest import OpenPage
from .test_accessibility import BUILDERS

# By view and focused element: the keys, each of which must change what the page shows or where the focus is.
KEYS: dict[str, dict[str, str]] = {
    "checklist/page.js": {"summary": "Enter", ".nb-step:not([aria-current])": "Enter"},
    "crashes/page.js": {"summary": "Enter", ".nb-chevron": "Enter"},
    "history/page.js": {"canvas": "Home ArrowRight End ArrowLeft Escape", ".nb-entry": "Enter", ".nb-toggle": "Space"},
    "playgrounds/page.js": {"canvas": "Home ArrowRight End Escape", ".nb-entry": "Enter"},
    "playgrounds/page.js, drawing": {"canvas": "Home ArrowRight End Escape"},
    "tools/compare_optimizers/page.js": {"canvas": "ArrowRight ArrowRight ArrowLeft Escape", ".nb-toggle": "Space"},
    "tools/data/page.js": {
        ".nb-row": "ArrowDown ArrowUp End Home End Enter Escape",
        ".nb-sort": "Enter",
        ".nb-find": "x",
        ".nb-tab[aria-pressed=false]": "Enter",
    },
    "tools/errors/page.js": {
        ".nb-e-stage": "ArrowRight ArrowDown End Home Enter Escape",
        ".nb-e-card": "ArrowRight ArrowLeft End Home Space Escape Enter ArrowRight Escape",
        ".nb-e-pair": "Enter",
        "select": "End",
    },
    "tools/errors/panel_page.js": {"svg[tabindex]": "ArrowRight", "button.nb-sort": "Enter"},
    "tools/explain/page.js, image": {"canvas": "ArrowRight ArrowDown", ".nb-tab[aria-pressed=false]": "Enter"},
    "tools/explain/page.js, series": {"canvas": "ArrowRight ArrowRight ArrowLeft"},
    "tools/explain/page.js, table": {".nb-tab[data-text=force]": "Enter", "summary": "Enter"},
    "tools/explain/page.js, text": {".nb-x-token": "ArrowRight ArrowRight ArrowLeft"},
    "tools/importance/drift.js": {".nb-tab[aria-pressed=false]": "Enter"},
    "tools/importance/page.js": {".nb-sort": "Enter", ".nb-tab[data-text=Beeswarm]": "Enter"},
    "tools/lr_range/page.js": {
        ".nb-handle": "ArrowRight ArrowLeft PageUp PageDown Home End",
        "canvas": "Home ArrowRight Escape",
        ".nb-entry": "Enter",
    },
    "tools/overfit/page.js": {"canvas": "Home ArrowRight Escape", "input": "ArrowLeft Home", "summary": "Enter"},
    "tools/summary/page.js": {".nb-row": "ArrowDown ArrowUp ArrowLeft ArrowRight Enter Escape", ".nb-find": "c"},
    "triage/page.js": {"summary": "Enter"},
    "views/curves.js": {"canvas": "Home ArrowRight End Escape", ".nb-entry": "Enter", ".nb-toggle": "Space"},
    "views/findings.js": {"summary": "Enter", ".nb-count": "Enter"},
    "views/table.js": {".nb-row": "ArrowDown ArrowUp ArrowLeft ArrowRight End Enter Escape Home", ".nb-sort": "Enter"},
    "watching/page.js": {
        ".nb-layers": "ArrowDown ArrowUp End Home Enter Escape",
        "input[type=range]": "ArrowLeft Home End",
        "canvas": "Home ArrowRight Escape",
        ".nb-tab[aria-pressed=false]": "Enter",
    },
}
WITHOUT_KEYS = {
    *("journal/page.js", "tools/batch_size/page.js", "tools/divergence/page.js", "tools/profile/page.js"),
    "views/progress.js",
}
"""Views whose saved pages are text with buttons to copy code at most."""

OPEN_DETAILS = "nodes => nodes.forEach((node) => { node.open = true; })"
CONTROLS = """() => [...document.querySelectorAll(".nbdebug *")].filter((node) =>
  node.tabIndex >= 0 && !node.disabled && node.checkVisibility({ visibilityProperty: true }))"""
# What the page shows: its elements, the pixels of its charts, the values of its fields, and the focus.
SHOWN = """() => JSON.stringify([
  [...document.querySelectorAll(".nbdebug")].map((node) => node.outerHTML),
  [...document.querySelectorAll("canvas")].map((node) => node.toDataURL()),
  [...document.querySelectorAll("input, select")].map((node) => [node.value, node.checked]),
  [...document.querySelectorAll(".nbdebug *")].indexOf(document.activeElement)])"""


def built(name: str) -> list[View]:
    views = BUILDERS[name]()
    return views if isinstance(views, list) else [views]


def test_every_view_is_in_the_table() -> None:
    assert KEYS.keys() | WITHOUT_KEYS == BUILDERS.keys()


@pytest.mark.parametrize("name", BUILDERS)
def test_view_is_used_with_keys(open_page: OpenPage, name: str) -> None:
    page = open_page(*built(name))
    page.locator("details").evaluate_all(OPEN_DETAILS)
    assert unreached_controls(page) == []
    idle = [f"{key} on {node}" for node, keys in KEYS.get(name, {}).items() for key in idle_keys(page, node, keys)]
    assert idle == []


def unreached_controls(page: Any) -> list[str]:
    """The controls that Tab does not reach, or whose focus cannot be seen. Tab must leave the page at its end."""
    page.evaluate(f"window.controls = ({CONTROLS})(); window.reached = new Set()")
    for _ in range(2 * page.evaluate("controls.length") + 20):
        page.keyboard.press("Tab")
        if not page.evaluate("reached.add(document.activeElement) && document.activeElement !== document.body"):
            break
    else:
        return ["Tab does not leave the page"]
    return list(
        page.evaluate("controls.filter((node) => !reached.has(node)).map((node) => node.outerHTML.slice(0, 160))")
    )


def idle_keys(page: Any, selector: str, keys: str) -> list[str]:
    """The keys that change nothing, pressed one after the other on the first element of a selector."""
    page.locator(f".nbdebug :is({selector}):visible").first.focus()
    idle = []
    for key in keys.split():
        before = page.evaluate(SHOWN)
        page.keyboard.press(key)
        try:
            page.wait_for_function(f"(before) => ({SHOWN})() !== before", arg=before, timeout=1000)
        except Exception:
            idle.append(key)
    return idle
