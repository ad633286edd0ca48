"""The line of a running loop that calls the loss."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

from nbdebug.graph.source import Line, from_frame


@contextmanager
def loss_call(loss_fn: Callable[..., Any] | None, emit: Callable[[Line], None]) -> Iterator[None]:
    """A block in which ``emit`` gets the user's line of the first call of a loss, if the loss is a module."""
    if not isinstance(loss_fn, nn.Module):
        yield
        return

    def note(*_: Any) -> None:
        handle.remove()
        if line := from_frame(sys._getframe(1)):
            emit(line)

    handle = loss_fn.register_forward_pre_hook(note)
    try:
        yield
    finally:
        handle.remove()
