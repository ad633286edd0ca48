"""The notebook kernel: the running cell, messages while it is busy, and pages that connect to it."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import blake2s
from typing import Any

_is_silent = False
_is_stop_requested: Callable[[], bool] = bool
_REQUEST_TYPE = "nbdebug_request"  # the type of the control messages that a page sends


def _running_shell() -> Any:
    """Return the running IPython, or None; never imports it."""
    ipython = sys.modules.get("IPython")
    return ipython.get_ipython() if ipython else None


def in_kernel() -> bool:
    """Return whether this runs in a notebook kernel."""
    return getattr(_running_shell(), "kernel", None) is not None


def in_marimo() -> bool:
    """Return whether this runs in a marimo notebook; never imports it."""
    marimo = sys.modules.get("marimo")
    return marimo is not None and bool(marimo.running_in_notebook())


def shows_views() -> bool:
    """Return whether a notebook displays what this process shows."""
    return in_kernel() or in_marimo()


def is_silent() -> bool:
    """Return whether this runs inside ``without_display``."""
    return _is_silent


def is_stop_requested() -> bool:
    """Return whether the user has stopped what runs inside ``without_display``."""
    return _is_stop_requested()


@contextmanager
def without_display(is_stopped: Callable[[], bool] = bool) -> Iterator[None]:
    """Return a block in which tools show and print nothing, such as one that a click on a page runs: it has no cell.

    ``is_stopped`` tells the tools whether to stop; by default they are not stopped.
    """
    global _is_silent, _is_stop_requested
    before = _is_silent, _is_stop_requested
    _is_silent, _is_stop_requested = True, is_stopped
    try:
        yield
    finally:
        _is_silent, _is_stop_requested = before


def outputs_share_page() -> bool:
    """Return whether all outputs of a notebook are in one web page, so that their scripts reach each other."""
    return not ("VSCODE_PID" in os.environ or "google.colab" in sys.modules or in_marimo())


def execution_count() -> int:
    """Return a number that differs between executions of cells; -1 outside a notebook."""
    if in_marimo():
        from nbdebug.views.marimo_output import running_execution

        return id(running_execution())
    return int(getattr(_running_shell(), "execution_count", -1))


def cell_number() -> int:
    """Return the number of the running cell as the notebook shows it; 0 if it has none."""
    return len(getattr(_running_shell(), "user_ns", {}).get("In", ())) - 1


def running_cell() -> tuple[str, str]:
    """Return the identifier of the running cell in its notebook ("" if unknown), and one of this execution of it."""
    get_parent = getattr(_running_shell(), "get_parent", dict)
    try:
        parent: Mapping[str, Any] = get_parent() or {}
    except (AttributeError, LookupError):
        parent = {}
    message = str(parent.get("header", {}).get("msg_id") or f"{os.getpid()} {execution_count()}")
    cell = str(parent.get("metadata", {}).get("cellId") or "")
    return cell, blake2s(message.encode(), digest_size=6).hexdigest()


def run_on_main_thread(callback: Callable[[], None]) -> None:
    """Run a callback on the main thread; some kernels deliver messages on another one while a cell runs."""
    if threading.current_thread() is threading.main_thread():
        callback()
    else:
        _running_shell().kernel.io_loop.add_callback(callback)


def receive_while_busy(comm: Any) -> None:
    """Keep messages on the thread that the page asked for; the kernel would route them to the busy one."""
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, default: default


def listen_on_control_channel(callback: Callable[[Mapping[str, Any]], None]) -> bool:
    """Call ``callback`` with the requests that pages send on the control channel, which a busy kernel answers too.

    The callback runs on the control thread. Return False for a kernel without such a channel.
    """
    kernel = getattr(_running_shell(), "kernel", None)
    handlers = getattr(kernel, "control_handlers", None)
    if handlers is None:
        return False

    def on_message(_: Any, __: Any, message: Mapping[str, Any]) -> None:
        try:
            callback(message["content"])
        finally:
            _announce_busy_later(kernel)

    handlers[_REQUEST_TYPE] = on_message
    return True


def _announce_busy_later(kernel: Any) -> None:
    """Tell the pages that the cell still runs; after a control message the kernel tells them that it is idle."""
    count = execution_count()

    def announce() -> None:
        if execution_count() != count or not _is_cell_running():
            return
        parent = _running_shell().get_parent()
        kernel.session.send(kernel.iopub_socket, "status", {"execution_state": "busy"}, parent=parent)

    timer = threading.Timer(0.05, _without_error(announce))
    timer.daemon = True
    timer.start()


def _is_cell_running() -> bool:
    """Return whether the main thread runs a cell now."""
    frame: Any = sys._current_frames().get(threading.main_thread().ident or 0)
    while frame is not None:
        if frame.f_code.co_name == "run_code" and "IPython" in frame.f_code.co_filename:
            return True
        frame = frame.f_back
    return False


def watch_connections(on_connect: Callable[[], None]) -> None:
    """Call ``on_connect`` on a thread whenever a page connects to the kernel, if the kernel can know.

    A page that is loaded while a cell runs gets no answer from the kernel until the cell ends. The kernel sees only
    that there is another subscriber of its output.
    """
    kernel = getattr(_running_shell(), "kernel", None)
    thread = getattr(kernel, "iopub_thread", None)
    if thread is not None:
        thread.schedule(_without_error(lambda: _start_monitor(thread.socket, on_connect)))


def _start_monitor(socket: Any, on_connect: Callable[[], None]) -> None:
    """Start the thread; runs on the thread of the socket, as a socket may be used only by one."""
    import zmq
    from zmq.utils.monitor import recv_monitor_message

    monitor = socket.get_monitor_socket(zmq.EVENT_ACCEPTED | zmq.EVENT_MONITOR_STOPPED)

    def listen() -> None:
        while recv_monitor_message(monitor)["event"] != zmq.EVENT_MONITOR_STOPPED:
            on_connect()
        monitor.close(0)  # otherwise the kernel could not end

    threading.Thread(target=_without_error(listen), name="nbdebug pages", daemon=True).start()


def call_repeatedly(callback: Callable[[], None], seconds: tuple[float, ...], is_needed: Callable[[], bool]) -> None:
    """Call ``callback`` on a thread after each of these pauses, while ``is_needed``."""

    def run() -> None:
        for pause in seconds:
            time.sleep(pause)
            if not is_needed():
                return
            callback()

    threading.Thread(target=_without_error(run), name="nbdebug announcement", daemon=True).start()


def _without_error(callback: Callable[[], None]) -> Callable[[], None]:
    """Return the callback without its exceptions; one of the front end must not reach the user's cell."""

    def call() -> None:
        try:
            callback()
        except Exception:
            return

    return call
