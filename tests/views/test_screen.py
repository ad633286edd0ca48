"""The screen a tool writes on: in a script, and with a real widget whose messages are kept."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import accumulate

import pytest

from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import LiveScreen, Screen, is_displayed_here, show_view
from nbdebug.watching.view import LayersView
from tests.clock import Clock

from . import samples
from .records import grown, recorded
from .wire import Loss, Wire, wire

__all__ = ["wire"]

ALONE = """
import sys
from nbdebug.views.line_chart import LineChart
from nbdebug.watching.view import LayersView
from nbdebug.views.live import show_view
with show_view(LineChart()) as screen:
    for step in range(100_000):
        screen.append({"step": step, "loss": 1.0})
    screen.finish(None)
print(screen.stopped, screen.trouble == "", sorted({"IPython", "anywidget", "torch", "ipywidgets"} & set(sys.modules)))
"""


def test_in_a_script_a_screen_is_silent_and_loads_nothing() -> None:
    done = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "True", "[]"]
    assert done.stderr == ""


def test_in_a_script_nothing_counts_as_shown() -> None:
    screen, result = show_view(LineChart()), Loss()
    assert type(screen) is Screen
    screen.finish(result)
    assert not is_displayed_here(result)


def test_a_reloaded_page_gets_every_row(wire: Wire) -> None:
    clock = Clock()
    with show_view(LineChart(), clock=clock) as screen:
        for step in range(5):
            screen.append({"step": step, "loss": math.nan if step == 2 else 1.0})
        assert isinstance(screen, LiveScreen)
        state = screen._live.get_state("state")["state"]
    assert state["rows"] == 5
    assert state["lines"][0] == {"name": "loss", "x": [0, 1, 2, 3, 4], "y": [1, 1, None, 1, 1], "bad": 1}


def test_finish_puts_the_result_in_place_once(wire: Wire) -> None:
    result = Loss(((0, 1.0),))
    with show_view(LineChart()) as screen:
        screen.finish(result)
    assert len(wire.displays) == 1
    assert [set(bundle) for bundle in wire.updates] == [{"text/plain", "text/html"}]
    assert wire.updates[0]["text/plain"] == "1 rows"
    assert wire.closed == 1
    assert is_displayed_here(result)
    assert not is_displayed_here(Loss(((0, 1.0),)))


class Browser(Loss):
    """A result of which one is enough under a cell."""

    @property
    def brief(self) -> str:
        """A line."""
        return f"a browser of {self}"


def finished(result: Loss) -> Loss:
    """A result that a tool has put under the cell."""
    with show_view(LineChart()) as screen:
        screen.finish(result)
    return result


def lines(wire: Wire) -> list[str]:
    """The lines that were left where a picture was."""
    return [bundle["text/plain"] for bundle in wire.updates if set(bundle) == {"text/plain"}]


def test_a_later_browser_leaves_a_line_of_an_earlier_one(wire: Wire) -> None:
    first, second = finished(Browser(((0, 1.0),))), finished(Browser())
    assert lines(wire) == ["a browser of 1 rows"]
    assert not is_displayed_here(first)
    assert is_displayed_here(second)


def test_a_browser_that_was_asked_for_stays(wire: Wire) -> None:
    first = finished(Browser(((0, 1.0),)))
    first._ipython_display_()
    finished(Browser())._ipython_display_()
    assert lines(wire) == []


def test_what_is_shown_by_hand_takes_the_place_of_what_tools_have_put(wire: Wire) -> None:
    put = finished(Browser(((0, 1.0),)))
    Browser()._ipython_display_()
    assert lines(wire) == ["a browser of 1 rows"]
    assert not is_displayed_here(put)


def test_other_results_stay_side_by_side(wire: Wire) -> None:
    finished(Browser(((0, 1.0),)))
    finished(Loss())
    finished(Loss())
    assert lines(wire) == []


def test_in_the_next_cell_the_result_is_drawn_again(wire: Wire) -> None:
    from IPython import get_ipython

    result = Loss()
    with show_view(LineChart()) as screen:
        screen.finish(result)
    result._ipython_display_()
    assert len(wire.displays) == 1
    get_ipython().execution_count += 1
    result._ipython_display_()
    assert wire.displays[1]["text/plain"] == "0 rows"


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_an_exception_leaves_a_picture_of_the_last_state(wire: Wire, kind: type[BaseException]) -> None:
    def tool() -> None:
        with show_view(LineChart(title="Half way")) as screen:
            screen.append({"step": 0, "loss": 1.0})
            raise kind

    with pytest.raises(kind):
        tool()
    assert "Half way" in wire.updates[0]["text/html"]
    assert wire.closed == 1


def test_stop_sets_a_flag_and_is_answered(wire: Wire) -> None:
    clock = Clock()
    with show_view(LineChart(stoppable=True), clock=clock) as screen:
        assert not screen.stopped
        assert isinstance(screen, LiveScreen)
        screen._live._handle_custom_msg({"kind": "stop"}, [])
        assert screen.stopped
        assert wire.messages[-1][0]["stopping"] is True
        sent = len(wire.messages)
        clock.now += 1
        assert screen.stopped
        assert len(wire.messages) == sent


def test_a_front_end_that_fails_turns_the_screen_silent(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    result = Loss()
    with show_view(LineChart()) as screen:
        assert isinstance(screen, LiveScreen)
        monkeypatch.setattr(type(screen._live), "send", lambda *_: 1 / 0)
        for step in range(3):
            screen.append({"step": step, "loss": 1.0})
        assert screen.trouble.startswith("ZeroDivisionError")
        screen.append({"step": 3, "loss": 1.0})
        screen.finish(result)
    assert wire.updates[0]["text/plain"] == "0 rows"


def test_a_view_without_rows_says_so(wire: Wire) -> None:
    with show_view(samples.findings()) as screen:
        screen.append({"step": 1})
    assert "without rows" in screen.trouble


def test_a_view_of_a_source_is_sent_piece_by_piece(wire: Wire) -> None:
    clock, record = Clock(), recorded(0)
    with show_view(LayersView(record), clock=clock) as screen:
        for _ in range(3_000):
            clock.now += 0.003
            grown(record, 1)
            screen.refresh()
        screen.finish(Loss())
    assert len(wire.messages) <= 92
    assert sum("state" in content for content, _ in wire.messages) == 2
    sent = [(content, buffers[0]) for content, buffers in wire.messages if buffers]
    assert all(len(data) <= 50_000 for _, data in sent)
    parts = [part for content, _ in sent for part in content["parts"]]
    for name, count in (("run", 3_000), ("shapes", record.shapes.total_rows), ("evaluations", 15)):
        mine = [part for part in parts if part["name"] == name]
        assert [part["first"] for part in mine] == list(accumulate([0, *(part["rows"] for part in mine[:-1])]))
        assert sum(part["rows"] for part in mine) <= count
    assert sum(part["rows"] for part in parts if part["name"] == "run") == 3_000
    assert sum("columns" in part for part in parts) == 3
    assert sum("drawn" in content["words"] for content, _ in sent) == 1


def test_nothing_new_is_sent_as_the_head_alone(wire: Wire) -> None:
    clock, shown = Clock(), LayersView(recorded(10))
    with show_view(shown, clock=clock) as screen:
        for _ in range(2):
            clock.now += 0.5
            screen.refresh()
    content, (data,) = wire.messages[-1]
    assert (content["parts"], content["words"], data) == ([], {}, b"")
    assert content["head"]["heard"] == {"clicks": 0, "paused": False, "factor": 1.0}


def test_clicks_are_handed_over_once_and_stop_still_counts(wire: Wire) -> None:
    pressed = [{"kind": "pause"}, {"kind": "rate", "factor": 0.5}, {"kind": "stop"}]
    shown = LayersView(controls=True)
    with show_view(shown) as screen:
        assert screen.clicks() == []
        assert isinstance(screen, LiveScreen)
        for one in pressed:
            screen._live._handle_custom_msg(one, [])
        assert screen.stopped
        assert screen.clicks() == pressed
        assert screen.clicks() == []
    for one in pressed:
        shown.answer(one)
    assert shown.head()["heard"] == {"clicks": 3, "paused": False, "factor": 0.5}


def test_a_page_that_missed_rows_gets_all_of_them(wire: Wire) -> None:
    clock, record = Clock(), recorded(10)
    with show_view(LayersView(record), clock=clock) as screen:
        assert isinstance(screen, LiveScreen)
        screen._live._handle_custom_msg({"kind": "whole"}, [])
        clock.now += 1
        screen.refresh()
        assert screen.clicks() == []
    assert wire.messages[0][0]["state"]["held"]["run"] == 10


def test_in_a_script_nothing_is_pressed_and_nothing_drawn() -> None:
    screen = show_view(LayersView())
    screen.refresh()
    assert screen.clicks() == []
