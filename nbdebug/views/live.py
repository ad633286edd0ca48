"""Live display of a running tool: widget, screen, Stop button and progress."""

from __future__ import annotations

import sys
import time
import weakref
from collections.abc import Callable, Mapping
from contextvars import Token
from dataclasses import dataclass
from threading import Event, RLock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Any

from nbdebug.formatting import encodable_text
from nbdebug.stop_requests import StoppableScreen, open_screen
from nbdebug.views.line_chart import pack_rows
from nbdebug.views.notebook_kernel import (
    execution_count,
    in_marimo,
    is_silent,
    is_stop_requested,
    outputs_share_page,
    shows_views,
)
from nbdebug.views.page import View, module_source, static_html, style_sheets

if TYPE_CHECKING:
    from nbdebug.views.live_page import LivePage

_RESEND_SECONDS = (1.5, 6.0)
_SECONDS_BETWEEN_REPORTS = 0.3  # to the page whose click runs a tool
_displayed_results: list[_DisplayedResult] = []
_STOP_SECONDS = 1.0  # in which a tool sees by itself that it should stop; later it is interrupted


@dataclass
class _DisplayedResult:
    """A result displayed under a cell; with a ``handle`` a later result may collapse it to its ``headline``."""

    result: Callable[[], Any]
    cell: int
    headline: str = ""
    handle: Any = None
    page: LivePage | None = None

    def collapse(self) -> None:
        """Replace the output by its headline."""
        bundle = {"text/plain": self.headline}
        if self.page is not None:
            self.page.final_bundle = bundle  # for pages that are loaded before the notebook is saved
        self.handle.update(bundle, raw=True, metadata=self.page.metadata if self.page is not None else {})


