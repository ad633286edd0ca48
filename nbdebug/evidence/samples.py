"""The samples of a data set, read one by one for a moment."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from operator import index as as_index
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from nbdebug.evidence.ledger import slow_measurement
from nbdebug.evidence.rows import is_stored
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_indexed
from nbdebug.setup.trees import tensors

SECONDS = 0.25
MOST_SAMPLES = 1_000_000
MOST_VALUES = 25_000_000


@dataclass
class Samples:
    """What a split gives by index: samples as the data set returns them, and what it raised instead.

    ``visited`` are the indices that the loader goes through, each once.
    """

    split: str
    loader: DataLoader[Any]
    visited: Sequence[int]
    read: dict[int, Any] = field(default_factory=dict)
    raised: dict[int, Exception] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether every sample was tried."""
        return len(self.read) + len(self.raised) == len(self.visited)


@slow_measurement
def samples(setup: Setup) -> list[Samples]:
    """Samples of both splits by index, drawn with a fixed seed, as many as a quarter of a second each allows.

    A TensorDataset is not read so: its tensors are looked at as they lie.
    """
    loaders = {"train": setup.train_loader, "val": setup.val_loader}
    return [read(split, one) for split, one in loaders.items() if is_indexed(one) and not is_stored(one)]


def read(split: str, loader: DataLoader[Any]) -> Samples:
    """The samples of one split; whatever the data set raises is kept."""
    found = Samples(split, loader, visited(loader))
    order, values, started = list(found.visited), 0, time.perf_counter()
    random.Random(0).shuffle(order)
    for index in order:
        if values > MOST_VALUES or time.perf_counter() - started > SECONDS:
            break
        try:
            found.read[index] = loader.dataset[index]
            values += sum(t.numel() for t in tensors(found.read[index]))
        except Exception as error:
            found.raised[index] = error
    return found


def visited(loader: DataLoader[Any]) -> Sequence[int]:
    """The indices that a loader goes through, each once; raises NotChecked where they are no numbers."""
    plain = type(loader.batch_sampler) is BatchSampler and type(loader.sampler) in (SequentialSampler, RandomSampler)
    if plain:
        return range(len(loader.dataset))  # type: ignore[arg-type]
    try:
        return list(dict.fromkeys(map(as_index, islice(drawn(loader), MOST_SAMPLES))))
    except TypeError as error:
        raise NotChecked(f"the sampler gives something else than whole numbers: {error}") from error


def drawn(loader: DataLoader[Any]) -> Iterator[Any]:
    """Every index that the samplers of a loader give."""
    if loader.batch_sampler is None:
        yield from loader.sampler
        return
    for chosen in loader.batch_sampler:
        yield from chosen
