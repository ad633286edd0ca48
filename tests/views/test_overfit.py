"""Tests of the view of the overfit test."""

from __future__ import annotations

import math

from .canvas_pixels import canvas_colors
from .conftest import OpenPage
from .sample_views import overfit_view


def test_overfit_slider_shows_predictions_of_earlier_step(open_page: OpenPage) -> None:
    page = open_page(overfit_view())
    body, slider = page.locator(".nb-examples tbody"), page.get_by_label("recorded step")
    assert "✓ digit 0" in body.inner_text()
    slider.fill("0")
    assert "✕ digit 3" in body.inner_text()
    assert "your SGD, lr 0.1, step 0" in page.locator(".nb-scrub").inner_text()


def test_overfit_view_shows_verdict_images_and_sparklines(open_page: OpenPage) -> None:
    page = open_page(overfit_view())
    assert "All 8 examples are memorized." in page.locator(".nb-banner").inner_text()
    assert page.locator(".nb-thumb").evaluate_all("nodes => nodes.every(node => node.naturalWidth === 8)")
    assert len(canvas_colors(page.locator(".nb-examples canvas").first)) > 2


def test_overfit_view_without_scores_has_state_and_html() -> None:
    view = overfit_view()
    view._stored_rows = [{"attempt": 0, "step": 0, "loss": math.nan}]
    assert view.state()["frames"] == []
    assert "not run" in view.html()
