"""The record of a small training loop, made by a watch session."""

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
def record_training(
    model: nn.Module, optimizer: torch.optim.Optimizer, batch_size: int, every: int | None = None
) -> Iterator[Record]:
    """Record the training inside the block, one row per step of ``optimizer``, without checking rules."""
    budget = TimeBudget(0.5, every)
    session = WatchSession(Setup(model, (), optimizers=(optimizer,)), budget)
    session.record.about["batch_size"] = batch_size
    hooks = session.hooks(lambda: None)
    for hook in hooks:
        hook.__enter__()
    try:
        yield session.record
    finally:
        for hook in reversed(hooks):
            hook.__exit__(None, None, None)
        session.close()
        session.record.about["finished"] = True
    assert budget.errors == {}
