"""The user's lines in a running loop: exact times of the lines of the loop, samples of the lines that they call."""

from __future__ import annotations

import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from nbdebug.source.location import SourceLine
from nbdebug.tools.profile.phases import LoopTimer, user_lines

_INTERVAL_SECONDS = 0.001
_SWITCH_SECONDS = (
    1e-5  # after which Python lets a waiting thread run: later, torch would let it, at lines that call torch
)


class LineSampler(threading.Thread):
    """Samples the innermost user line of another thread; each sample weighs the seconds since the one before.

    ``seconds`` maps phase and line to seconds; lines of the functions ``step_codes`` are left out. ``totals`` are the
    seconds of all samples of a phase.
    """

    def __init__(self, timer: LoopTimer, thread_id: int, step_codes: tuple[CodeType, ...]) -> None:
        super().__init__(daemon=True, name="nbdebug-line-sampler")
        self.timer, self.thread_id, self.step_codes = timer, thread_id, step_codes
        self.seconds: dict[tuple[str, SourceLine], float] = defaultdict(float)
        self.totals: dict[str, float] = defaultdict(float)
        self._stop_requested = threading.Event()

    def run(self) -> None:
        """Take samples until ``stop`` is called."""
        previous = time.perf_counter()
        while not self._stop_requested.is_set():
            time.sleep(_INTERVAL_SECONDS)
            now = time.perf_counter()
            phase = self.timer.phase
            innermost = next(user_lines(sys._current_frames().get(self.thread_id)), None)
            if phase == self.timer.phase:  # otherwise the phase has changed meanwhile
                self.totals[phase] += now - previous
                if innermost is not None and innermost[0] not in self.step_codes:
                    self.seconds[phase, innermost[1]] += now - previous
            previous = now

    def stop(self) -> None:
        """End the thread."""
        self._stop_requested.set()
        self.join()

    def forget(self, phase: str) -> None:
        """Drop the samples of a phase."""
        self.totals.pop(phase, None)
        for key in [key for key in self.seconds if key[0] == phase]:
            del self.seconds[key]


@contextmanager
def sample_lines(timer: LoopTimer, step_codes: tuple[CodeType, ...] = ()) -> Iterator[LineSampler]:
    """Sample the lines of this thread within the block, and trace those of the functions ``step_codes``."""
    switch_interval, trace = sys.getswitchinterval(), sys.gettrace()
    sampler = LineSampler(timer, threading.get_ident(), step_codes)
    sys.setswitchinterval(_SWITCH_SECONDS)
    sampler.start()
    if trace is None and step_codes:  # a debugger or a coverage tool keeps its own
        sys.settrace(_LineTracer(timer, step_codes))
    try:
        yield sampler
    finally:
        sys.settrace(trace)
        sampler.stop()
        sys.setswitchinterval(switch_interval)


class _LineTracer:
    """A trace function that charges the lines of some functions; the functions that they call are not traced."""

    def __init__(self, timer: LoopTimer, codes: tuple[CodeType, ...]) -> None:
        self.timer, self.codes = timer, codes
        self.open_lines: list[SourceLine] = []

    def __call__(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any] | None:
        """Trace the frames of the functions."""
        if frame.f_code not in self.codes:
            return None
        self.open_lines.append(self._line(frame))
        return self.trace_line

    def trace_line(self, frame: FrameType, event: str, _: Any) -> Callable[..., Any]:
        """Charge a line, or return to the line that called the function."""
        if event == "line":
            self.open_lines[-1:] = [self._line(frame)]
            self.timer.enter_line(self.open_lines[-1])
        elif event == "return":
            self.open_lines.pop()
            self.timer.enter_line(self.open_lines[-1] if self.open_lines else None)
        return self.trace_line

    @staticmethod
    def _line(frame: FrameType) -> SourceLine:
        code = frame.f_code
        return SourceLine(code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_name)
