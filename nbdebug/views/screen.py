"""What a tool shows while it works, and the result that stays in its place."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Event, RLock, Timer
from types import TracebackType
from typing import Any

from nbdebug.views.base import View, css, module, static_html
from nbdebug.views.kernel import in_kernel, shell
from nbdebug.views.series import pack

REPEATS = (1.5, 6.0)
_shown: list[Shown] = []


@dataclass
class Shown:
    """A result that stands under a cell; with a ``handle`` it may give way to a later one, and leave its ``line``."""

    result: Callable[[], Any]
    cell: int
    line: str = ""
    handle: Any = None


class Screen:
    """The face of every screen; by itself it shows nothing, as in a script."""

    trouble = ""

    @property
    def stopped(self) -> bool:
        """Whether the Stop button was pressed."""
        return False

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row to the series of the view."""

    def update(self, view: View) -> None:
        """Shows ``view`` in place of what is there; of several in a hurry the last one counts."""

    def refresh(self) -> None:
        """Shows what the view's own source has come to hold since the last time."""

    def clicks(self) -> list[dict[str, Any]]:
        """What was pressed since the last call, oldest first: stop, pause, resume, or rate with its factor."""
        return []

    def finish(self, result: Any) -> None:
        """Puts the static picture of ``result`` where the live one was."""

    def __enter__(self) -> Screen:
        """Itself."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Leaves nothing that dangles; exceptions pass through."""


