"""The calls of a running loop to its loss: what it is given in training, and what it gives in validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from nbdebug.probes.modes import Hook


@contextmanager
def loss_calls(
    loss_fn: Callable[..., Any] | None,
    trains: Callable[[tuple[Any, ...]], None],
    evaluated: Callable[[Tensor], None],
) -> Iterator[None]:
    """A block in which each call of a loss is told of, if the loss is a module.

    With gradients ``trains`` gets the arguments before it runs, without them ``evaluated`` the scalar that it gives.
    """
    if not isinstance(loss_fn, nn.Module):
        yield
        return
    hanging: list[RemovableHandle] = []

    def before(_: nn.Module, args: tuple[Any, ...]) -> None:
        if torch.is_grad_enabled():
            trains(args)
        elif not hanging:
            hanging.append(loss_fn.register_forward_hook(Hook(after, slice(2, 3))))

    def after(value: Any) -> None:
        hanging.pop().remove()
        if isinstance(value, Tensor) and value.numel() == 1:
            evaluated(value)

    first = loss_fn.register_forward_pre_hook(Hook(before))
    try:
        yield
    finally:
        for handle in (first, *hanging):
            handle.remove()
