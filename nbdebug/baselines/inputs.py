"""Some rows of a data set as the model gets them, for as long as there is time."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.baselines.features import stacked
from nbdebug.evidence.samples import visited
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import batches, is_indexed, read
from nbdebug.setup.trees import tensors

MOST_ROWS, CHUNK = 5000, 64


@dataclass(frozen=True)
class Inputs:
    """Rows that were read: the tensors of their inputs, their targets, and which of those asked for they are."""

    parts: tuple[Tensor, ...]
    targets: Any
    rows: NDArray[np.int64]

    def __len__(self) -> int:
        """How many there are."""
        return len(self.rows)


def of_training(setup: Setup, until: float, without: frozenset[int] = frozenset()) -> Inputs:
    """Up to 5,000 training rows, at random where the data set can be read by index, else the first ones."""
    loader = setup.train_loader
    if not is_indexed(loader):
        found = (setup.split(raw) for raw, _ in batches(loader, MOST_ROWS, "train_loader"))
        return joined(enough(found, until))
    order = [one for one in visited(loader) if one not in without]
    random.Random(0).shuffle(order)
    return by_index(setup, loader.dataset, loader.collate_fn, order[:MOST_ROWS], until)


def by_index(setup: Setup, dataset: Any, collate: Callable[..., Any], order: Sequence[int], until: float) -> Inputs:
    """Rows by their places in a data set; those that there was no time for are left out at the end."""
    chunks = (order[at : at + CHUNK] for at in range(0, len(order), CHUNK))
    found = (setup.split(collate([read(dataset, index) for index in chunk])) for chunk in chunks)
    return joined(enough(found, until))


def enough(found: Iterator[Batch], until: float) -> Iterator[Batch]:
    """Batches while there is time, and until there are 5,000 rows."""
    rows = 0
    for batch in found:
        yield batch
        rows += batch.size
        if rows >= MOST_ROWS or time.perf_counter() > until:
            return


def joined(found: Iterator[Batch]) -> Inputs:
    """Batches as one; raises NotChecked where inputs and targets have no row for each sample."""
    read = [(rows_of(one), one.target) for one in islice(found, MOST_ROWS)]
    if not read or any(len(parts) != len(read[0][0]) for parts, _ in read):
        raise NotChecked("the inputs could not be read as rows")
    if not all(isinstance(target, Tensor) for _, target in read):
        raise NotChecked("the target is not one tensor")
    parts = tuple(stacked([parts[i] for parts, _ in read]) for i in range(len(read[0][0])))
    targets = torch.cat([target.detach().cpu() for _, target in read])
    return Inputs(parts, targets, np.arange(len(targets)))


def rows_of(batch: Batch) -> list[Tensor]:
    """The tensors of the inputs of a batch that have a row for each sample."""
    size = batch.size
    every = tensors((batch.args, batch.kwargs))
    return [one.detach().cpu() for one in every if one.layout == torch.strided and one.dim() and len(one) == size]
