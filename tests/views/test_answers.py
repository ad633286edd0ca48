"""Results that are asked by their pages: in a kernel whose comms are kept, and in none."""

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
from nbdebug.views.page import View

from .wire import Wire, wire

__all__ = ["wire"]


@dataclass(frozen=True)
class Double(Result):
    """A result that doubles what it is asked."""

    unhashable: tuple[list[int], ...] = ([1],)

    def view(self) -> View:
        return LineChart(title="Double")

    def __str__(self) -> str:
        return "double"

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        return {"twice": 2 * asked["number"]}


@pytest.fixture(autouse=True)
def anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bridge yet."""
    monkeypatch.setattr(kernel_bridge, "_bridge", None)


def ask(**content: Any) -> None:
    """What the page sends."""
    kernel_bridge._bridge._handle_custom_msg(content, [])


def test_in_a_script_a_page_has_nobody_to_ask() -> None:
    result = Double()
    assert kernel_bridge.register_result(result) is None
    assert "nbdebug-ask" not in result._repr_mimebundle_()["text/html"]


def test_in_a_kernel_the_page_carries_the_name_and_no_widget(wire: Wire) -> None:
    result = Double()
    made, again = result._repr_mimebundle_(), result._repr_mimebundle_()
    name = kernel_bridge.register_result(result)
    assert set(made) == {"text/plain", "text/html"}
    assert f'const to = "{name}"' in made["text/html"]
    assert made == again
    assert kernel_bridge.register_result(Double()) != name


def test_a_result_that_answers_nothing_is_given_no_name(wire: Wire) -> None:
    assert kernel_bridge.register_result(LineChart()) is None


def test_each_question_is_answered_by_its_own_result_under_its_number(wire: Wire) -> None:
    result, other = Double(), Double()
    name, _ = kernel_bridge.register_result(result), kernel_bridge.register_result(other)
    ask(to=name, kind="hello")
    ask(to=name, kind="double", number=21, ask=0.5)
    ask(to="of another kernel", kind="hello")
    assert [content for content, _ in wire.messages] == [
        {"to": name, "ask": None, "kind": "hello"},
        {"to": name, "ask": 0.5, "kind": "double", "twice": 42},
    ]


def test_an_error_is_told_to_the_page(wire: Wire) -> None:
    result = Double()
    ask(to=kernel_bridge.register_result(result) or "", kind="double", ask=1)
    assert wire.messages[-1][0]["trouble"] == "KeyError: 'number'"


def test_a_page_hears_how_far_its_answer_is(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_: Double, __: Mapping[str, Any]) -> dict[str, Any]:
        kernel_bridge.report_progress(spent=3.0)
        return {}

    monkeypatch.setattr(Double, "answer", answer)
    result = Double()
    name = kernel_bridge.register_result(result)
    kernel_bridge.report_progress(spent=1.0)
    ask(to=name, kind="double", ask=7)
    assert [content for content, _ in wire.messages] == [
        {"to": name, "ask": 7, "kind": "progress", "spent": 3.0},
        {"to": name, "ask": 7, "kind": "double"},
    ]


def test_an_interrupt_is_told_to_the_page(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(_: Double, __: Mapping[str, Any]) -> dict[str, Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr(Double, "answer", answer)
    result = Double()
    ask(to=kernel_bridge.register_result(result) or "", kind="double", ask=1)
    assert "Stopped" in wire.messages[-1][0]["trouble"]


def test_a_page_keeps_no_result_alive_and_is_told_that_it_went(wire: Wire) -> None:
    result = Double()
    name = kernel_bridge.register_result(result)
    del result
    gc.collect()
    ask(to=name, kind="hello")
    assert "no longer exists" in wire.messages[-1][0]["trouble"]


def test_a_front_end_that_fails_leaves_a_page_without_a_button(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    import comm

    def broken(*_: Any, **__: Any) -> None:
        raise OSError("no front end")

    monkeypatch.setattr(comm, "create_comm", broken)
    assert kernel_bridge.register_result(Double()) is None


def test_what_is_heard_on_another_thread_waits_for_the_main_one(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    from IPython.core.interactiveshell import InteractiveShell
    from tornado.ioloop import IOLoop

    class Kernel:
        io_loop = IOLoop(make_current=False)

    monkeypatch.setattr(InteractiveShell.instance(), "kernel", Kernel())
    result = Double()
    name = kernel_bridge.register_result(result)
    thread = threading.Thread(target=ask, kwargs={"to": name, "kind": "hello"})
    thread.start()
    thread.join()
    assert wire.messages == []
    Kernel.io_loop.add_callback(Kernel.io_loop.stop)
    Kernel.io_loop.start()
    assert [content["to"] for content, _ in wire.messages] == [name]
