"""Tests of screens: silent in a script, live with a fake front end."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import accumulate
from typing import Any

import pytest

from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import LiveScreen, Screen, is_displayed_here, show_view
from nbdebug.watching.view import LayersView
from tests.clock import Clock

from .fake_front_end import FrontEnd, LossResult, request_of_page
from .recorded_runs import append_steps, make_record
from .sample_views import findings_view

SCRIPT = """
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


def test_screen_in_script_is_silent_and_imports_no_notebook_library() -> None:
    process = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=True)
    assert process.stdout.split() == ["False", "True", "[]"]
    assert process.stderr == ""


def test_is_displayed_here_in_script_is_false() -> None:
    screen, result = show_view(LineChart()), LossResult()
    assert type(screen) is Screen
    screen.finish(result)
    assert not is_displayed_here(result)


def test_live_screen_state_for_reloaded_page_has_every_row(front_end: FrontEnd) -> None:
    clock = Clock()
    with show_view(LineChart(), clock=clock) as screen:
        for step in range(5):
            screen.append({"step": step, "loss": math.nan if step == 2 else 1.0})
        request_of_page(screen, kind="hello")
    state = front_end.messages[-1][0]["state"]
    assert state["rows"] == 5
    assert state["lines"][0] == {"name": "loss", "x": [0, 1, 2, 3, 4], "y": [1, 1, None, 1, 1], "bad": 1}


def test_live_screen_finish_replaces_view_by_result_once(front_end: FrontEnd) -> None:
    result = LossResult(((0, 1.0),))
    with show_view(LineChart()) as screen:
        screen.finish(result)
    assert len(front_end.displays) == 1
    assert [set(bundle) for bundle in front_end.updates] == [{"text/plain", "image/png", "text/html"}]
    assert front_end.updates[0]["text/plain"].startswith("1 rows\nSaved copy.")
    assert len(front_end.ended) == 1
    assert is_displayed_here(result)
    assert not is_displayed_here(LossResult(((0, 1.0),)))


class BriefResult(LossResult):
    """A result that collapses to a headline."""

    @property
    def brief(self) -> str:
        """The headline."""
        return f"a browser of {self}"


def finish_result(result: LossResult) -> LossResult:
    """Display a result under the cell as a tool does."""
    with show_view(LineChart()) as screen:
        screen.finish(result)
    return result


def collapsed_headlines(front_end: FrontEnd) -> list[str]:
    """The headlines that replaced collapsed results."""
    return [bundle["text/plain"] for bundle in front_end.updates if set(bundle) == {"text/plain"}]


def test_later_result_with_brief_collapses_earlier_one_to_headline(front_end: FrontEnd) -> None:
    first, second = finish_result(BriefResult(((0, 1.0),))), finish_result(BriefResult())
    assert collapsed_headlines(front_end) == ["a browser of 1 rows"]
    assert not is_displayed_here(first)
    assert is_displayed_here(second)


def test_result_displayed_by_user_is_not_collapsed(front_end: FrontEnd) -> None:
    first = finish_result(BriefResult(((0, 1.0),)))
    first._ipython_display_()
    finish_result(BriefResult())._ipython_display_()
    assert collapsed_headlines(front_end) == []


def test_result_displayed_by_user_collapses_results_of_tools(front_end: FrontEnd) -> None:
    tool_result = finish_result(BriefResult(((0, 1.0),)))
    BriefResult()._ipython_display_()
    assert collapsed_headlines(front_end) == ["a browser of 1 rows"]
    assert not is_displayed_here(tool_result)


def test_results_without_brief_are_not_collapsed(front_end: FrontEnd) -> None:
    finish_result(BriefResult(((0, 1.0),)))
    finish_result(LossResult())
    finish_result(LossResult())
    assert collapsed_headlines(front_end) == []


def test_result_is_displayed_again_in_next_cell(front_end: FrontEnd) -> None:
    from IPython import get_ipython

    result = LossResult()
    with show_view(LineChart()) as screen:
        screen.finish(result)
    result._ipython_display_()
    assert len(front_end.displays) == 1
    get_ipython().execution_count += 1
    result._ipython_display_()
    assert front_end.displays[1]["text/plain"].startswith("0 rows\n")


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_live_screen_after_exception_leaves_static_view_of_last_state(
    front_end: FrontEnd, kind: type[BaseException]
) -> None:
    def tool() -> None:
        with show_view(LineChart(title="Half way")) as screen:
            screen.append({"step": 0, "loss": 1.0})
            raise kind

    with pytest.raises(kind):
        tool()
    assert "Half way" in front_end.updates[0]["text/html"]
    assert len(front_end.ended) == 1


def test_live_screen_stop_sets_flag_and_is_acknowledged_once(front_end: FrontEnd) -> None:
    clock = Clock()
    with show_view(LineChart(stoppable=True), clock=clock) as screen:
        assert not screen.stopped
        request_of_page(screen, kind="stop")
        assert screen.stopped
        assert front_end.messages[-1][0]["stopping"] is True
        message_count = len(front_end.messages)
        clock.now += 1
        assert screen.stopped
        assert len(front_end.messages) == message_count


