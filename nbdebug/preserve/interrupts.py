"""Stretches of code that Ctrl-C does not cut in half."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Postponed:
    """Puts off an interrupt that strikes as a block's ``__exit__`` is entered, before its first instruction.

    Python would then leave the block without running it. What is put off is delivered by ``release``.
    """

    def __init__(self, owner: object) -> None:
        self.owner, self.before = owner, signal.getsignal(signal.SIGINT)
        self.struck: tuple[int, FrameType | None] | None = None
        self.active = threading.current_thread() is threading.main_thread() and callable(self.before)
        if self.active:
            signal.signal(signal.SIGINT, self.handle)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """Keep the interrupt if the owner is about to exit, else hand it on."""
        if self.is_exiting(frame):
            self.struck = (number, frame)
        elif callable(self.before):
            self.before(number, frame)

    def is_exiting(self, frame: FrameType | None) -> bool:
        """Whether the ``__exit__`` of the owner is on a stack."""
        code = type(self.owner).__exit__.__code__  # type: ignore[attr-defined]
        while frame is not None:
            if frame.f_code is code and frame.f_locals.get("self") is self.owner:
                return True
            frame = frame.f_back
        return False

    def release(self) -> None:
        """Put the handler back, and deliver what was put off; a second call does nothing."""
        if self.active and signal.getsignal(signal.SIGINT) == self.handle:
            signal.signal(signal.SIGINT, self.before)
        self.active = False
        struck, self.struck = self.struck, None
        if struck is not None and callable(self.before):
            self.before(*struck)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer an interrupt to the end of the block; off the main thread none can arrive."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is None:
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: arrived.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if arrived and callable(before):
            before(*arrived[-1])
        elif arrived and before == signal.SIG_DFL:
            signal.raise_signal(signal.SIGINT)
