"""Batches of random rows of a split: a minimum number, and more within a time limit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import (
    MAX_SAMPLER_INDICES,
    get_visited_indices,
    is_map_style,
    iterate_sampler_indices,
    peek_batches,
    read_sample,
    read_tensor_rows,
    reads_tensor_dataset,
)
from nbdebug.setup.unpacking import collate_error
from nbdebug.tensors.pytree import tree_tensors

_MAX_SHUFFLED_ROWS = 100_000


def read_random_batches(
    setup: Setup,
    split: str,
    *,
    max_rows: int,
    batch_size: int,
    max_values: int,
    limit: ReadingLimit,
    as_sampled: bool = False,
) -> Iterator[Batch]:
    """Yield batches of random rows if the dataset can be read by index, else the first batches, within the limits.

    Each row is read once, or as often as the loader's sampler draws it in an epoch if ``as_sampled``.
    """
    loader = setup.train_loader if split == "train" else setup.val_loader
    rows = values = 0
    for batch in _iterate_batches(setup, loader, split, max_rows, batch_size, limit, as_sampled):
        yield batch
        earlier, rows = rows, rows + batch.size
        values += sum(tensor.numel() for tensor in tree_tensors((batch.args, batch.kwargs, batch.targets)))
        if rows >= max_rows or values > max_values or limit.ends_within(earlier, rows):
            return


def _iterate_batches(
    setup: Setup, loader: Any, split: str, max_rows: int, batch_size: int, limit: ReadingLimit, as_sampled: bool
) -> Iterator[Batch]:
    if not is_map_style(loader) or loader.batch_sampler is None:
        for raw, indices in peek_batches(loader, max_rows, f"{split}_loader"):
            yield setup.split_batch(raw, indices)
        return
    visited = get_visited_indices(loader)
    is_sampled = as_sampled and not isinstance(visited, range)
    order = list(islice(iterate_sampler_indices(loader), MAX_SAMPLER_INDICES) if is_sampled else visited)
    if len(order) > _MAX_SHUFFLED_ROWS:
        order = random.Random(0).sample(order, min(max_rows, len(order)))
    else:
        random.Random(0).shuffle(order)
    order = order[:max_rows]
    for start in range(0, len(order), batch_size):
        chunk = order[start : start + batch_size]
        if len(chunk) > 1 or not start:
            raw, indices = _read_chunk(loader, chunk, start, limit)
            yield setup.split_batch(raw, indices)


def _read_chunk(loader: Any, chunk: list[int], earlier: int, limit: ReadingLimit) -> tuple[Any, tuple[int, ...]]:
    """Return the samples at some indices as a batch, and the indices read before the limit, at least two.

    ``earlier`` samples were read before. Those of tensors are read at once, as default collation returns them.
    """
    if reads_tensor_dataset(loader):
        return read_tensor_rows(loader.dataset, chunk), tuple(chunk)
    samples = []
    for index in chunk:
        samples.append(read_sample(loader.dataset, index))
        if len(samples) > 1 and limit.ends_after(earlier + len(samples)):
            break
    try:
        return loader.collate_fn(samples), tuple(chunk[: len(samples)])
    except Exception as error:
        raise collate_error(samples, error) from error
