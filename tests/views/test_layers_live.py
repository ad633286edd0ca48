"""The view of all layers while its record grows."""

from __future__ import annotations

from threading import Thread
from typing import Any

from nbdebug.records import Record
from nbdebug.views.page import PACKAGE_FOLDER, module_source, packed_module, style_sheets
from nbdebug.watching.view import LayersView

from .records import grown, recorded
from .test_layers import pictures, settle, slide
from .test_live_modules import Page

LINES = ".nb-line:not([hidden])"
NAMES = f"{LINES} .nb-path"


class Growing(Page):
    """A live page whose record grows."""

    def __init__(self, page: Any, shown: LayersView) -> None:
        self.layers = shown
        super().__init__(page, shown)
        page.wait_for_function("document.querySelector('.nb-status')")
        settle(page)

    def told(self) -> None:
        """What is new, as a screen sends it."""
        content, (data,) = self.layers.changes()
        self.emit(content, data)
        self.page.wait_for_timeout(100)
        settle(self.page)


def test_rows_arrive_while_it_runs(page: Any) -> None:
    shown = LayersView(recorded(0, 4))
    live = Growing(page, shown)
    assert "step 0" in page.locator(".nb-scrub").inner_text()
    for _ in range(5):
        grown(shown.record, 20)
        live.told()
    assert "step 90 · live" in page.locator(".nb-scrub").inner_text()
    assert page.locator(NAMES).count() == 4
    before = pictures(page)
    grown(shown.record, 20)
    live.told()
    assert pictures(page) != before


def test_the_slider_that_is_held_stays_while_rows_arrive(page: Any) -> None:
    shown = LayersView(recorded(100, 4))
    live = Growing(page, shown)
    slide(page, 2)
    grown(shown.record, 100)
    live.told()
    assert page.locator(".nb-scrub").inner_text().strip() == "step 20"


def test_rows_sent_again_count_once_and_lost_ones_ask_for_all(page: Any) -> None:
    shown = LayersView(recorded(40, 4))
    live = Growing(page, shown)
    live.told()
    assert page.evaluate("sent") == []
    grown(shown.record, 20)
    shown.changes()
    grown(shown.record, 20)
    live.told()
    assert page.evaluate("sent") == [{"kind": "whole"}]
    assert "rows lost in transmission" in page.locator(".nb-status").inner_text()
    live.emit({"state": shown.snapshot()})
    page.wait_for_function("!document.querySelector('.nb-status').textContent.includes('lost')")
    grown(shown.record, 20)
    live.told()
    assert "step 90 · live" in page.locator(".nb-scrub").inner_text()
    assert page.evaluate("sent.length") == 1


def test_a_page_that_missed_the_first_message_waits_for_all_of_it(page: Any) -> None:
    shown = LayersView(Record())
    live = Growing(page, shown)
    filled = recorded(60, 4)
    for name in ("modules", "drawn", "run", "evaluations", "layers", "shapes"):
        setattr(shown.record, name, getattr(filled, name))
    shown.changes()
    grown(shown.record, 20)
    live.told()
    assert page.evaluate("sent") == [{"kind": "whole"}]
    live.emit({"state": shown.snapshot()})
    page.wait_for_selector(f"{LINES} canvas")
    assert page.locator(NAMES).count() == 4


def test_a_record_is_read_while_another_thread_writes_it() -> None:
    record, errors = recorded(300, 2), []

    def read() -> None:
        try:
            for _ in range(40):
                LayersView(record).snapshot()
        except Exception as error:
            errors.append(error)

    reader = Thread(target=read)
    reader.start()
    while reader.is_alive():
        grown(record, 50, look=1)
        record.run.append(record.run.total_rows, {f"logged{record.run.total_rows}": 1.0})
    assert errors == []


def test_controls_wait_until_they_were_heard(page: Any) -> None:
    shown = LayersView(recorded(40, 4), controls=True)
    live = Growing(page, shown)
    page.get_by_role("button", name="Pause").click()
    assert page.get_by_text("Waiting for the cell…").count() == 1
    page.get_by_role("button", name="learning rate ×2").dispatch_event("click")
    assert page.evaluate("sent") == [{"kind": "pause"}]
    shown.answer({"kind": "pause"})
    live.told()
    assert page.get_by_text("Waiting for the cell…").count() == 0
    page.get_by_role("button", name="Resume").click()
    shown.answer({"kind": "resume"})
    live.told()
    page.get_by_role("button", name="learning rate ×½").click()
    shown.answer({"kind": "rate", "factor": 0.5})
    live.told()
    assert "rate ×0.5" in page.locator(".nb-controls").inner_text()
    page.get_by_role("button", name="Stop").click()
    assert page.evaluate("sent.map((one) => one.kind)") == ["pause", "resume", "rate", "stop"]


def test_the_live_module_is_what_a_page_carries() -> None:
    assert module_source(LayersView()) == packed_module(PACKAGE_FOLDER / "watching/page.js")
    assert ".nb-layers" in style_sheets(*LayersView.sheets)