def test_live_screen_with_failing_front_end_goes_silent(front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    result = LossResult()
    with show_view(LineChart()) as screen:
        assert isinstance(screen, LiveScreen)
        monkeypatch.setattr(type(screen._live), "send", lambda *_: 1 / 0)
        for step in range(3):
            screen.append({"step": step, "loss": 1.0})
        assert screen.trouble.startswith("ZeroDivisionError")
        screen.append({"step": 3, "loss": 1.0})
        screen.finish(result)
    assert front_end.updates[0]["text/plain"].startswith("0 rows\n")


def test_live_screen_append_to_view_without_rows_sets_trouble(front_end: FrontEnd) -> None:
    with show_view(findings_view()) as screen:
        screen.append({"step": 1})
    assert "without rows" in screen.trouble


def test_live_screen_sends_layers_view_in_contiguous_parts(front_end: FrontEnd) -> None:
    clock, record = Clock(), make_record(0)
    with show_view(LayersView(record), clock=clock) as screen:
        for _ in range(3_000):
            clock.now += 0.003
            append_steps(record, 1)
            screen.refresh()
        screen.finish(LossResult())
    assert len(front_end.messages) <= 92
    assert sum("state" in content for content, _ in front_end.messages) == 2
    data_messages = [(content, buffers[0]) for content, buffers in front_end.messages if buffers]
    assert all(len(data) <= 50_000 for _, data in data_messages)
    parts = [part for content, _ in data_messages for part in content["parts"]]
    for name, count in (("run", 3_000), ("shapes", record.shapes.total_rows), ("evaluations", 15)):
        own_parts = [part for part in parts if part["name"] == name]
        assert [part["first"] for part in own_parts] == list(
            accumulate([0, *(part["rows"] for part in own_parts[:-1])])
        )
        assert sum(part["rows"] for part in own_parts) <= count
    assert sum(part["rows"] for part in parts if part["name"] == "run") == 3_000
    assert sum("columns" in part for part in parts) == 3
    assert sum("drawn" in content["words"] for content, _ in data_messages) == 1


def test_live_screen_refresh_without_changes_sends_head_only(front_end: FrontEnd) -> None:
    clock, view = Clock(), LayersView(make_record(10))
    with show_view(view, clock=clock) as screen:
        for _ in range(2):
            clock.now += 0.5
            screen.refresh()
    content, (data,) = front_end.messages[-1]
    assert (content["parts"], content["words"], data) == ([], {}, b"")
    assert content["head"]["heard"] == {"clicks": 0, "paused": False, "factor": 1.0}


def test_live_screen_clicks_are_returned_once_and_stop_sets_flag(front_end: FrontEnd) -> None:
    clicks: list[dict[str, Any]] = [{"kind": "pause"}, {"kind": "rate", "factor": 0.5}, {"kind": "stop"}]
    view = LayersView(controls=True)
    with show_view(view) as screen:
        assert screen.clicks() == []
        for click in clicks:
            request_of_page(screen, **click)
        assert screen.stopped
        assert screen.clicks() == clicks
        assert screen.clicks() == []
    for click in clicks:
        view.answer(click)
    assert view.head()["heard"] == {"clicks": 3, "paused": False, "factor": 0.5}


def test_live_screen_sends_full_state_to_page_that_missed_rows(front_end: FrontEnd) -> None:
    clock, record = Clock(), make_record(10)
    with show_view(LayersView(record), clock=clock) as screen:
        request_of_page(screen, kind="whole")
        clock.now += 1
        screen.refresh()
        assert screen.clicks() == []
    assert front_end.messages[0][0]["state"]["held"]["run"] == 10


def test_screen_in_script_has_no_clicks() -> None:
    screen = show_view(LayersView())
    screen.refresh()
    assert screen.clicks() == []


def test_tool_inside_another_displays_nothing_and_stops_with_it(front_end: FrontEnd) -> None:
    with show_view(LineChart(stoppable=True)) as outer:
        with show_view(LineChart()) as inner:
            inner.update(LineChart())
            inner.finish(LossResult())
            assert not inner.stopped
            request_of_page(outer, kind="stop")
            assert inner.stopped
        assert len(front_end.displays) == 1
        assert not front_end.updates
    with show_view(LineChart(), hides_inner=False), show_view(LineChart()):
        assert len(front_end.displays) == 3


def test_triage_displays_one_page_in_spite_of_its_checkups(front_end: FrontEnd) -> None:
    from nbdebug.debugger import Debugger
    from nbdebug.rules.examples import healthy_classifier

    result = Debugger.of(healthy_classifier()).triage("nan")
    assert [stage.name for stage in result.stages][1:3] == ["quick", "standard"]
    assert len(front_end.displays) == 1
    assert [bundle["text/plain"].splitlines()[0] for bundle in front_end.updates] == [str(result).splitlines()[0]]
