"""Tests of the message rate of a live screen."""

from __future__ import annotations

from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import LiveScreen, show_view
from tests.clock import Clock

from .fake_front_end import FrontEnd, LossResult, received_rows
from .sample_views import findings_view


def test_live_screen_sends_every_row_in_at_most_ten_messages_per_second(front_end: FrontEnd) -> None:
    clock = Clock()
    seconds: list[float] = []
    with show_view(LineChart(), clock=clock) as screen:
        for step in range(10_000):
            clock.now += 0.003
            screen.append({"step": step, "loss": step / 2})
            seconds += [clock.now] * (len(front_end.messages) - len(seconds))
        screen.finish(LossResult())
    assert received_rows(front_end.messages) == [(step, step / 2) for step in range(10_000)]
    window = 0.99  # a message of the screen's timer is recorded one clock step later
    assert max(sum(start <= time < start + window for time in seconds) for start in seconds) <= 10
    assert len(front_end.messages) <= 302
    assert all(len(buffers) == 1 for _, buffers in front_end.messages)


def test_live_screen_timer_sends_pending_row_without_further_calls(front_end: FrontEnd) -> None:
    import time

    with show_view(LineChart(), every=0.05) as screen:
        screen.append({"step": 0, "loss": 1.0})
        screen.append({"step": 1, "loss": 0.5})
        deadline = time.monotonic() + 5
        while len(front_end.messages) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert received_rows(front_end.messages) == [(0, 1.0), (1, 0.5)]


def test_live_screen_late_timer_reschedules_pending_rows_without_sending(front_end: FrontEnd) -> None:
    clock = Clock()
    with show_view(LineChart(), clock=clock, every=3600) as screen:
        assert isinstance(screen, LiveScreen)
        for step in range(2):
            screen.append({"step": step, "loss": 1.0})
        late_timer = screen._timer
        assert late_timer is not None
        clock.now += 3600
        for step in range(2, 4):
            screen.append({"step": step, "loss": 1.0})
        late_timer.cancel()
        late_timer.function(*late_timer.args)
        assert len(front_end.messages) == 2
        assert screen._timer is not None
        assert screen._timer is not late_timer
        screen._timer.cancel()


def test_live_screen_updates_are_throttled_and_end_with_last_state(front_end: FrontEnd) -> None:
    clock = Clock()
    with show_view(findings_view(), clock=clock) as screen:
        for done in range(50):
            clock.now += 0.01
            view = findings_view()
            view.progress = {"done": done, "total": 50, "name": "rule", "seconds_left": None}
            screen.update(view)
        screen.finish(LossResult())
    progress = [content["state"]["progress"]["done"] for content, _ in front_end.messages]
    assert len(progress) <= 6
    assert progress[-1] == 49
