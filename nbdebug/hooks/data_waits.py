"""Hooks on the calls of a running loop that wait for data: the next batch of a loader, and copies to a device."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor
from torch.utils.data import dataloader as torch_dataloader

_COPYING_METHODS = ("to", "cuda")


@contextmanager
def observe_data_waits(on_begin: Callable[[Any], None], on_end: Callable[[Any], None]) -> Iterator[None]:
    """Call ``on_begin`` and ``on_end`` with the iterator around each batch of any DataLoader within the block.

    ``on_end`` also follows the end of the loader and an exception. Restores the iterators' own ``__next__`` at the end.
    """
    iterator_class = torch_dataloader._BaseDataLoaderIter
    original = iterator_class.__next__

    @functools.wraps(original)
    def observed_next(self: Any) -> Any:
        on_begin(self)
        try:
            return original(self)
        finally:
            on_end(self)

    iterator_class.__next__ = observed_next  # type: ignore[method-assign]
    try:
        yield
    finally:
        iterator_class.__next__ = original  # type: ignore[method-assign]


@contextmanager
def observe_loader_ends(on_end: Callable[[Any], None]) -> Iterator[None]:
    """Call ``on_end`` with the iterator of any DataLoader that has no more batches, each time it is asked for one."""
    iterator_class = torch_dataloader._BaseDataLoaderIter
    original = iterator_class.__next__

    @functools.wraps(original)
    def observed_next(self: Any) -> Any:
        try:
            return original(self)
        except StopIteration:
            on_end(self)
            raise

    iterator_class.__next__ = observed_next  # type: ignore[method-assign]
    try:
        yield
    finally:
        iterator_class.__next__ = original  # type: ignore[method-assign]


@contextmanager
def observe_loader_starts(on_begin: Callable[[Any], None], on_end: Callable[[Any], None]) -> Iterator[None]:
    """Call ``on_begin`` and ``on_end`` with the loader around each start of an iteration, which may start workers."""
    original = torch_dataloader.DataLoader.__iter__

    @functools.wraps(original)
    def observed_start(self: Any) -> Any:
        on_begin(self)
        try:
            return original(self)
        finally:
            on_end(self)

    torch_dataloader.DataLoader.__iter__ = observed_start  # type: ignore[method-assign]
    try:
        yield
    finally:
        torch_dataloader.DataLoader.__iter__ = original  # type: ignore[method-assign]


@contextmanager
def observe_device_copies(on_begin: Callable[[], None], on_end: Callable[[Tensor], None]) -> Iterator[None]:
    """Call ``on_begin`` before, and ``on_end`` with the tensor after, each ``to()`` or ``cuda()`` of a CPU tensor.

    Restores the class at the end of the block.
    """
    own_methods = {name: vars(Tensor).get(name) for name in _COPYING_METHODS}
    for name in _COPYING_METHODS:
        setattr(Tensor, name, _observed_copy(getattr(Tensor, name), on_begin, on_end))
    try:
        yield
    finally:
        for name, own_method in own_methods.items():
            if own_method is None:
                delattr(Tensor, name)
            else:
                setattr(Tensor, name, own_method)


def _observed_copy(original: Any, on_begin: Callable[[], None], on_end: Callable[[Tensor], None]) -> Callable[..., Any]:
    @functools.wraps(original)
    def observed_copy(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self.device.type != "cpu":
            return original(self, *args, **kwargs)
        on_begin()
        try:
            return original(self, *args, **kwargs)
        finally:
            on_end(self)

    return observed_copy
