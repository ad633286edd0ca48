"""The steps of a running loop: before and after each optimizer moves its parameters."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

Heard = Callable[[torch.optim.Optimizer], None]


@contextmanager
def steps(optimizers: Iterable[torch.optim.Optimizer], begins: Heard, done: Heard) -> Iterator[None]:
    """A block in which each step of some optimizers is told of before and after it is made."""
    with ExitStack() as hooks:
        for one in optimizers:
            hooks.callback(one.register_step_pre_hook(lambda optimizer, *_: begins(optimizer)).remove)
            hooks.callback(one.register_step_post_hook(lambda optimizer, *_: done(optimizer)).remove)
        yield


@contextmanager
def every_step(begins: Callable[..., None], done: Callable[..., None]) -> Iterator[None]:
    """A block in which each step of any optimizer is told of as torch does: with it, its arguments and their names."""
    with ExitStack() as hooks:
        hooks.callback(register_optimizer_step_pre_hook(begins).remove)
        hooks.callback(register_optimizer_step_post_hook(done).remove)
        yield


@contextmanager
def steps_of_any(concerns: Callable[[torch.optim.Optimizer], bool], begins: Heard, done: Heard) -> Iterator[None]:
    """A block in which each step of any optimizer that ``concerns`` is told of, those made inside it included."""

    def before(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if concerns(optimizer):
            begins(optimizer)

    def after(optimizer: torch.optim.Optimizer, *_: Any) -> None:
        if concerns(optimizer):
            done(optimizer)

    with every_step(before, after):
        yield
