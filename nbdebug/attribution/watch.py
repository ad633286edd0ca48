"""How far an engine has come, how long it will take, and an end to it where that is longer than anyone agreed to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

ENOUGH = 0.3  # seconds of work after which its pace is known
EVERY = 0.5  # seconds between two words on it
SHORT = 0.25  # of the limit: what is nearly done is not given up


class TooSlow(Exception):
    """What was begun would take longer than the limit; ``seconds`` is how long, from its beginning, at least."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it would take {seconds:.0f} s or more")
        self.seconds = seconds


@dataclass
class Watch:
    """The rows that went through the model, of those that an engine said it will run.

    ``limit`` are the seconds that all of it may take, None for any; ``tell`` is called now and then.
    """

    limit: float | None = None
    tell: Callable[[Watch], None] | None = None
    done: int = 0
    total: int = 0
    pace: float = 0.0

    def __post_init__(self) -> None:
        self.begun = self.since = self.told = time.perf_counter()
        self.before = 0

    @property
    def spent(self) -> float:
        """Seconds so far."""
        return time.perf_counter() - self.begun

    @property
    def left(self) -> float | None:
        """Seconds to go at the pace of late; None where nobody said how much there is to do."""
        rows = self.total - self.done
        return rows * self.pace if rows > 0 and self.pace else None

    def expect(self, rows: int) -> None:
        """So many rows are to come; their pace is measured anew, since it may be with gradients or without."""
        self.total = self.done + rows
        self.since, self.before = time.perf_counter(), self.done
        self.refuse()

    def passed(self, rows: int) -> None:
        """So many rows go through now; all that came before are done, backward passes too."""
        now = time.perf_counter()
        if now - self.since > ENOUGH and self.done > self.before:
            self.pace = (now - self.since) / (self.done - self.before)
            self.refuse()
        if self.tell is not None and now - self.told > EVERY:
            self.told = now
            self.tell(self)
        self.done += rows

    def refuse(self) -> None:
        """Raises TooSlow where all of it takes longer than the limit, and a good part of that is to come."""
        left = self.left
        if self.limit is not None and left is not None and left > SHORT * self.limit and self.spent + left > self.limit:
            raise TooSlow(self.spent + left)


_watch: ContextVar[Watch | None] = ContextVar("watch", default=None)


@contextmanager
def watched(watch: Watch | None) -> Iterator[None]:
    """A block in which a watch counts what engines run."""
    token = _watch.set(watch)
    try:
        yield
    finally:
        _watch.reset(token)


@contextmanager
def unlimited() -> Iterator[None]:
    """A block in which what is watched may take its time."""
    watch = _watch.get()
    if watch is None:
        yield
        return
    limit, watch.limit = watch.limit, None
    try:
        yield
    finally:
        watch.limit = limit


def expect(rows: int) -> None:
    """What an engine says before it runs so many rows."""
    if (watch := _watch.get()) is not None:
        watch.expect(rows)


def passed(rows: int) -> None:
    """What is said before so many rows go through the model."""
    if (watch := _watch.get()) is not None:
        watch.passed(rows)
