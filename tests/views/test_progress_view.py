"""Tests of the progress view."""

from __future__ import annotations

from typing import Any

from nbdebug.views.page import module_source, static_html, style_sheets
from nbdebug.views.progress import ProgressView

from .live_pages import MOUNT_LIVE_VIEW


def test_progress_view_shows_bar_and_count(page: Any) -> None:
    view = ProgressView("What it gets wrong", 30, 120)
    page.evaluate(MOUNT_LIVE_VIEW, [module_source(view), style_sheets(), view.snapshot()])
    bar = page.get_by_role("progressbar", name="samples")
    assert bar.evaluate("node => node.value") == 0.25
    page.get_by_text("30 of 120 samples").wait_for()


def test_progress_view_of_an_ended_tool_has_no_bar(page: Any) -> None:
    view = ProgressView("Explanation", text="stopped before there was a result", stoppable=False)
    page.evaluate(MOUNT_LIVE_VIEW, [module_source(view), style_sheets(), view.snapshot()])
    page.get_by_text("stopped before there was a result").wait_for()
    assert page.locator("progress:visible").count() == 0


def test_progress_view_without_total_shows_count() -> None:
    view = ProgressView("What it gets <wrong>", 1500)
    assert "1,500 samples" in view.html()
    assert "<wrong>" not in static_html(view)
