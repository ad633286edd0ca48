"""Kernel bridge: clicks on a saved page reach the result in Python while its kernel lives."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable
from weakref import WeakValueDictionary

import anywidget
import traitlets

from nbdebug.views.live import in_kernel, running_shell
from nbdebug.views.page import PACKAGE_FOLDER, inline_module


@runtime_checkable
class _PageResponder(Protocol):
    """A result that responds to requests from its page."""

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Return the response, ready for JSON; an exception is reported to the page. Runs between cells."""
        ...


_results: WeakValueDictionary[str, Any] = WeakValueDictionary()
_names: set[str] = set()
_bridge: Any = None
_current_request: Mapping[str, Any] = {}  # the request in progress


def register_result(result: object) -> str | None:
    """Register a result (by weak reference) for requests of its page and return its name, or None without a kernel.

    The page is saved and holds no widget; one hidden widget in the kernel carries the requests of all pages.
    """
    if not in_kernel() or not isinstance(result, _PageResponder):
        return None
    try:
        _open_bridge()
    except Exception:  # an error of the front end must not end a tool; the page then works without the kernel
        return None
    name = next((name for name, registered in _results.items() if registered is result), None) or secrets.token_hex(8)
    _results[name] = result
    _names.add(name)
    return name


def _open_bridge() -> None:
    """Open the bridge, once."""
    global _bridge
    if _bridge is None:
        _bridge = _Bridge()
        _bridge.on_msg(lambda _, request, __: _run_on_main_thread(lambda: _send_response(request)))


def _run_on_main_thread(callback: Callable[[], None]) -> None:
    """Run a callback on the main thread; some kernels deliver messages on another one while a cell runs."""
    if threading.current_thread() is threading.main_thread():
        callback()
    else:
        running_shell().kernel.io_loop.add_callback(callback)


def report_progress(**fields: Any) -> None:
    """Report progress to the page whose request is in progress, if there is one."""
    if _current_request and _bridge is not None:
        _bridge.send(
            {"to": _current_request.get("to"), "ask": _current_request.get("ask"), "kind": "progress", **fields}
        )


def _send_response(request: Mapping[str, Any]) -> None:
    global _current_request
    name = request.get("to")
    if name not in _names:
        return
    _current_request = request
    try:
        response = get_response(_results.get(name), request)
    finally:
        _current_request = {}
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

    def __init__(self) -> None:
        super().__init__(_esm=inline_module(PACKAGE_FOLDER / "views/kernel_bridge.js"))
