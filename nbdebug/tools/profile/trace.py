"""Trace of a few steps by torch.profiler, as a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, schedule

from nbdebug.setup import Setup
from nbdebug.tools.profile.loops import preserve_loop, run_standard_loop, run_user_loop
from nbdebug.tools.profile.phases import WARMUP_STEPS, LoopTimer
from nbdebug.validation import argument_error

_TRACED_STEPS = 3  # more make a file that is too large to open
_SECONDS = 60.0
_SUFFIXES = (".json", ".json.gz")


class _TracedTimer(LoopTimer):
    """Tells a profiler of torch the end of each step."""

    def __init__(self, setup: Setup, profiler: torch.profiler.profile) -> None:
        super().__init__(setup, _TRACED_STEPS + 1, _SECONDS)
        self.profiler = profiler

    def end_step(self) -> None:
        """End a step for the profiler, too."""
        self.profiler.step()
        super().end_step()


def validate_trace_path(path: Any) -> Path:
    """Return the path of a trace; raise SetupError for another kind of file, or a folder that does not exist."""
    target = Path(path) if isinstance(path, (str, Path)) else None
    if target is None or not target.name.endswith(_SUFFIXES) or not target.parent.is_dir():
        raise argument_error("trace", path, "the path of a new .json or .json.gz file in an existing folder")
    return target


def write_trace(setup: Setup, train: Callable[[], Any] | None, path: Path) -> str:
    """Write a trace of three steps after the warm-up, and return a note about it; the file replaces a former one."""
    activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if setup.model_device.type == "cuda" else [])]
    plan = schedule(wait=WARMUP_STEPS - 1, warmup=1, active=_TRACED_STEPS, repeat=1)
    with torch.profiler.profile(activities=activities, schedule=plan, record_shapes=True, with_stack=True) as profiler:
        timer = _TracedTimer(setup, profiler)
        if train is None:
            run_standard_loop(setup, timer)
        else:
            with preserve_loop(setup, train):
                run_user_loop(train, timer)
    new = path.with_name(f".new.{path.name}")
    try:
        profiler.export_chrome_trace(str(new))
        new.replace(path)
    except OSError as error:  # torch only logs that it could not write, so that there is no file to rename
        reason = "torch.profiler could not write it, as on a full disk" if not new.exists() else str(error)
        return f"There is no trace in {path}: {reason}."
    finally:
        for leftover in path.parent.glob(f"{new.name}*"):
            leftover.unlink()
    return f"{path} is a trace of {_TRACED_STEPS} steps. Open it in Perfetto or at chrome://tracing."
