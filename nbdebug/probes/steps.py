"""The steps of a running loop: before and after each optimizer moves its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager

import torch

Heard = Callable[[torch.optim.Optimizer], None]


@contextmanager
def steps(optimizers: Iterable[torch.optim.Optimizer], begins: Heard, done: Heard) -> Iterator[None]:
    """A block in which each step of some optimizers is told of before and after it is made."""
    with ExitStack() as hooks:
        for one in optimizers:
            hooks.callback(one.register_step_pre_hook(lambda optimizer, *_: begins(optimizer)).remove)
            hooks.callback(one.register_step_post_hook(lambda optimizer, *_: done(optimizer)).remove)
        yield
