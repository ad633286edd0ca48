"""Brief tracebacks: what anomaly mode keeps of the stack at each operation."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import torch
import torch.fx.traceback as keeper


@contextmanager
def tracebacks() -> Iterator[None]:
    """A block in which each operation keeps the stack that it was called from, as files and line numbers.

    Anomaly mode takes the stack from torch.fx.traceback.format_stack, which reads the source of every frame each time.
    Without that, the pass of a small network takes half the time.
    """
    anomaly, check = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    full = keeper.format_stack
    keeper.format_stack = brief_stack
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        yield
    finally:
        torch.autograd.set_detect_anomaly(anomaly, check)
        keeper.format_stack = full


def brief_stack() -> list[str]:
    """The stack that this is called from, outermost first, in the form of a traceback without source text."""
    lines: list[str] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        lines.append(f'File "{code.co_filename}", line {frame.f_lineno}, in {code.co_name}')
        frame = frame.f_back
    return lines[::-1]
