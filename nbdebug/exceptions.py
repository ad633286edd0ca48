"""Exceptions of the package, how IPython shows them, the first line of a message, and the end of a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, TracebackType
from typing import Any

_PACKAGE = __name__.partition(".")[0]


class SetupError(ValueError):
    """The user's objects or arguments cannot be used as they are; the message says what to do next.

    IPython shows it without the frames of nbdebug. ``%tb`` shows all frames.
    """

    _is_shown = False

    def _render_traceback_(self) -> list[str]:
        """Return the traceback that IPython shows; the first time, without the frames of nbdebug."""
        from IPython import get_ipython

        formatter = get_ipython().InteractiveTB
        if self._is_shown:
            return _format_traceback(formatter, self)
        self._is_shown = True
        with without_own_frames(self):
            return _format_traceback(formatter, self)


def _format_traceback(formatter: Any, error: BaseException) -> list[str]:
    lines: list[str] = formatter.structured_traceback(type(error), error, error.__traceback__)
    return lines


@contextmanager
def without_own_frames(error: BaseException) -> Iterator[None]:
    """Leave the frames of nbdebug out of the tracebacks of an exception and its causes."""
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    tracebacks = [link.__traceback__ for link in chain]
    try:
        for link in chain:
            link.__traceback__ = _drop_own_frames(link.__traceback__)
        yield
    finally:
        for link, traceback in zip(chain, tracebacks, strict=True):
            link.__traceback__ = traceback


def _drop_own_frames(traceback: TracebackType | None) -> TracebackType | None:
    """Return a copy of a traceback without the frames of nbdebug."""
    if traceback is None:
        return None
    rest = _drop_own_frames(traceback.tb_next)
    module = str(traceback.tb_frame.f_globals.get("__name__"))  # also of the generated methods of a dataclass
    if module.partition(".")[0] == _PACKAGE:
        return rest
    return TracebackType(rest, traceback.tb_frame, traceback.tb_lasti, traceback.tb_lineno)


class UnknownOption(SetupError, TypeError):
    """A keyword that a call does not have; the message names the nearest valid one."""


class WrongArguments(SetupError, TypeError):
    """A call without a required argument, or with too many; the message names the parameters."""


class NotChecked(Exception):
    """A measurement is not possible here; the reason is shown with the rules that need it."""

    def without_frames(self) -> NotChecked:
        """Clear the traceback, and return a copy of the reason that can be stored.

        The frames of a traceback hold the tensors of a pass, and often the exception itself: such a cycle keeps the
        tensors until a garbage collection, which few objects of great size do not cause.
        """
        self.__traceback__ = None
        return NotChecked(*self.args)


def first_line(error: BaseException, max_length: int = 120) -> str:
    """Return the first line of an exception's message, truncated; its type if the message is empty or fails."""
    try:
        lines = str(error).splitlines()
    except Exception:
        lines = []
    return (lines or [type(error).__name__])[0][:max_length]


class NotExplained(SetupError):
    """The method cannot explain this model; the message names methods that can."""


class NotDifferentiable(NotExplained):
    """No gradient, or only a zero gradient, reaches the inputs; the message names where it ends."""


USE_BLACK_BOX_METHOD = "Use method='shapley' or method='occlusion', which need no gradients"


def cut_traceback(traceback: TracebackType | None, code: CodeType) -> None:
    """End a traceback before the first frame of some code, so that it ends in the line that called it."""
    while traceback is not None and traceback.tb_next is not None:
        if traceback.tb_next.tb_frame.f_code is code:
            traceback.tb_next = None
        traceback = traceback.tb_next
