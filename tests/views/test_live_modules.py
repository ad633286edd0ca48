"""The modules as a live page runs them: rows and states arriving, Stop pressed."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from nbdebug.tools.overfit.view import OverfitView
from nbdebug.views.line_chart import LineChart, pack_rows
from nbdebug.views.page import View, module_source, style_sheets

from . import samples

START = """async ([source, css, state]) => {
  document.body.innerHTML = "<style></style><div id=el></div>";
  document.querySelector("style").textContent = css;
  const heard = [];
  window.sent = [];
  window.state = state;
  window.emit = (message, bytes) => {
    const wire = Uint8Array.from(atob(bytes), (c) => c.charCodeAt(0));
    heard.forEach((one) => one(message, [new DataView(wire.buffer)]));
    return new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())));
  };
  const model = {
    get: (name) => ({ state, live: true })[name],
    on: (name, one) => heard.push(one),
    send: (content) => window.sent.push(content),
  };
  const view = (await import(URL.createObjectURL(new Blob([source], { type: "text/javascript" })))).default;
  view.initialize?.({ model });
  await view.render({ model, el: document.getElementById("el") });
}"""


class Page:
    """A page with one live view on it."""

    def __init__(self, page: Any, view: View) -> None:
        self.page, self.view = page, view
        page.evaluate(START, [module_source(view), style_sheets(), view.snapshot()])

    def rows(self, first: int, rows: Sequence[Mapping[str, float]], **message: Any) -> None:
        """Sends rows as a screen does."""
        columns = list(dict.fromkeys(name for row in rows for name in row))
        content = {"first": first, "columns": columns, "head": self.view.head(), **message}
        self.emit(content, pack_rows(rows, columns))

    def emit(self, content: Mapping[str, Any], sent: bytes = b"") -> None:
        """One message."""
        self.page.evaluate("([content, bytes]) => emit(content, bytes)", [content, base64.b64encode(sent).decode()])


def test_rows_extend_lines_begin_new_ones_and_keep_gaps(page: Any) -> None:
    live = Page(page, LineChart(title="Live"))
    live.rows(0, [{"step": 0, "loss": 1.0}, {"step": 1, "loss": float("inf")}])
    live.rows(2, [{"step": 2, "loss": 0.5, "accuracy": 0.25}])
    assert page.evaluate("state.lines") == [
        {"name": "loss", "x": [0, 1, 2], "y": [1, None, 0.5], "bad": 1},
        {"name": "accuracy", "x": [2], "y": [0.25], "bad": 0},
    ]
    assert page.locator(".nb-entry").all_inner_texts() == ["loss", "accuracy"]
    assert "loss: 1 not finite" in page.locator(".nb-note").inner_text()


def test_rows_sent_twice_count_once_and_lost_ones_are_told(page: Any) -> None:
    live = Page(page, LineChart(title="Live"))
    rows = [{"step": step, "loss": 1.0} for step in range(10)]
    live.rows(0, rows[:4])
    live.rows(2, rows[2:6])
    assert page.evaluate("state.lines[0].x") == [0, 1, 2, 3, 4, 5]
    live.rows(8, rows[8:])
    assert page.evaluate("[state.rows, state.lines[0].x.length]") == [10, 8]
    assert "2 rows lost in transmission" in page.locator(".nb-status").inner_text()


def test_a_whole_state_replaces_the_old_one(page: Any) -> None:
    live = Page(page, samples.findings())
    other = samples.findings()
    other.title, other.findings = "Second checkup", ()
    live.emit({"state": other.snapshot()})
    assert "Second checkup" in page.locator("body").inner_text()
    assert page.locator(".nb-card").count() == 0


def test_what_may_be_clicked_stays_while_states_arrive(page: Any) -> None:
    view = samples.findings()
    view.progress = {"done": 1, "total": 12, "name": "rule", "seconds_left": None}
    live = Page(page, view)
    page.evaluate("window.nodes = ['.nb-stop', '.nb-count', '.nb-card'].map((one) => document.querySelector(one))")
    view.progress = {"done": 2, "total": 12, "name": "rule", "seconds_left": 3.0}
    live.emit({"state": view.snapshot()})
    assert "2 of 12" in page.locator(".nb-progress").inner_text()
    assert page.evaluate("nodes.every((one) => one.isConnected)")
    view.progress = None
    live.emit({"state": view.snapshot()})
    assert page.locator(".nb-stop").is_hidden()


def test_stop_says_how_far_the_wish_has_come(page: Any) -> None:
    live = Page(page, LineChart(title="Live", stoppable=True))
    button = page.locator(".nb-stop")
    button.click()
    button.dispatch_event("click")
    assert button.inner_text() == "Waiting for the cell…"
    assert page.evaluate("sent") == [{"kind": "stop"}]
    live.rows(0, [{"step": 0, "loss": 1.0}], stopping=True)
    assert button.inner_text() == "Stopping…"


def test_the_overfit_table_follows_the_run_until_the_scrubber_is_held(page: Any) -> None:
    sample = samples.overfit(4, steps=0)
    view = OverfitView(attempts=sample.attempts, examples=sample.examples, class_names=sample.class_names)
    live = Page(page, view)
    live.rows(0, [view.append(samples.row(step, 4)) for step in range(60)])
    assert "✓ digit 3" in page.locator(".nb-examples").inner_text()
    page.get_by_label("recorded step").fill("0")
    live.rows(60, [view.append(samples.row(60, 4))])
    assert "step 0" in page.locator(".nb-scrub").inner_text()
    page.get_by_label("recorded step").fill("60")
    live.rows(61, [view.append(samples.row(5, 4, 1))])
    assert "Adam, lr 0.001, step 5" in page.locator(".nb-scrub").inner_text()


def test_the_live_state_and_the_rows_make_the_same_picture(page: Any) -> None:
    view = LineChart(title="Live")
    live = Page(page, view)
    live.rows(0, [view.append({"step": step, "loss": step / 4}) for step in range(50)])
    assert page.evaluate("state.lines") == view.state()["lines"]
