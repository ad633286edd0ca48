"""Progress, remaining time and time limit of long computations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from nbdebug.stop_requests import check_stop

MIN_MEASURED_SECONDS = 0.3  # seconds of work before the rate is measured
REPORT_INTERVAL = 0.5  # seconds between two progress reports
_NEARLY_DONE_SHARE = 0.25  # if less than this share of the limit remains, finish anyway


class TimeLimitExceeded(Exception):
    """A computation would exceed its time limit; ``seconds`` is its total duration, at least."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"it would take {seconds:.0f} s or more")
        self.seconds = seconds


@dataclass
class ProgressMeter:
    """Counts rows that went through the model, out of those announced.

    ``limit`` is the time limit in seconds, None for no limit; ``on_progress`` is called regularly.
    """

    limit: float | None = None
    on_progress: Callable[[ProgressMeter], None] | None = None
    rows_done: int = 0
    rows_total: int = 0
    seconds_per_row: float = 0.0

    def __post_init__(self) -> None:
        self.start_time = self.phase_start = self.last_report = time.perf_counter()
        self.rows_before_phase = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.perf_counter() - self.start_time

    @property
    def remaining(self) -> float | None:
        """Seconds to go at the present rate; None if the number of rows is unknown."""
        rows = self.rows_total - self.rows_done
        return rows * self.seconds_per_row if rows > 0 and self.seconds_per_row else None

    def expect_rows(self, rows: int) -> None:
        """Announce rows; the rate is measured again, since it differs with and without gradients."""
        self.rows_total = self.rows_done + rows
        self.phase_start, self.rows_before_phase = time.perf_counter(), self.rows_done
        self._check_limit()

    def count_rows(self, rows: int) -> None:
        """Count rows that are about to run; all earlier ones are done, including backward passes."""
        now = time.perf_counter()
        if now - self.phase_start > MIN_MEASURED_SECONDS and self.rows_done > self.rows_before_phase:
            self.seconds_per_row = (now - self.phase_start) / (self.rows_done - self.rows_before_phase)
            self._check_limit()
        if self.on_progress is not None and now - self.last_report > REPORT_INTERVAL:
            self.last_report = now
            self.on_progress(self)
        self.rows_done += rows

    def _check_limit(self) -> None:
        """Raise TooSlow if the total exceeds the limit and a good part of it remains."""
        remaining = self.remaining
        if (
            self.limit is not None
            and remaining is not None
            and remaining > _NEARLY_DONE_SHARE * self.limit
            and self.elapsed + remaining > self.limit
        ):
            raise TimeLimitExceeded(self.elapsed + remaining)


_current_meter: ContextVar[ProgressMeter | None] = ContextVar("watch", default=None)


@contextmanager
def use_meter(meter: ProgressMeter | None) -> Iterator[None]:
    """Use a meter for the duration of a block."""
    token = _current_meter.set(meter)
    try:
        yield
    finally:
        _current_meter.reset(token)


@contextmanager
def without_time_limit() -> Iterator[None]:
    """Suspend the time limit for the duration of a block."""
    meter = _current_meter.get()
    if meter is None:
        yield
        return
    limit, meter.limit = meter.limit, None
    try:
        yield
    finally:
        meter.limit = limit


def expect_rows(rows: int) -> None:
    """Announce rows to the current meter."""
    if (meter := _current_meter.get()) is not None:
        meter.expect_rows(rows)


def count_rows(rows: int) -> None:
    """Count rows before they go through the model."""
    check_stop()
    if (meter := _current_meter.get()) is not None:
        meter.count_rows(rows)
