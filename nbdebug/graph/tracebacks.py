"""What anomaly mode keeps of the stack at each operation: the user's line alone."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch
import torch.fx.traceback as keeper

from nbdebug.graph.source import from_frame


@contextmanager
def tracebacks() -> Iterator[None]:
    """A block in which each operation keeps the user's line that it was called from.

    Anomaly mode takes the stack from torch.fx.traceback.format_stack, which reads the source of every frame each time:
    that took half the time of a traced pass through a small network.
    """
    anomaly, check = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    full = keeper.format_stack
    keeper.format_stack = own_line
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        yield
    finally:
        torch.autograd.set_detect_anomaly(anomaly, check)
        keeper.format_stack = full


def own_line() -> list[str]:
    """The user's line on the stack that this is called from, in the form of a traceback; empty where there is none."""
    line = from_frame(sys._getframe(1))
    return [f'File "{line.file}", line {line.number}, in {line.function}'] if line else []
