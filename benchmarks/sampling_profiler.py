"""Sampling profiler of the time that a tracker adds to the training thread, by function and by line."""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import FrameType

import torch
from trackers import Variant
from training_run import TrainingRun

BENCHMARKS_FOLDER = str(Path(__file__).parent)
TORCH_FOLDER = str(Path(torch.__file__).parent)
# Time in these files belongs to the training step itself.
STEP_PATHS = tuple(str(Path(TORCH_FOLDER, *parts)) for parts in (("autograd", "graph.py"), ("optim",)))
INTERVAL_SECONDS = 0.001
MAX_ROWS = 25


def tracker_frames(frame: FrameType | None) -> list[FrameType]:
    """Return the frames of the tracker, innermost first, without frames of torch; the training step ends the walk."""
    frames = []
    while frame is not None and not frame.f_code.co_filename.startswith((BENCHMARKS_FOLDER, *STEP_PATHS)):
        if not frame.f_code.co_filename.startswith(TORCH_FOLDER):
            frames.append(frame)
        frame = frame.f_back
    return frames


def describe_function(frame: FrameType) -> str:
    """Return the file and the function of a frame."""
    code = frame.f_code
    return f"{'/'.join(Path(code.co_filename).parts[-3:])} {getattr(code, 'co_qualname', code.co_name)}"


class StackSampler(threading.Thread):
    """Samples the stack of another thread, and counts the lines and functions of the tracker."""

    def __init__(self, thread_id: int) -> None:
        super().__init__(daemon=True)
        self.thread_id, self.stop_event = thread_id, threading.Event()
        self.lines: Counter[str] = Counter()
        self.functions: Counter[str] = Counter()
        self.samples = self.tracker_samples = 0

    def run(self) -> None:
        """Take samples until ``stop_event`` is set."""
        while not self.stop_event.is_set():
            time.sleep(INTERVAL_SECONDS)
            self.take_sample()

    def take_sample(self) -> None:
        """Count the innermost line, and each function on the stack once."""
        frames = tracker_frames(sys._current_frames()[self.thread_id])
        self.samples += 1
        if frames:
            self.tracker_samples += 1
            self.lines[f"{describe_function(frames[0])}:{frames[0].f_lineno}"] += 1
            self.functions.update({describe_function(frame) for frame in frames})

    def table(self, name: str) -> str:
        """Return the functions and lines with the most samples, in percent of the samples in bare steps."""
        unit = 100 / max(self.samples - self.tracker_samples, 1)
        lines = [f"{name}: {unit * self.tracker_samples:.1f} % of a bare step, {self.samples} samples"]
        for title, counts in (("cumulative time by function", self.functions), ("own time by line", self.lines)):
            lines += [f"\n{title}, % of a bare step"]
            lines += [f"{unit * count:7.2f}  {location}" for location, count in counts.most_common(MAX_ROWS)]
        return "\n".join(lines)


def profile(run: TrainingRun, variant: Variant, steps: int, warmup: int) -> str:
    """Return the profile of a variant over ``steps`` steps, after the warm-up."""
    switch_interval = sys.getswitchinterval()
    sampler = StackSampler(threading.get_ident())
    with variant.track(run) as after_step:
        run.run_steps(warmup, after_step)
        sys.setswitchinterval(INTERVAL_SECONDS / 10)
        sampler.start()
        run.run_steps(steps, after_step)
        sampler.stop_event.set()
        sampler.join()
        sys.setswitchinterval(switch_interval)
    return sampler.table(variant.name)