class Screen:
    """Interface of all screens; this one displays nothing, as in a script."""

    trouble = ""

    @property
    def stopped(self) -> bool:
        """True if the Stop button was pressed."""
        return False

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row to the series of the view."""

    def update(self, view: View) -> None:
        """Display ``view`` instead of the present one; of several in quick succession only the last is sent."""

    def refresh(self) -> None:
        """Display what the source of the view has received since the last time."""

    def clicks(self) -> list[dict[str, Any]]:
        """Return the clicks since the last call, oldest first: stop, pause, resume, or rate with its factor."""
        return []

    def finish(self, result: Any, brief_text: str = "") -> None:
        """Replace the live view by the static view of ``result``; ``brief_text`` is its text in the saved notebook."""

    def show(self) -> None:
        """Display the view once more, under the running cell."""

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None: ...


class LiveScreen(Screen):
    """A view under the running cell, with at most one message per ``every`` seconds and no lost row.

    If the front end fails, the screen stops sending and stores the reason in ``trouble``; the tool goes on. With
    ``hides_inner``, tools that run while the screen is open display nothing of their own.
    """

    def __init__(self, view: View, clock: Callable[[], float], every: float, hides_inner: bool = True) -> None:
        self._hides_inner = hides_inner
        self._token: Token[StoppableScreen | None] | None = None
        self._view, self._clock, self._every = view, clock, every
        self._rows: list[dict[str, float]] = []
        self._needs_full_state = self._has_new_rows = self._stop_acknowledged = False
        self._pressed, self._lock = Event(), RLock()
        self._pressed_at, self._has_seen_stop = 0.0, False
        self._clicks: list[dict[str, Any]] = []
        self._live: Any = None
        self.page: LivePage | None = None
        self._handle: Any = None
        self._timer: Timer | None = None
        self._opened_at = clock()
        self._resend_times: tuple[float, ...] = _RESEND_SECONDS
        self._sent_at = clock() - every
        self._attempt(self._open)

    @property
    def stopped(self) -> bool:
        """True if the Stop button was pressed."""
        self._attempt(self._tick)
        self._has_seen_stop = self._pressed.is_set()
        return self._has_seen_stop

    def has_unseen_stop(self) -> bool:
        """Return whether the Stop button was pressed more than a second ago, and the tool has not asked since."""
        if self._has_seen_stop or not self._pressed.is_set() or self._clock() - self._pressed_at < _STOP_SECONDS:
            return False
        return self.stopped

    def append(self, row: Mapping[str, Any]) -> None:
        """Add one row to the series of the view."""
        if self._live is not None:
            self._attempt(lambda: self._append_row(row))

    def update(self, view: View) -> None:
        """Display ``view`` instead of the present one; of several in quick succession only the last is sent."""
        with self._lock:
            self._view, self._needs_full_state = view, True
        self._attempt(self._tick)

    def refresh(self) -> None:
        """Display what the source of the view has received; too early a call is deferred to the next one."""
        self._has_new_rows = True
        self._attempt(self._tick)

    def clicks(self) -> list[dict[str, Any]]:
        """Return the clicks since the last call, oldest first: stop, pause, resume, or rate with its factor."""
        with self._lock:
            pressed, self._clicks = self._clicks, []
        return pressed

    def finish(self, result: Any, brief_text: str = "") -> None:
        """Replace the live view by the static view of ``result``; ``brief_text`` is its text in the saved notebook."""
        self._attempt(self._send)
        handle = self._handle
        if handle is not None and self._attempt(lambda: self._replace(_bundle(result, brief_text))):
            collapse_earlier_results(result)
            _displayed_results.append(
                _DisplayedResult(weakref.ref(result), execution_count(), _collapsed_headline(result), handle, self.page)
            )

    def show(self) -> None:
        """Display the view once more, under the running cell; it stays live."""
        if self.page is not None:
            self._attempt(self.page.show)

    def __enter__(self) -> LiveScreen:
        if self._hides_inner:
            self._token = open_screen.set(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Leave a static view of the last state if no result has replaced it; exceptions propagate."""
        if self._token is not None:
            open_screen.reset(self._token)
        if self._handle is not None:
            self._attempt(self._replace_by_static)

    def _open(self) -> None:
        from IPython.display import display

        if outputs_share_page():
            from nbdebug.views.live_page import LivePage

            self.page = LivePage(self._view.heading, lambda: self._view, self._snapshot, self._on_message)
            bundle, metadata = self.page.picture(), self.page.metadata
            self._handle = display(bundle, metadata=metadata, raw=True, display_id=True)  # type: ignore[no-untyped-call]
            self.page.announce()
            self._live = self.page
        else:
            from nbdebug.views.live_widget import LiveWidget

            live = LiveWidget(module_source(self._view), style_sheets(*self._view.sheets), self._snapshot)
            live.on_msg(lambda _, content, __: self._on_message(content))
            if in_marimo():
                from nbdebug.views.marimo_output import MarimoOutput

                self._handle = MarimoOutput(live)
            else:
                self._handle = display(live, display_id=True)  # type: ignore[no-untyped-call]
            self._live = live

    def _replace_by_static(self) -> None:
        self._replace(static_bundle(self._view))

    def _snapshot(self) -> dict[str, Any]:
        with self._lock:
            return self._view.snapshot()

    def _on_message(self, content: Mapping[str, Any]) -> None:
        """Record a button press; may run on another thread, and therefore does nothing else."""
        if content.get("kind") in ("whole", "hello"):  # a page has the complete state, or needs it
            self._needs_full_state, self._resend_times = content["kind"] == "whole", ()
            return
        with self._lock:
            self._clicks.append(dict(content))
        if content.get("kind") == "stop":
            self._pressed_at = self._clock()
            self._pressed.set()

    def _append_row(self, row: Mapping[str, Any]) -> None:
        with self._lock:
            self._rows.append(self._view.append(row))
        self._tick()

    def _tick(self) -> None:
        """Send pending messages now, or by a timer when they are due and the tool is busy with a long step."""
        with self._lock:
            due = self._sent_at + self._every - self._clock()
            if due <= 0:
                self._send()
            elif (self._rows or self._needs_full_state) and self._timer is None:
                self._timer = Timer(due, self._attempt, (self._on_timer,))
                self._timer.daemon = True
                self._timer.start()

    def _on_timer(self) -> None:
        with self._lock:
            self._timer = None
            self._tick()

    def _send(self) -> None:
        """Send one message with everything pending: rows, or a complete state that contains them."""
        with self._lock:
            has_unacknowledged_stop = self._pressed.is_set() and not self._stop_acknowledged
            if self._live is None or not (
                self._rows or self._needs_full_state or self._has_new_rows or has_unacknowledged_stop
            ):
                return
            message, buffers = self._message()
            self._rows, self._needs_full_state, self._has_new_rows, self._stop_acknowledged = (
                [],
                False,
                False,
                self._pressed.is_set(),
            )
            self._sent_at = self._clock()
            self._live.send({**message, "stopping": self._stop_acknowledged}, buffers)

    def _message(self) -> tuple[dict[str, Any], list[bytes]]:
        if self._needs_full_state or (self._has_new_rows and self._resend_is_due()):
            return {"state": self._view.snapshot()}, []
        if self._has_new_rows:
            return self._view.changes()
        columns = list(dict.fromkeys(name for row in self._rows for name in row))
        first = self._view.count - len(self._rows)
        message = {"first": first, "columns": columns, "head": self._view.head()}
        return message, [pack_rows(self._rows, columns)]

    def _resend_is_due(self) -> bool:
        """Return whether to send the complete state again, for a page that was loading and missed messages.

        The page requests it if the kernel can receive messages while busy; otherwise it is sent at two fixed times.
        """
        now = bool(self._resend_times) and self._clock() - self._opened_at >= self._resend_times[0]
        self._resend_times = self._resend_times[now:]
        return now

    def _replace(self, bundle: dict[str, str]) -> None:
        with self._lock:
            handle, live, self._handle, self._live = self._handle, self._live, None, None
        metadata = self.page.metadata if self.page is not None else {}
        try:
            if self.page is not None:
                bundle = self.page.end(bundle)
            handle.update(bundle, raw=True, metadata=metadata)
        finally:
            if live is not None:
                live.close()

    def _attempt(self, callback: Callable[[], None]) -> bool:
        """Run ``callback``; an exception of the front end must not end a training run."""
        try:
            callback()
        except Exception as error:
            self.trouble, self._live = f"{type(error).__name__}: {error}", None
            return False
        return True


