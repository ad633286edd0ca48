"""Tests of the kernel bridge, which carries requests of pages to results."""

from __future__ import annotations

import gc
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from nbdebug.result import Result
from nbdebug.views import kernel_bridge
from nbdebug.views.line_chart import LineChart
from nbdebug.views.live import show_view
from nbdebug.views.live_page import LivePage
from nbdebug.views.page import View
from nbdebug.views.progress import ProgressView

from .fake_front_end import FrontEnd


@dataclass(frozen=True)
class DoublingResult(Result):
    """A result that doubles the number of a request."""

    unhashable: tuple[list[int], ...] = ([1],)

    def view(self) -> View:
        return LineChart(title="Double")

    def to_text(self) -> str:
        return "double"

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"twice": 2 * request["number"]}


def send_request(**content: Any) -> None:
    """Send a request as a page does."""
    kernel_bridge._bridge._handle_custom_msg(content, [])


def test_register_result_in_script_returns_none() -> None:
    result = DoublingResult()
    assert kernel_bridge.register_result(result) is None
    assert "nbdebug-ask" not in result._repr_mimebundle_()["text/html"]


def test_register_result_in_kernel_names_html_page_without_widget(front_end: FrontEnd) -> None:
    result = DoublingResult()
    bundle, second_bundle = result._repr_mimebundle_(), result._repr_mimebundle_()
    name = kernel_bridge.register_result(result)
    assert set(bundle) == {"text/plain", "image/png", "text/html"}
    assert f'const to = "{name}"' in bundle["text/html"]
    assert bundle == second_bundle
    assert kernel_bridge.register_result(DoublingResult()) != name


def test_register_result_without_answer_method_returns_none(front_end: FrontEnd) -> None:
    assert kernel_bridge.register_result(LineChart()) is None


def test_bridge_routes_each_request_to_its_result_and_returns_its_id(front_end: FrontEnd) -> None:
    result, second_result = DoublingResult(), DoublingResult()
    name, _ = kernel_bridge.register_result(result), kernel_bridge.register_result(second_result)
    send_request(to=name, kind="hello")
    send_request(to=name, kind="double", number=21, ask=0.5)
    send_request(to="of another kernel", kind="hello")
    assert [content for content, _ in front_end.messages] == [
        {"to": name, "ask": None, "kind": "hello"},
        {"to": name, "ask": 0.5, "kind": "double", "twice": 42},
    ]


def test_bridge_reports_exception_of_result_as_trouble(front_end: FrontEnd) -> None:
    result = DoublingResult()
    send_request(to=kernel_bridge.register_result(result) or "", kind="double", ask=1)
    assert front_end.messages[-1][0]["trouble"] == "KeyError: 'number'"


def test_report_progress_during_request_is_sent_to_its_page(
    front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(_: DoublingResult, __: Mapping[str, Any]) -> dict[str, Any]:
        kernel_bridge.report_progress(spent=3.0)
        return {}

    monkeypatch.setattr(DoublingResult, "answer", answer)
    result = DoublingResult()
    name = kernel_bridge.register_result(result)
    kernel_bridge.report_progress(spent=1.0)
    send_request(to=name, kind="double", ask=7)
    assert [content for content, _ in front_end.messages] == [
        {"to": name, "ask": 7, "kind": "progress", "spent": 3.0},
        {"to": name, "ask": 7, "kind": "double"},
    ]


def test_stop_of_a_request_reaches_the_tool_that_it_runs(front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped = []

    def answer(_: DoublingResult, request: Mapping[str, Any]) -> dict[str, Any]:
        with show_view(ProgressView("Reading", 3, 10)) as screen:
            screen.update(ProgressView("Reading", 4, 10))
            stopped.append(screen.stopped)
            send_request(to=name, kind="stop", stops=request["number"])
            stopped.append(screen.stopped)
        return {}

    monkeypatch.setattr(DoublingResult, "answer", answer)
    result = DoublingResult()
    name = kernel_bridge.register_result(result)
    send_request(to=name, kind="double", number=7, ask=7)
    send_request(to=name, kind="double", number=9, ask=8)
    assert stopped == [False, True, False, False]
    progress = [content for content, _ in front_end.messages if content["kind"] == "progress"]
    assert [content["text"] for content in progress] == ["4 of 10 samples"] * 2
    assert [content["ask"] for content in progress] == [7, 8]
    assert not any("stops" in content for content, _ in front_end.messages)


def test_request_that_is_stopped_before_it_begins_stops_its_tool_at_once(
    front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped = []

    def answer(_: DoublingResult, __: Mapping[str, Any]) -> dict[str, Any]:
        with show_view(ProgressView("Reading")) as screen:
            stopped.append(screen.stopped)
        return {}

    monkeypatch.setattr(DoublingResult, "answer", answer)
    result = DoublingResult()
    name = kernel_bridge.register_result(result)
    send_request(to=name, kind="stop", stops=3)
    for number in (3, 4):
        send_request(to=name, kind="double", ask=number)
    assert stopped == [True, False]


def test_bridge_reports_keyboard_interrupt_as_stopped(front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_: DoublingResult, __: Mapping[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(DoublingResult, "answer", answer)
    result = DoublingResult()
    send_request(to=kernel_bridge.register_result(result) or "", kind="double", ask=1)
    assert "Stopped" in front_end.messages[-1][0]["trouble"]


def test_bridge_keeps_no_result_alive_and_reports_deleted_result(front_end: FrontEnd) -> None:
    result = DoublingResult()
    name = kernel_bridge.register_result(result)
    del result
    gc.collect()
    send_request(to=name, kind="hello")
    assert "no longer exists" in front_end.messages[-1][0]["trouble"]


def test_register_result_with_failing_front_end_returns_none(
    front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    import comm

    def create_comm(*_: Any, **__: Any) -> None:
        raise OSError("no front end")

    monkeypatch.setattr(comm, "create_comm", create_comm)
    assert kernel_bridge.register_result(DoublingResult()) is None


def test_bridge_handles_request_of_another_thread_on_main_thread(
    front_end: FrontEnd, monkeypatch: pytest.MonkeyPatch
) -> None:
    from IPython.core.interactiveshell import InteractiveShell
    from tornado.ioloop import IOLoop

    class Kernel:
        io_loop = IOLoop(make_current=False)

    monkeypatch.setattr(InteractiveShell.instance(), "kernel", Kernel())
    result = DoublingResult()
    name = kernel_bridge.register_result(result)
    thread = threading.Thread(target=send_request, kwargs={"to": name, "kind": "hello"})
    thread.start()
    thread.join()
    assert front_end.messages == []
    Kernel.io_loop.add_callback(Kernel.io_loop.stop)
    Kernel.io_loop.start()
    assert [content["to"] for content, _ in front_end.messages] == [name]


def test_hello_of_page_while_its_tool_extends_the_record_is_answered(front_end: FrontEnd) -> None:
    class GrowingView(LineChart):
        readings = 0

        def snapshot(self) -> dict[str, Any]:
            GrowingView.readings += 1
            if GrowingView.readings < 3:
                raise IndexError("a row was added meanwhile")
            return super().snapshot()

    view = GrowingView(title="Training")
    page = LivePage("Training", lambda: view, view.snapshot)
    send_request(run=page.run, kind="hello")
    message, _ = front_end.messages[-1]
    assert message["to"] == page.run
    assert message["state"]["title"] == "Training"
