"""Results that answer their pictures: a click on a finished page reaches Python while its kernel lives."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable
from weakref import WeakValueDictionary

from nbdebug.views.kernel import in_kernel, shell


@runtime_checkable
class Answering(Protocol):
    """A result that can be asked from its picture."""

    def answer(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What the page is told, ready for JSON; an exception is told in its place. Runs between cells."""
        ...


_results: WeakValueDictionary[str, Any] = WeakValueDictionary()
_names: set[str] = set()
_bridge: Any = None
_asked: Mapping[str, Any] = {}  # what is being answered


def name_of(result: object) -> str | None:
    """The name by which a page asks ``result``, which lives no longer for it; None where nobody could answer.

    The page itself is saved and holds no widget. One hidden widget in the kernel carries what all pages ask.
    """
    if not in_kernel() or not isinstance(result, Answering):
        return None
    try:
        _open()
    except Exception:  # what a front end throws must not end a tool: the page then tells how to do without
        return None
    name = next((name for name, one in _results.items() if one is result), None) or secrets.token_hex(8)
    _results[name] = result
    _names.add(name)
    return name


def _open() -> None:
    """Opens the bridge, once."""
    global _bridge
    if _bridge is None:
        from nbdebug.views.bridge import Bridge

        _bridge = Bridge()
        _bridge.on_msg(lambda _, asked, __: _between_cells(lambda: _answer(asked)))


def _between_cells(act: Callable[[], None]) -> None:
    """Runs ``act`` on the main thread; some kernels hand out messages on another one while a cell runs."""
    if threading.current_thread() is threading.main_thread():
        act()
    else:
        shell().kernel.io_loop.add_callback(act)


def progress(**told: Any) -> None:
    """Tells the page that asked how far its answer is, while it is computed; nothing where no page asked."""
    if _asked and _bridge is not None:
        _bridge.send({"to": _asked.get("to"), "ask": _asked.get("ask"), "kind": "progress", **told})


def _answer(asked: Mapping[str, Any]) -> None:
    global _asked
    name = asked.get("to")
    if name not in _names:
        return
    _asked = asked
    try:
        said = _said(_results.get(name), asked)
    finally:
        _asked = {}
    _bridge.send({"to": name, "ask": asked.get("ask"), "kind": asked.get("kind"), **said})


def _said(result: Any, asked: Mapping[str, Any]) -> dict[str, Any]:
    if result is None:
        return {"trouble": "Python has let go of this result. Keep it in a variable, or run the cell again."}
    try:
        return {} if asked.get("kind") == "hello" else dict(result.answer(asked))
    except KeyboardInterrupt:  # the notebook's own Stop button, while no cell runs
        return {"trouble": "It was stopped. What is on this page still holds."}
    except Exception as error:
        return {"trouble": f"{type(error).__name__}: {error}"}
