"""Whether the running tool was asked to stop; each pass of the user's model checks it."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol


class StoppableScreen(Protocol):
    """The screen of the running tool."""

    def has_unseen_stop(self) -> bool:
        """Return whether the user asked the tool to stop some time ago, and the tool has not seen it yet."""
        ...


open_screen: ContextVar[StoppableScreen | None] = ContextVar("open_screen", default=None)


class ToolStopped(KeyboardInterrupt):
    """The user stopped a tool before it had any result; IPython shows the message alone."""

    def _render_traceback_(self) -> list[str]:
        return [f"Stopped: {self}"]


def check_stop() -> None:
    """Interrupt a tool that was asked to stop, unless it has seen that by itself."""
    screen = open_screen.get()
    if screen is not None and screen.has_unseen_stop():
        raise KeyboardInterrupt
