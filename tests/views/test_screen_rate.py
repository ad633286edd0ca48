"""How often a screen writes: a few times a second, whatever the tool says, and nothing is lost."""

from __future__ import annotations

from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import LiveScreen, show_view
from tests.clock import Clock

from . import samples
from .wire import Loss, Wire, rows_of, wire

__all__ = ["wire"]


def test_ten_thousand_rows_arrive_in_at_most_ten_messages_a_second(wire: Wire) -> None:
    clock = Clock()
    seconds: list[float] = []
    with show_view(LineChart(), clock=clock) as screen:
        for step in range(10_000):
            clock.now += 0.003
            screen.append({"step": step, "loss": step / 2})
            seconds += [clock.now] * (len(wire.messages) - len(seconds))
        screen.finish(Loss())
    assert rows_of(wire.messages) == [(step, step / 2) for step in range(10_000)]
    a_second = 0.99  # what the screen's own timer sends is noted a step of the clock later
    assert max(sum(start <= one < start + a_second for one in seconds) for start in seconds) <= 10
    assert len(wire.messages) <= 302
    assert all(len(buffers) == 1 for _, buffers in wire.messages)


def test_a_row_that_waits_is_sent_when_due_though_the_tool_says_no_more(wire: Wire) -> None:
    import time

    with show_view(LineChart(), every=0.05) as screen:
        screen.append({"step": 0, "loss": 1.0})
        screen.append({"step": 1, "loss": 0.5})
        deadline = time.monotonic() + 5
        while len(wire.messages) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert rows_of(wire.messages) == [(0, 1.0), (1, 0.5)]


def test_a_timer_that_comes_late_neither_sends_too_soon_nor_forgets_what_waits(wire: Wire) -> None:
    clock = Clock()
    with show_view(LineChart(), clock=clock, every=3600) as screen:
        assert isinstance(screen, LiveScreen)
        for step in range(2):
            screen.append({"step": step, "loss": 1.0})
        late = screen._timer
        assert late is not None
        clock.now += 3600
        for step in range(2, 4):
            screen.append({"step": step, "loss": 1.0})
        late.cancel()
        late.function(*late.args)
        assert len(wire.messages) == 2
        assert screen._timer is not None
        assert screen._timer is not late
        screen._timer.cancel()


def test_states_are_throttled_and_the_last_one_wins(wire: Wire) -> None:
    clock = Clock()
    with show_view(samples.findings(), clock=clock) as screen:
        for done in range(50):
            clock.now += 0.01
            view = samples.findings()
            view.progress = {"done": done, "total": 50, "name": "rule", "seconds_left": None}
            screen.update(view)
        screen.finish(Loss())
    told = [content["state"]["progress"]["done"] for content, _ in wire.messages]
    assert len(told) <= 6
    assert told[-1] == 49
