"""The calls of a trainer on the stack: whose they are, and whether one has ended by an exception."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

from nbdebug.source.location import is_user_code
from nbdebug.source.references import frame_variables


class TrainerCall:
    """The user's call of the trainer that is calling a callback now."""

    def __init__(self) -> None:
        self.frame = _outermost_library_frame(sys._getframe(1))

    @property
    def is_active(self) -> bool:
        """True until the call has ended."""
        return any(frame is self.frame for top in sys._current_frames().values() for frame in _frames(top))

    @property
    def exception(self) -> BaseException | None:
        """The exception that ended the call, if it is handled now or was shown last."""
        candidates = (sys.exc_info()[1], getattr(sys, "last_value", None))
        return next(
            (error for error in candidates if error is not None and self._has_passed(error.__traceback__)), None
        )

    def _has_passed(self, traceback: TracebackType | None) -> bool:
        """Check whether an exception has left the call."""
        while traceback is not None:
            if traceback.tb_frame is self.frame:
                return True
            traceback = traceback.tb_next
        return False


def _frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield the frames of a stack, innermost first."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def _outermost_library_frame(frame: FrameType) -> FrameType:
    """Return the frame of the library's function that the user's code has called."""
    outermost = frame
    for outer in _frames(frame):
        if is_user_code(outer.f_code.co_filename):
            break
        outermost = outer
    return outermost


def find_caller(owner: type) -> Any:
    """Return the instance of a class one of whose methods is running; raises LookupError if there is none."""
    for frame in _frames(sys._getframe(1)):
        first = frame_variables(frame).get("self")
        if isinstance(first, owner):
            return first
    raise LookupError(f"no method of {owner.__name__} is running")


def find_variables(function: str) -> dict[str, Any]:
    """Return the variables of the innermost running function of some name; an empty dictionary if there is none."""
    frames = (frame for frame in _frames(sys._getframe(1)) if frame.f_code.co_name == function)
    return next((frame_variables(frame) for frame in frames), {})


def at_end_of_cell(function: Callable[[], Any]) -> None:
    """Call a function once when the notebook cell that runs now has ended, and when the program ends."""
    atexit.unregister(function)
    atexit.register(function)
    ipython = sys.modules.get("IPython")
    if (shell := ipython.get_ipython() if ipython else None) is None:
        return

    def call_once(*_: Any) -> None:
        shell.events.unregister("post_run_cell", call_once)
        function()

    shell.events.register("post_run_cell", call_once)
