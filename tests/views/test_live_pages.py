"""The modules as a live page runs them: rows and states arriving, Stop pressed."""

from __future__ import annotations

from typing import Any

from nbdebug.tools.overfit.view import OverfitView
from nbdebug.views.line_chart import LineChart

from .live_pages import LivePage
from .sample_views import findings_view, overfit_row, overfit_view


def test_live_line_chart_rows_extend_and_add_lines_and_keep_gaps(page: Any) -> None:
    live = LivePage(page, LineChart(title="Live"))
    live.send_rows(0, [{"step": 0, "loss": 1.0}, {"step": 1, "loss": float("inf")}])
    live.send_rows(2, [{"step": 2, "loss": 0.5, "accuracy": 0.25}])
    assert page.evaluate("state.lines") == [
        {"name": "loss", "x": [0, 1, 2], "y": [1, None, 0.5], "bad": 1},
        {"name": "accuracy", "x": [2], "y": [0.25], "bad": 0},
    ]
    assert page.locator(".nb-entry").all_inner_texts() == ["loss", "accuracy"]
    assert "loss: 1 not finite" in page.locator(".nb-note").inner_text()


def test_live_line_chart_ignores_repeated_rows_and_reports_lost_ones(page: Any) -> None:
    live = LivePage(page, LineChart(title="Live"))
    rows = [{"step": step, "loss": 1.0} for step in range(10)]
    live.send_rows(0, rows[:4])
    live.send_rows(2, rows[2:6])
    assert page.evaluate("state.lines[0].x") == [0, 1, 2, 3, 4, 5]
    live.send_rows(8, rows[8:])
    assert page.evaluate("[state.rows, state.lines[0].x.length]") == [10, 8]
    assert "2 rows lost in transmission" in page.locator(".nb-status").inner_text()


def test_live_findings_view_full_state_replaces_the_previous_one(page: Any) -> None:
    live = LivePage(page, findings_view())
    second_view = findings_view()
    second_view.title, second_view.findings = "Second checkup", ()
    live.send({"state": second_view.snapshot()})
    assert "Second checkup" in page.locator("body").inner_text()
    assert page.locator(".nb-card").count() == 0


def test_live_findings_view_keeps_clickable_nodes_when_state_arrives(page: Any) -> None:
    view = findings_view()
    view.progress = {"done": 1, "total": 12, "name": "rule", "seconds_left": None}
    live = LivePage(page, view)
    page.evaluate("window.nodes = ['.nb-stop', '.nb-count', '.nb-card'].map((node) => document.querySelector(node))")
    view.progress = {"done": 2, "total": 12, "name": "rule", "seconds_left": 3.0}
    live.send({"state": view.snapshot()})
    assert "2 of 12" in page.locator(".nb-progress").inner_text()
    assert page.evaluate("nodes.every((node) => node.isConnected)")
    view.progress = None
    live.send({"state": view.snapshot()})
    assert page.locator(".nb-stop").is_hidden()


def test_stop_button_shows_waiting_then_stopping(page: Any) -> None:
    live = LivePage(page, LineChart(title="Live", stoppable=True))
    button = page.locator(".nb-stop")
    button.click()
    button.dispatch_event("click")
    assert button.inner_text() == "Waiting for the cell…"
    assert page.evaluate("messages") == [{"kind": "stop"}]
    live.send_rows(0, [{"step": 0, "loss": 1.0}], stopping=True)
    assert button.inner_text() == "Stopping…"


def test_live_overfit_table_follows_run_until_slider_is_moved(page: Any) -> None:
    sample = overfit_view(4, steps=0)
    view = OverfitView(attempts=sample.attempts, examples=sample.examples, class_names=sample.class_names)
    live = LivePage(page, view)
    live.send_rows(0, [view.append(overfit_row(step, 4)) for step in range(60)])
    assert "✓ digit 3" in page.locator(".nb-examples").inner_text()
    page.get_by_label("recorded step").fill("0")
    live.send_rows(60, [view.append(overfit_row(60, 4))])
    assert "step 0" in page.locator(".nb-scrub").inner_text()
    page.get_by_label("recorded step").fill("60")
    live.send_rows(61, [view.append(overfit_row(5, 4, 1))])
    assert "Adam, lr 0.001, step 5" in page.locator(".nb-scrub").inner_text()


def test_live_line_chart_from_rows_equals_state(page: Any) -> None:
    view = LineChart(title="Live")
    live = LivePage(page, view)
    live.send_rows(0, [view.append({"step": step, "loss": step / 4}) for step in range(50)])
    assert page.evaluate("state.lines") == view.state()["lines"]
