"""A screen for tools that are mostly fast: it opens once the tool has taken some time."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any

from nbdebug.stop_requests import ToolStopped
from nbdebug.views.live import Screen, show_view
from nbdebug.views.page import View
from nbdebug.views.progress import ProgressView

_SECONDS = 1.0


@contextmanager
def before_any_result(screen: Screen, title: str, make_view: Callable[[str], View]) -> Iterator[None]:
    """Turn an interrupt by the Stop button into a message: the tool has no result yet."""
    try:
        yield
    except KeyboardInterrupt:
        if not screen.stopped:
            raise
        screen.update(make_view("stopped before there was a result"))
        raise ToolStopped(f"the {title.lower()} has no result yet. Run it again.") from None


class LateScreen(Screen):
    """Opens at the first report after a second; a tool that is faster displays nothing, and returns its result.

    A tool that the Stop button interrupts has no result, and raises ToolStopped.
    """

    def __init__(self, title: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._title, self._clock, self._opens_at = title, clock, clock() + _SECONDS
        self._screen, self._stack, self._is_open = Screen(), ExitStack(), False

    @property
    def stopped(self) -> bool:
        """True if the Stop button was pressed."""
        return self._screen.stopped

    def update(self, view: View) -> None:
        """Display ``view`` if the tool has taken a second."""
        if self._is_open:
            self._screen.update(view)
        elif self._clock() >= self._opens_at:
            self._is_open = True
            self._screen = self._stack.enter_context(show_view(view, clock=self._clock))
            self._stack.enter_context(before_any_result(self._screen, self._title, self._stopped_view))

    def report(self, text: str, share: float | None = None) -> None:
        """Display how far the tool is."""
        self.update(ProgressView(self._title, text=text, done_share=share))

    def finish(self, result: Any, brief_text: str = "") -> None:
        """Replace the progress by the static view of ``result``."""
        self._screen.finish(result, brief_text)

    def __enter__(self) -> LateScreen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close what is open."""
        self._stack.__exit__(kind, error, trace)

    def _stopped_view(self, text: str) -> View:
        return ProgressView(self._title, text=text, stoppable=False)
