"""How far a pass has come, live in Chromium and as text."""

from __future__ import annotations

from typing import Any

from nbdebug.views.live import ProgressView
from nbdebug.views.page import module_source, static_html, style_sheets

from .test_live_modules import START


def test_the_bar_fills_and_the_words_follow(page: Any) -> None:
    view = ProgressView("What it gets wrong", 30, 120)
    page.evaluate(START, [module_source(view), style_sheets(), view.snapshot()])
    bar = page.get_by_role("progressbar", name="samples")
    assert bar.evaluate("node => node.value") == 0.25
    page.get_by_text("30 of 120 samples").wait_for()


def test_without_a_length_it_counts() -> None:
    view = ProgressView("What it gets <wrong>", 1500)
    assert "1,500 samples" in view.html()
    assert "<wrong>" not in static_html(view)
