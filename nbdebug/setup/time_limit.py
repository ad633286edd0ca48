"""A time limit for the user's code, such as the reading of a sample that never returns."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import FrameType

from nbdebug.source.location import SourceLine, get_line_from_frame

MAX_SAMPLE_SECONDS = 60.0  # of a sample, which may fill a cache first
_sample_seconds: ContextVar[float | None] = ContextVar("sample_seconds", default=None)


class UserCodeTimeout(BaseException):
    """Raised inside the code that exceeds its limit, at the user's ``line``, None if it is unknown.

    It is no Exception, so that code that retries does not catch it.
    """

    def __init__(self, seconds: float, line: SourceLine | None) -> None:
        place = f", at {line.where()}: {line.text.strip()}" if line else ""
        super().__init__(f"it has not returned within {seconds:.3g} s{place}")
        self.line = line


@contextmanager
def time_limit(seconds: float | None) -> Iterator[None]:
    """Raise UserCodeTimeout in the block after ``seconds``, by the alarm signal of the process.

    There is no limit where the signal cannot be used: outside the main thread, on Windows, and while the user's own
    alarm is set. Code that holds the interpreter, as a call of a C library may, is interrupted when it returns.
    """
    if seconds is None or not _has_free_alarm():
        yield
        return

    def interrupt(_number: int, frame: FrameType | None) -> None:
        raise UserCodeTimeout(seconds, get_line_from_frame(frame))

    handler = signal.signal(signal.SIGALRM, interrupt)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.signal(signal.SIGALRM, handler)


def sample_time_limit() -> AbstractContextManager[None]:
    """Return the time limit of one sample: 60 s, or that of ``limit_samples``."""
    return time_limit(_sample_seconds.get() or MAX_SAMPLE_SECONDS)


def get_batch_seconds() -> float | None:
    """Return the time limit of a batch of a stream: that of ``limit_samples``, and none outside, for slow streams."""
    return _sample_seconds.get()


@contextmanager
def limit_samples(seconds: float) -> Iterator[None]:
    """Limit each sample, and each batch of a stream, that is read in the block to ``seconds``."""
    token = _sample_seconds.set(seconds)
    try:
        yield
    finally:
        _sample_seconds.reset(token)


def _has_free_alarm() -> bool:
    """Return whether this thread can use the alarm and nobody else does."""
    return (
        hasattr(signal, "setitimer")
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGALRM) is not None
        and not signal.getitimer(signal.ITIMER_REAL)[0]
    )
