"""Tests of the layers view while its record grows."""

from __future__ import annotations

from threading import Thread
from typing import Any

from nbdebug.records import Record
from nbdebug.views.page import PACKAGE_FOLDER, module_source, packed_module, style_sheets
from nbdebug.watching.view import LayersView

from .layers_pages import ROW_NAMES, ROWS, canvas_images, set_slider, wait_for_frames
from .live_pages import LivePage
from .recorded_runs import append_steps, make_record


class LiveLayersPage(LivePage):
    """A live page of a layers view whose record grows."""

    def __init__(self, page: Any, view: LayersView) -> None:
        self.layers = view
        super().__init__(page, view)
        page.wait_for_function("document.querySelector('.nb-status')")
        wait_for_frames(page)

    def send_changes(self) -> None:
        """Send the changes as a screen does."""
        content, (data,) = self.layers.changes()
        self.send(content, data)
        self.page.wait_for_timeout(100)
        wait_for_frames(self.page)


def test_live_layers_view_draws_new_steps(page: Any) -> None:
    view = LayersView(make_record(0, 4))
    live = LiveLayersPage(page, view)
    assert "step 0" in page.locator(".nb-scrub").inner_text()
    for _ in range(5):
        append_steps(view.record, 20)
        live.send_changes()
    assert "step 90 · live" in page.locator(".nb-scrub").inner_text()
    assert page.locator(ROW_NAMES).count() == 4
    before = canvas_images(page)
    append_steps(view.record, 20)
    live.send_changes()
    assert canvas_images(page) != before


def test_live_step_slider_stays_at_selected_step(page: Any) -> None:
    view = LayersView(make_record(100, 4))
    live = LiveLayersPage(page, view)
    set_slider(page, 20)
    append_steps(view.record, 100)
    live.send_changes()
    assert page.locator(".nb-scrub").inner_text().strip() == "step 20"


def test_live_layers_view_ignores_repeated_rows_and_requests_full_state_after_loss(page: Any) -> None:
    view = LayersView(make_record(40, 4))
    live = LiveLayersPage(page, view)
    live.send_changes()
    assert page.evaluate("messages") == []
    append_steps(view.record, 20)
    view.changes()
    append_steps(view.record, 20)
    live.send_changes()
    assert page.evaluate("messages") == [{"kind": "whole"}]
    assert "rows lost in transmission" in page.locator(".nb-status").inner_text()
    live.send({"state": view.snapshot()})
    page.wait_for_function("!document.querySelector('.nb-status').textContent.includes('lost')")
    append_steps(view.record, 20)
    live.send_changes()
    assert "step 90 · live" in page.locator(".nb-scrub").inner_text()
    assert page.evaluate("messages.length") == 1


def test_live_layers_view_that_missed_first_message_requests_full_state(page: Any) -> None:
    view = LayersView(Record())
    live = LiveLayersPage(page, view)
    record = make_record(60, 4)
    for name in ("modules", "histogram_names", "run", "evaluations", "layers", "shapes"):
        setattr(view.record, name, getattr(record, name))
    view.changes()
    append_steps(view.record, 20)
    live.send_changes()
    assert page.evaluate("messages") == [{"kind": "whole"}]
    live.send({"state": view.snapshot()})
    page.wait_for_selector(f"{ROWS} canvas")
    assert page.locator(ROW_NAMES).count() == 4


def test_layers_view_snapshot_while_other_thread_appends_raises_nothing() -> None:
    record, errors = make_record(300, 2), []

    def take_snapshots() -> None:
        try:
            for _ in range(40):
                LayersView(record).snapshot()
        except Exception as error:
            errors.append(error)

    reader = Thread(target=take_snapshots)
    reader.start()
    while reader.is_alive():
        append_steps(record, 50, snapshot_every=1)
        record.run.append(record.run.total_rows, {f"logged{record.run.total_rows}": 1.0})
    assert errors == []


def test_live_controls_wait_for_acknowledgment(page: Any) -> None:
    view = LayersView(make_record(40, 4), controls=True)
    live = LiveLayersPage(page, view)
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_text("Waiting for the cell…").count() == 1
    page.get_by_role("button", name="learning rate ×2").dispatch_event("click")
    assert page.evaluate("messages") == [{"kind": "pause"}]
    view.answer({"kind": "pause"})
    live.send_changes()
    assert page.get_by_text("Waiting for the cell…").count() == 0
    page.get_by_role("button", name="Resume").click()
    view.answer({"kind": "resume"})
    live.send_changes()
    page.get_by_role("button", name="learning rate ×½").click()
    view.answer({"kind": "rate", "factor": 0.5})
    live.send_changes()
    assert "rate ×0.5" in page.locator(".nb-controls").inner_text()
    page.get_by_role("button", name="Stop").click()
    assert page.evaluate("messages.map((message) => message.kind)") == ["pause", "resume", "rate", "stop"]


def test_live_layers_view_uses_module_of_static_page() -> None:
    assert module_source(LayersView()) == packed_module(PACKAGE_FOLDER / "watching/page.js")
    assert ".nb-layers" in style_sheets(*LayersView.sheets)