class _InnerScreen(Screen):
    """The screen of a tool inside another one: it displays nothing, and stops if that one is stopped."""

    def __init__(self, outer: LiveScreen) -> None:
        self._outer = outer

    @property
    def stopped(self) -> bool:
        """True if the Stop button of the outer tool was pressed."""
        return self._outer.stopped


class _RequestScreen(Screen):
    """The screen of a tool that a click on a page runs: the page shows how far the tool is, and may stop it."""

    def __init__(self) -> None:
        self._sent_at = 0.0

    @property
    def stopped(self) -> bool:
        """True if the Stop button of the page was pressed."""
        return is_stop_requested()

    def update(self, view: View) -> None:
        """Report the progress to the page."""
        from nbdebug.views.kernel_bridge import report_progress  # imports the widgets

        now = time.monotonic()
        if view.progress_text and now - self._sent_at >= _SECONDS_BETWEEN_REPORTS:
            self._sent_at = now
            report_progress(text=view.progress_text)


def show_view(
    view: View, *, clock: Callable[[], float] = time.monotonic, every: float = 0.1, hides_inner: bool = True
) -> Screen:
    """Return a screen with ``view``: live under a running cell, otherwise silent with the same interface.

    It is silent as well inside another tool, and then stops with that one, and after a click on a page, which shows the
    progress and may stop the tool. With ``hides_inner`` False, as around the user's own loop, tools inside display
    themselves.
    """
    if not shows_views():
        return Screen()
    if is_silent():
        return _RequestScreen()
    outer = open_screen.get()
    return _InnerScreen(outer) if isinstance(outer, LiveScreen) else LiveScreen(view, clock, every, hides_inner)


def static_bundle(view: View) -> dict[str, Any]:
    """Return the output of a view that does not change, for the notebook in which this runs."""
    if in_marimo():
        from nbdebug.views.live_widget import widget_bundle

        return widget_bundle(view)
    return {"text/plain": view.heading, "text/html": static_html(view)}


def display_result(result: Any) -> None:
    """Display the static view of ``result`` under the cell in a notebook kernel, without a live view before it."""
    if shows_views() and not is_silent():
        _display_bundle(_bundle(result))
        _displayed_results.append(_DisplayedResult(weakref.ref(result), execution_count()))


def _display_bundle(bundle: dict[str, str]) -> None:
    """Display an output, also in pages that were opened while its cell ran."""
    if not outputs_share_page():
        from IPython.display import display

        return display(bundle, raw=True)  # type: ignore[no-untyped-call, no-any-return]
    from nbdebug.views.live_page import LivePage

    page = LivePage(final_bundle=bundle)
    page.show()
    page.close()


def print_in_script(headline: str, *, on_any_rank: bool = False) -> None:
    """Print a line to standard error outside a notebook, where nothing is displayed; in a distributed run, once."""
    from nbdebug.distributed.rank_group import is_first_rank  # imports torch

    if not shows_views() and not is_silent() and (on_any_rank or is_first_rank()):
        print(encodable_text(headline), file=sys.stderr)


def is_displayed_here(result: object) -> bool:
    """Return whether a screen displays ``result`` under the running cell, and keep it there."""
    for displayed in _results_of_this_cell():
        if displayed.result() is result:
            displayed.handle = None
            return True
    return False


def collapse_earlier_results(result: Any) -> None:
    """Collapse earlier results of this cell to their headlines when ``result`` is a browser too."""
    for displayed in _results_of_this_cell():
        if _collapsed_headline(result) and displayed.headline and displayed.handle is not None:
            displayed.collapse()
            _displayed_results.remove(displayed)


def _collapsed_headline(result: Any) -> str:
    """Return the headline that a result collapses to; "" for one that does not."""
    return str(getattr(result, "brief", ""))


def _results_of_this_cell() -> list[_DisplayedResult]:
    """Return the results displayed under the running cell."""
    now = execution_count()
    _displayed_results[:] = [displayed for displayed in _displayed_results if displayed.cell == now]
    return list(_displayed_results)


def _bundle(result: Any, brief_text: str = "") -> dict[str, str]:
    bundle = result.saved_output(brief_text) if brief_text else result._repr_mimebundle_()
    return dict(bundle[0] if isinstance(bundle, tuple) else bundle)
