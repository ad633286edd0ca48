"""Kernel bridge: clicks on a saved page reach the result in Python while its kernel lives."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, Protocol, runtime_checkable
from weakref import WeakValueDictionary

import anywidget
import traitlets

from nbdebug.views.notebook_kernel import (
    call_repeatedly,
    in_kernel,
    listen_on_control_channel,
    receive_while_busy,
    run_on_main_thread,
    watch_connections,
    without_display,
)
from nbdebug.views.page import PACKAGE_FOLDER, inline_module


@runtime_checkable
class PageResponder(Protocol):
    """A result that responds to requests from its page."""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response, ready for JSON; an exception is reported to the page. Runs between cells."""
        ...


_Answer = Callable[[Mapping[str, Any]], dict[str, Any] | None]
_ANNOUNCEMENT_PAUSES = (0.3, 1.5, 3.0, 6.0)  # seconds after a page has connected, until it answers

_results: WeakValueDictionary[str, Any] = WeakValueDictionary()
_names: set[str] = set()
_bridge_numbers = count(1)
_bridge: Any = None
_current_request: Mapping[str, Any] = {}  # the request in progress
_stopped_requests: set[Any] = set()  # the numbers of those that their pages have stopped
_run_requests: _Answer | None = None


def register_result(result: object) -> str | None:
    """Register a result (by weak reference) for requests of its page and return its name, or None without a kernel.

    The page is saved and holds no widget; one hidden widget in the kernel carries the requests of all pages.
    """
    if not in_kernel() or not isinstance(result, PageResponder):
        return None
    try:
        _open_bridge()
    except Exception:  # an error of the front end must not end a tool; the page then works without the kernel
        return None
    name = next((name for name, registered in _results.items() if registered is result), None) or secrets.token_hex(8)
    _results[name] = result
    _names.add(name)
    return name


def send_state(result: object, state: Callable[[], Mapping[str, Any]]) -> None:
    """Send its present state to the pages of a result, if it has any."""
    name = next((name for name, registered in _results.items() if registered is result), None)
    if name is not None:
        send_to_pages({"to": name, "kind": "state", "state": state()})


def _open_bridge() -> None:
    """Open the bridge, once."""
    global _bridge
    if _bridge is None:
        listen_on_control_channel(_on_request)
        _bridge = _Bridge()


def answer_run_requests(answer: _Answer, is_needed: Callable[[], bool]) -> None:
    """Open the bridge for pages of running tools; ``answer`` responds at once, also while a cell runs.

    It returns None for a request that does not concern a run. While ``is_needed``, a page that connects to the busy
    kernel receives the bridge again, as it cannot ask for it.
    """
    global _run_requests
    is_first, _run_requests = _run_requests is None, answer
    _open_bridge()
    if is_first:
        watch_connections(lambda: _announce_until_answered(is_needed))


def send_to_pages(message: Mapping[str, Any], buffers: list[bytes] | None = None) -> None:
    """Send a message to the pages that are named in it."""
    if _bridge is not None:
        _bridge.send(message, buffers)


def _announce_until_answered(is_needed: Callable[[], bool]) -> None:
    """Open another bridge for a page that is loading, repeatedly, until it answers."""
    announced: list[_Bridge] = []

    def is_waiting() -> bool:
        return is_needed() and not any(bridge.is_connected for bridge in announced)

    def announce() -> None:
        global _bridge
        _bridge = _Bridge()  # pages that had the previous one leave it
        announced.append(_bridge)

    call_repeatedly(announce, _ANNOUNCEMENT_PAUSES, is_waiting)


def _on_request(request: Mapping[str, Any]) -> None:
    """Respond to a request: at once if it concerns a run or stops another request, otherwise between cells."""
    if request.get("kind") == "connected":
        _bridge.is_connected = True
    if "stops" in request:
        _stopped_requests.add(request["stops"])
        return
    response = _run_requests(request) if _run_requests is not None else None
    if response:
        send_to_pages({"to": request.get("to"), "ask": request.get("ask"), "kind": request.get("kind"), **response})
    elif response is None and request.get("to") in _names:
        run_on_main_thread(lambda: _send_response(request))


def report_progress(**fields: Any) -> None:
    """Report progress to the page whose request is in progress, if there is one."""
    if _current_request and _bridge is not None:
        _bridge.send(
            {"to": _current_request.get("to"), "ask": _current_request.get("ask"), "kind": "progress", **fields}
        )


def _send_response(request: Mapping[str, Any]) -> None:
    global _current_request
    name, number = str(request.get("to")), request.get("ask")
    _current_request = request
    try:
        with without_display(lambda: number in _stopped_requests):
            response = get_response(_results.get(name), request)
    finally:
        _current_request = {}
        _stopped_requests.discard(number)
    _bridge.send({"to": name, "ask": request.get("ask"), "kind": request.get("kind"), **response})


def get_response(result: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the response of a result to a page request; errors become a ``trouble`` message."""
    if result is None:
        return {"trouble": "This result no longer exists in Python. Keep it in a variable, or run the cell again."}
    try:
        return {} if request.get("kind") == "hello" else dict(result.answer(request))
    except KeyboardInterrupt:  # the notebook's Stop button, while no cell runs
        return {"trouble": "Stopped. What this page shows is still valid."}
    except Exception as error:
        return {"trouble": f"{type(error).__name__}: {error}"}


class _Bridge(anywidget.AnyWidget):
    """A widget that is never displayed, so that nothing of it is saved; the front end creates it with the kernel."""

    _esm = traitlets.Unicode().tag(sync=True)
    session = traitlets.Unicode(secrets.token_hex(4)).tag(sync=True)
    number = traitlets.Int().tag(sync=True)

    def __init__(self) -> None:
        self.is_connected = False
        super().__init__(number=next(_bridge_numbers), _esm=inline_module(PACKAGE_FOLDER / "views/kernel_bridge.js"))
        self.on_msg(lambda _, request, __: _on_request(request))
        receive_while_busy(self.comm)
