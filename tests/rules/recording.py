"""The record of a small loop, by the watch that users have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from nbdebug.records import Record
from nbdebug.setup import Setup
from nbdebug.watching.session import WatchSession
from nbdebug.watching.time_budget import TimeBudget


@contextmanager
def recorded(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch_size: int, every: int | None = None
) -> Iterator[Record]:
    """A block whose training is recorded; a step of ``optimizer`` is a row, and nothing is judged or shown."""
    meter = TimeBudget(0.5, every)
    session = WatchSession(Setup(model, (), optimizers=(optimizer,)), meter)
    session.record.about["batch_size"] = batch_size
    probes = session.hooks(lambda: None)
    for one in probes:
        one.__enter__()
    try:
        yield session.record
    finally:
        for one in reversed(probes):
            one.__exit__(None, None, None)
        session.close()
        session.record.about["finished"] = True
    assert meter.errors == {}