class LiveScreen(Screen):
    """A view under the running cell: at most one message each ``every`` seconds, and no row lost.

    A front end that fails turns the screen silent and leaves the reason in ``trouble``; the tool goes on.
    """

    def __init__(self, view: View, clock: Callable[[], float], every: float) -> None:
        """Puts ``view`` under the cell."""
        self._view, self._clock, self._every = view, clock, every
        self._rows: list[dict[str, float]] = []
        self._stale = self._grown = self._answered = False
        self._pressed, self._lock = Event(), RLock()
        self._clicks: list[dict[str, Any]] = []
        self._live: Any = None
        self._handle: Any = None
        self._timer: Timer | None = None
        self._opened_at = clock()
        self._repeats: tuple[float, ...] = REPEATS
        self._sent_at = clock() - every
        self._try(self._open)

    @property
    def stopped(self) -> bool:
        """Whether the Stop button was pressed."""
        self._try(self._tick)
        return self._pressed.is_set()

    def append(self, row: Mapping[str, Any]) -> None:
        """Adds one row to the series of the view."""
        if self._live is not None:
            self._try(lambda: self._take(row))

    def update(self, view: View) -> None:
        """Shows ``view`` in place of what is there; of several in a hurry the last one counts."""
        with self._lock:
            self._view, self._stale = view, True
        self._try(self._tick)

    def refresh(self) -> None:
        """Shows what the view's own source has come to hold; what comes too early waits for the next call."""
        self._grown = True
        self._try(self._tick)

    def clicks(self) -> list[dict[str, Any]]:
        """What was pressed since the last call, oldest first: stop, pause, resume, or rate with its factor."""
        with self._lock:
            pressed, self._clicks = self._clicks, []
        return pressed

    def finish(self, result: Any) -> None:
        """Puts the static picture of ``result`` where the live one was."""
        self._try(self._send)
        handle = self._handle
        if handle is not None and self._try(lambda: self._replace(_bundle(result))):
            give_way(result)
            _shown.append(Shown(weakref.ref(result), _execution_count(), line_of(result), handle))

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Leaves a picture of the last state where no result took its place; exceptions pass through."""
        if self._handle is not None:
            self._try(self._leave)

    def _open(self) -> None:
        from IPython.display import display

        from nbdebug.views.live import Live

        live = Live(module(self._view), css(*self._view.sheets), self._snapshot)
        live.on_msg(self._heard)
        self._handle = display(live, display_id=True)  # type: ignore[no-untyped-call]
        self._live = live

    def _leave(self) -> None:
        self._replace({"text/plain": type(self._view).__name__, "text/html": static_html(self._view)})

    def _snapshot(self) -> dict[str, Any]:
        with self._lock:
            return self._view.snapshot()

    def _heard(self, _: Any, content: Mapping[str, Any], __: Any) -> None:
        """May run on another thread, and so only notes what was pressed."""
        if content.get("kind") == "whole":
            self._stale, self._repeats = True, ()
            return
        with self._lock:
            self._clicks.append(dict(content))
        if content.get("kind") == "stop":
            self._pressed.set()

    def _take(self, row: Mapping[str, Any]) -> None:
        with self._lock:
            self._rows.append(self._view.append(row))
        self._tick()

    def _tick(self) -> None:
        """Sends what waits, now or (should the tool be busy with one long step) when it is due."""
        with self._lock:
            due = self._sent_at + self._every - self._clock()
            if due <= 0:
                self._send()
            elif (self._rows or self._stale) and self._timer is None:
                self._timer = Timer(due, self._try, (self._ring,))
                self._timer.daemon = True
                self._timer.start()

    def _ring(self) -> None:
        with self._lock:
            self._timer = None
            self._tick()

    def _send(self) -> None:
        """One message with all that waits: rows, or a whole state that holds them."""
        with self._lock:
            news = self._pressed.is_set() and not self._answered
            if self._live is None or not (self._rows or self._stale or self._grown or news):
                return
            message, buffers = self._message()
            self._rows, self._stale, self._grown, self._answered = [], False, False, self._pressed.is_set()
            self._sent_at = self._clock()
            self._live.send({**message, "stopping": self._answered}, buffers)

    def _message(self) -> tuple[dict[str, Any], list[bytes]]:
        if self._stale or (self._grown and self._repeats_now()):
            return {"state": self._view.snapshot()}, []
        if self._grown:
            return self._view.news()
        columns = list(dict.fromkeys(name for row in self._rows for name in row))
        first = self._view.count - len(self._rows)
        message = {"first": first, "columns": columns, "head": self._view.head()}
        return message, [pack(self._rows, columns)]

    def _repeats_now(self) -> bool:
        """Whether to say all of it again: a page that was still loading missed the first messages.

        It asks by itself where the kernel hears it; where not, this brings it up at two moments.
        """
        now = bool(self._repeats) and self._clock() - self._opened_at >= self._repeats[0]
        self._repeats = self._repeats[now:]
        return now

    def _replace(self, bundle: dict[str, str]) -> None:
        with self._lock:
            handle, live, self._handle, self._live = self._handle, self._live, None, None
        try:
            handle.update(bundle, raw=True)
        finally:
            if live is not None:
                live.close()

    def _try(self, act: Callable[[], None]) -> bool:
        """Runs ``act``; what a front end throws must not end a training run."""
        try:
            act()
        except Exception as error:
            self.trouble, self._live = f"{type(error).__name__}: {error}", None
            return False
        return True


def show(view: View, *, clock: Callable[[], float] = time.monotonic, every: float = 0.1) -> Screen:
    """A screen with ``view`` on it: live where a notebook kernel runs, else a silent one with the same face."""
    return LiveScreen(view, clock, every) if in_kernel() else Screen()


def put(result: Any) -> None:
    """Shows the static picture of ``result`` under the cell, where a notebook kernel runs; never live before it."""
    if in_kernel():
        from IPython.display import display

        display(_bundle(result), raw=True)  # type: ignore[no-untyped-call]
        _shown.append(Shown(weakref.ref(result), _execution_count()))


def was_just_shown(result: object) -> bool:
    """Whether a screen put ``result`` under the cell that is running now; who asks wants it to stay there."""
    for one in here():
        if one.result() is result:
            one.handle = None
            return True
    return False


def give_way(result: Any) -> None:
    """Leaves a line of each browser that a tool put under this cell before ``result``, where that is one too."""
    for one in here():
        if line_of(result) and one.line and one.handle is not None:
            one.handle.update({"text/plain": one.line}, raw=True)
            _shown.remove(one)


def line_of(result: Any) -> str:
    """What may be left of a result under a cell that goes on; "" for one that stays."""
    return str(getattr(result, "brief", ""))


def here() -> list[Shown]:
    """What stands under the cell that is running now."""
    now = _execution_count()
    _shown[:] = [one for one in _shown if one.cell == now]
    return list(_shown)


def _execution_count() -> int:
    return int(getattr(shell(), "execution_count", -1))


def _bundle(result: Any) -> dict[str, str]:
    made = result._repr_mimebundle_()
    return dict(made[0] if isinstance(made, tuple) else made)
