"""Tests of screens that open late, and of tools that do not see by themselves that they should stop."""

from __future__ import annotations

import pytest

from nbdebug.stop_requests import ToolStopped, check_stop
from nbdebug.views.late_screen import LateScreen
from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import LiveScreen, show_view
from tests.clock import Clock

from .fake_front_end import FrontEnd, LossResult, request_of_page


def test_fast_tool_displays_nothing(front_end: FrontEnd) -> None:
    with LateScreen("Comparison", Clock()) as screen:
        screen.report("running a")
        screen.finish(LossResult())
    assert front_end.displays == front_end.updates == []


def test_slow_tool_displays_progress_then_result(front_end: FrontEnd) -> None:
    clock = Clock()
    with LateScreen("Comparison", clock) as screen:
        screen.report("running a")
        clock.now += 2
        screen.report("running b")
        screen.finish(LossResult(((0, 1.0),)))
    (display,), (update,) = front_end.displays, front_end.updates
    assert "running b" in display["text/html"]
    assert update["text/plain"].startswith("1 rows")


def test_stop_of_tool_without_result_is_a_message(front_end: FrontEnd) -> None:
    clock = Clock()
    with pytest.raises(ToolStopped, match="the comparison has no result yet"), LateScreen("Comparison", clock) as late:
        clock.now += 2
        late.report("running a")
        request_of_page(late._screen, kind="stop")
        check_stop()
        clock.now += 2
        check_stop()
    assert "stopped before there was a result" in front_end.updates[-1]["text/html"]


def test_interrupt_that_is_no_stop_stays_an_interrupt(front_end: FrontEnd) -> None:
    clock = Clock()
    with pytest.raises(KeyboardInterrupt) as interrupt, LateScreen("Comparison", clock) as screen:
        clock.now += 2
        screen.report("running a")
        raise KeyboardInterrupt
    assert not isinstance(interrupt.value, ToolStopped)


@pytest.mark.parametrize(("asks_itself", "seconds", "interrupts"), [(False, 2, 1), (True, 2, 0), (False, 0.5, 0)])
def test_tool_is_interrupted_once_unless_it_sees_stop_itself(
    front_end: FrontEnd, asks_itself: bool, seconds: float, interrupts: int
) -> None:
    clock, count = Clock(), 0
    with show_view(LineChart(), clock=clock) as screen:
        assert isinstance(screen, LiveScreen)
        request_of_page(screen, kind="stop")
        if asks_itself:
            assert screen.stopped
        clock.now += seconds
        for _ in range(3):
            try:
                check_stop()
            except KeyboardInterrupt:
                count += 1
    assert count == interrupts
    check_stop()  # no tool runs
