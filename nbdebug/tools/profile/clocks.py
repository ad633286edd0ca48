"""Clocks of the profile: the host without the time that other programs take, and the events of a CUDA device."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import torch

_THREAD_LOCAL = threading.local()
_NO_FILE = -1
_MAX_READINGS = 20
_SHORTEST_WAIT = 5e-4  # seconds; Linux lets another program run for 0.7 ms or more (sched_base_slice_ns)
_LONGEST_READING = 2e-4  # seconds of reading both clocks, if no other program has run meanwhile
_CALIBRATION_READINGS = 200


class Clock(Protocol):
    """A source of time stamps whose differences are seconds."""

    def stamp(self) -> Any:
        """Return a time stamp."""

    def finish(self) -> None:
        """Make all stamps readable."""

    def seconds(self, start: Any, end: Any) -> float:
        """Return the seconds between two stamps."""


class HostClock:
    """``host_seconds`` for models on the CPU, which asks Linux only after intervals that may contain a wait."""

    def __init__(self) -> None:
        self._asked_at, self._waited = 0.0, 0.0
        self.readings = 0  # of the statistics of Linux, each of which takes some microseconds

    def stamp(self) -> float:
        """Return the time in seconds."""
        now = time.perf_counter()
        if now - self._asked_at > _SHORTEST_WAIT:
            now, self._waited = _read_clocks()
            self._asked_at = now
            self.readings += 1
        return now - self._waited

    def finish(self) -> None:
        """Do nothing: the stamps are numbers."""

    def seconds(self, start: float, end: float) -> float:
        """Return the difference."""
        return max(end - start, 0.0)


class _DeviceClock:
    """CUDA events on the current stream, which are read once at the end, so that no step waits for them.

    The seconds of a phase are those that the device spends on its operations, or in which it waits for them.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def stamp(self) -> Any:
        """Return an event that is recorded behind the queued operations."""
        event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self._device))
        return event

    def finish(self) -> None:
        """Wait until the device has reached all events."""
        torch.cuda.synchronize(self._device)

    def seconds(self, start: Any, end: Any) -> float:
        """Return the seconds between two events."""
        return float(start.elapsed_time(end)) / 1e3


def device_clock(device: torch.device) -> Clock:
    """Return the clock for a device."""
    return _DeviceClock(device) if device.type == "cuda" else HostClock()


def host_seconds() -> float:
    """Return the wall time, without the time in which this thread was ready to run and other programs had its core.

    That time is the second number of Linux's ``schedstat`` of a thread, in nanoseconds (kernel documentation,
    scheduler/sched-stats); elsewhere it counts as 0. Time in which the thread sleeps or waits for data is included.
    """
    now, waited = _read_clocks()
    return now - waited


def reading_cost() -> float:
    """Return the seconds that ``host_seconds()`` takes, without those of other programs."""
    started = host_seconds()
    for _ in range(_CALIBRATION_READINGS):
        host_seconds()
    return max(host_seconds() - started, 0.0) / (_CALIBRATION_READINGS + 1)


def _read_clocks() -> tuple[float, float]:
    """Return the wall time, and the seconds that this thread has waited for a core until then."""
    for _ in range(_MAX_READINGS):
        before, waited, now = time.perf_counter(), _waited_seconds(), time.perf_counter()
        if now - before < _LONGEST_READING:  # otherwise it may have waited between the readings
            break
    return now, waited


def _waited_seconds() -> float:
    """Return the seconds that this thread has waited for a core since it started."""
    if not hasattr(_THREAD_LOCAL, "schedule"):
        _THREAD_LOCAL.schedule = _ScheduleFile()
    schedule: _ScheduleFile = _THREAD_LOCAL.schedule
    return schedule.waited_seconds()


class _ScheduleFile:
    """The open statistics of the present thread; closed with the thread. A forked process opens its own."""

    def __init__(self) -> None:
        self._descriptor, self._process = _NO_FILE, os.getpid()
        with suppress(OSError):
            path = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
            self._descriptor = os.open(path, os.O_RDONLY)

    def waited_seconds(self) -> float:
        """Return the seconds that the thread has waited for a core."""
        if self._descriptor == _NO_FILE or self._process != os.getpid():
            return 0.0
        return int(os.pread(self._descriptor, 64, 0).split()[1]) / 1e9

    def __del__(self) -> None:
        if self._descriptor != _NO_FILE:
            os.close(self._descriptor)
