"""Hooks on some modules, for the time of a block."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def hooked(modules: Iterable[nn.Module], look: Any) -> Iterator[None]:
    """A block with a forward hook on some modules."""
    handles = [one.register_forward_hook(look) for one in modules]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
