"""The batches that a running loop draws: from which loader, after what wait, and in which epoch."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.utils.data import dataloader as torchs

Heard = Callable[[tuple[Any, Any, float]], None]


@contextmanager
def batches(drawn: Heard) -> Iterator[None]:
    """A block in which each batch of any DataLoader is told of, as (its iterator, the batch, seconds waited).

    The iterators' own ``__next__`` is put back when the block ends. Other iterables are not heard.
    """
    kind = torchs._BaseDataLoaderIter
    original = kind.__next__

    @functools.wraps(original)
    def following(self: Any) -> Any:
        begun = time.perf_counter()
        batch = original(self)
        drawn((self, batch, time.perf_counter() - begun))
        return batch

    kind.__next__ = following  # type: ignore[method-assign]
    try:
        yield
    finally:
        kind.__next__ = original  # type: ignore[method-assign]


def comes_from(iterator: Any, loader: Any) -> bool:
    """Whether an iterator was made by a loader: both hold the same data set and the same sampler of batches."""
    dataset, sampler = getattr(loader, "dataset", None), getattr(loader, "_index_sampler", None)
    return dataset is not None and iterator._dataset is dataset and iterator._index_sampler is sampler
