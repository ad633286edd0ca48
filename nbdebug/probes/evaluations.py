"""The losses that a running loop computes without training on them: its own validation."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn


@contextmanager
def evaluations(loss_fn: Callable[..., Any] | None, heard: Callable[[Tensor], None]) -> Iterator[None]:
    """A block in which each scalar that a loss gives without gradients is told of, if the loss is a module."""
    if not isinstance(loss_fn, nn.Module):
        yield
        return

    def note(module: nn.Module, given: Any, value: Any) -> None:
        if not torch.is_grad_enabled() and isinstance(value, Tensor) and value.numel() == 1:
            heard(value)

    handle = loss_fn.register_forward_hook(note)
    try:
        yield
    finally:
        handle.remove()
