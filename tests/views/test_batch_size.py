"""Tests of the view of the batch-size finder."""

from __future__ import annotations

from typing import Any

from .conftest import OpenPage
from .live_pages import LivePage
from .sample_views import batch_size_view


def test_batch_size_view_marks_suggested_and_current_size(open_page: OpenPage) -> None:
    page = open_page(batch_size_view())
    rows = page.locator("tbody tr")
    assert rows.count() == 5
    assert "suggested" in rows.nth(3).inner_text()
    assert "yours" in rows.nth(2).inner_text()
    bars = page.locator(".nb-part")
    assert bars.count() == 10
    assert bars.last.is_visible()


def test_live_batch_size_view_adds_rows_when_state_arrives(page: Any) -> None:
    view = batch_size_view()
    live = LivePage(page, batch_size_view(rows=view.rows[:1], headline="", code="", suggestion=None, stoppable=True))
    assert page.locator("tbody tr").count() == 1
    live.send({"state": view.snapshot()})
    assert page.locator("tbody tr").count() == 5
