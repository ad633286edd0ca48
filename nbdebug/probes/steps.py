"""The steps of a running loop: when an optimizer is done, and at which rate."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch


@contextmanager
def steps(optimizers: tuple[torch.optim.Optimizer, ...], emit: Callable[[float], None]) -> Iterator[None]:
    """A block in which ``emit`` gets the learning rate of the first group after each step of the first optimizer."""
    if not optimizers:
        yield
        return
    first = optimizers[0]
    handle = first.register_step_post_hook(lambda *_: emit(float(first.param_groups[0]["lr"])))
    try:
        yield
    finally:
        handle.remove()
