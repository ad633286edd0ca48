"""Where the time of a watch goes: the stack of the training thread, looked at many times a second."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

import torch
from models import Run
from peers import Variant

HERE = str(Path(__file__).parent)
TORCH = str(Path(torch.__file__).parent)
# What a step does in these is its own, whoever stands around it.
THE_STEP = tuple(str(Path(TORCH, *parts)) for parts in (("autograd", "graph.py"), ("optim",)))
EVERY = 0.001


def watchers(frame: FrameType | None) -> list[FrameType]:
    """The frames of a watch, the innermost first: up to the step itself, or to torch where a hook was called by it."""
    stack = []
    while frame is not None and not frame.f_code.co_filename.startswith((HERE, *THE_STEP)):
        if not frame.f_code.co_filename.startswith(TORCH):
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
    """The functions and lines of a variant in which time is spent, as shares of a step without it."""
    interval = sys.getswitchinterval()
    sampler = Sampler(threading.get_ident())
    with variant.open(run) as after:
        run.steps(first, after)
        sys.setswitchinterval(EVERY / 10)
        sampler.start()
        run.steps(steps, after)
        sampler.ended.set()
        sampler.join()
        sys.setswitchinterval(interval)
    return "\n".join(said(sampler, variant.name))


def said(sampler: Sampler, name: str) -> list[str]:
    """The table of a sampler; so many of its samples, as many of a bare step."""
    unit = 100 / max(sampler.all - sampler.within, 1)
    parts = [f"{name}: {unit * sampler.within:.1f} % of a bare step, by {sampler.all} samples"]
    for title, counted in (("in a function and all that it calls", sampler.functions), ("on a line", sampler.lines)):
        parts += [f"\n{title}, % of a bare step"]
        parts += [f"{unit * count:7.2f}  {where}" for where, count in counted.most_common(25)]
    return parts
