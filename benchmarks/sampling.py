"""Where the time of a watch goes: the stack of the training thread, looked at many times a second."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

from models import Run
from peers import Variant

HERE = str(Path(__file__).parent)
EVERY = 0.0003


def watchers(frame: FrameType | None) -> list[FrameType]:
    """The frames that a step has called into and that are neither the step's own nor torch's, the innermost first."""
    stack = []
    while frame is not None and not frame.f_code.co_filename.startswith(HERE):
        if "/torch/" not in frame.f_code.co_filename or "/torch/utils/tensorboard" in frame.f_code.co_filename:
            stack.append(frame)
        frame = frame.f_back
    return stack


class Sampler(threading.Thread):
    """Counts the lines and functions of a watch that a thread is in."""

    def __init__(self, thread: int) -> None:
        super().__init__(daemon=True)
        self.watched, self.ended = thread, threading.Event()
        self.lines: Counter[str] = Counter()
        self.functions: Counter[str] = Counter()
        self.all = self.within = 0

    def run(self) -> None:
        """Looks until it is ended."""
        while not self.ended.is_set():
            time.sleep(EVERY)
            self.look()

    def look(self) -> None:
        """One sample: its innermost line, and each function that is on the stack once."""
        stack = watchers(sys._current_frames()[self.watched])
        self.all += 1
        if stack:
            self.within += 1
            self.lines[f"{place(stack[0])}:{stack[0].f_lineno}"] += 1
            self.functions.update({place(frame) for frame in stack})


def place(frame: FrameType) -> str:
    """The file and the function of a frame."""
    code = frame.f_code
    return f"{'/'.join(Path(code.co_filename).parts[-3:])} {getattr(code, 'co_qualname', code.co_name)}"


def sampled(run: Run, variant: Variant, steps: int, first: int) -> str:
    """The lines and functions of a variant in which the time of its steps is spent, in microseconds a step."""
    interval = sys.getswitchinterval()
    sampler = Sampler(threading.get_ident())
    with variant.open(run) as after:
        run.steps(first, after)
        sys.setswitchinterval(EVERY / 3)
        sampler.start()
        times = run.steps(steps, after)
        sampler.ended.set()
        sampler.join()
        sys.setswitchinterval(interval)
    step = 1e6 * sum(wall for _, wall in times) / steps
    return "\n".join(said(sampler, step, variant.name))


def said(sampler: Sampler, step: float, name: str) -> list[str]:
    """The table of a sampler; a share of its samples is that share of a ``step``."""
    unit = step / max(sampler.all, 1)
    head = f"{name}: {unit * sampler.within:.1f} of {step:.1f} µs a step, by {sampler.all} samples"
    parts = [head, "\nin a function and all that it calls, µs a step"]
    parts += [f"{unit * count:9.1f}  {where}" for where, count in sampler.functions.most_common(25)]
    parts += ["\non a line alone, with what it calls in torch, µs a step"]
    return parts + [f"{unit * count:9.1f}  {where}" for where, count in sampler.lines.most_common(25)]
