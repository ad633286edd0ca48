"""Tests of the view of the optimizer comparison."""

from __future__ import annotations

from typing import Any

from nbdebug.tools.compare_optimizers.view import CandidatePanel

from .conftest import OpenPage
from .live_pages import LivePage
from .sample_views import comparison_view


def test_comparison_shows_one_chart_and_one_table_row_per_candidate(open_page: OpenPage) -> None:
    page = open_page(comparison_view())
    charts = page.locator("canvas")
    assert charts.count() == 5
    tops = {round(box["y"]) for box in (charts.nth(i).bounding_box() for i in range(3))}
    assert len(tops) == 1
    assert "AdamW, learns, stable: training loss from 2.0" in charts.first.get_attribute("aria-label")
    rows = page.locator("tbody tr").all_inner_texts()
    assert len(rows) == 5
    assert "± 0.02" in rows[0]


def test_comparison_hover_reads_the_step_in_every_chart(open_page: OpenPage) -> None:
    page = open_page(comparison_view())
    page.locator("canvas").first.hover()
    readings = page.locator(".nb-note", has_text="step").all_inner_texts()
    assert len([reading for reading in readings if reading.startswith("step ")]) == 5
    assert "no value" in readings[-1]
    page.mouse.move(0, 0)
    assert page.get_by_text("lr 30", exact=True).count() == 2


def test_comparison_arrow_keys_read_values_and_escape_hides_them(open_page: OpenPage) -> None:
    page = open_page(comparison_view())
    page.locator("canvas").first.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert page.get_by_text("step 7: ").count() == 4
    page.keyboard.press("Escape")
    assert page.get_by_text("step 7: ").count() == 0


def test_comparison_logarithmic_axis_button_toggles(open_page: OpenPage) -> None:
    page = open_page(comparison_view())
    button = page.get_by_role("button", name="log", exact=True)
    before = button.get_attribute("aria-pressed")
    button.click()
    assert button.get_attribute("aria-pressed") != before


def test_live_comparison_draws_charts_when_state_arrives(page: Any) -> None:
    pending_panels = [CandidatePanel("AdamW", "learning rate to be determined", words="not run", tone="soft")]
    running_fields: dict[str, Any] = {
        "verdict": "",
        "headline": "",
        "reasons": (),
        "notes": (),
        "code": "",
        "stoppable": True,
    }
    live = LivePage(page, comparison_view(panels=pending_panels, **running_fields))
    assert page.locator(".nb-stop").is_visible()
    assert page.locator(".nb-banner").count() == 0
    live.send({"state": comparison_view(**running_fields, status="AdamW, seed 1").snapshot()})
    assert page.locator("canvas").count() == 5
    assert "AdamW, seed 1" in page.locator(".nb-status").inner_text()
    live.send({"state": comparison_view().snapshot()})
    assert "are tied" in page.locator(".nb-banner").inner_text()
