"""Batches of any size, of the user's own samples."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import islice
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.setup import Batch, Setup, loaders

SECONDS_OF_READING = 3.0


class Supply:
    """Batches made of samples of the data set by the loader's own collate function, else of rows of its first batch.

    Samples are read once, in the order of the loader's sampler, and come again in larger batches once reading has
    taken SECONDS_OF_READING: memory and time of a step are those of any others of their kind. ``count`` is how many
    samples there are, where that is known.
    """

    def __init__(self, setup: Setup) -> None:
        self.setup, self.loader = setup, setup.train_loader
        self.collates = collates(self.loader)
        self.samples: list[Any] = []
        self.stream = samples(self.loader) if self.collates else iter(())
        self.count = length(self.loader) if self.collates else None
        self.reading = 0.0
        self.first: Batch | None = None

    def batch(self, size: int) -> Batch:
        """A batch of ``size`` samples on the model's device; raises SetupError where none can be made."""
        if not self.collates:
            return self.rows(size)
        self.read(size)
        if not self.samples:
            raise SetupError("train_loader is empty; expected at least one sample. Check len(dataset) and the sampler.")
        chosen = [self.samples[row % len(self.samples)] for row in range(size)]
        return self.collated(chosen)

    def read(self, size: int) -> None:
        """Reads samples until there are enough, they end, or it takes too long."""
        started = time.perf_counter()
        while len(self.samples) < size and self.reading + time.perf_counter() - started < SECONDS_OF_READING:
            found = list(islice(self.stream, 1))
            self.samples += found
            if not found:
                self.count = len(self.samples)
                break
        self.reading += time.perf_counter() - started

    def rows(self, size: int) -> Batch:
        """Rows of the first batch, over and over."""
        if self.first is None:
            self.first = next(self.setup.batches(1))
        try:
            return self.first.take([row % max(self.first.size, 1) for row in range(size)])
        except NotChecked as why:
            said = f"train_loader gives batches that cannot be cut into samples ({why}); expected a DataLoader"
            raise SetupError(f"{said}. Pass one with the collate_fn that you use.") from why

    def drawn(self, count: int, seed: int) -> list[Any]:
        """Samples drawn at random without repetition; raises NotChecked where the loader has no indices."""
        if not (self.collates and loaders.is_indexed(self.loader)):
            raise NotChecked("samples can be drawn at random only from a data set with indices")
        indices = list(indices_of(self.loader))
        random = torch.Generator().manual_seed(seed)
        order = torch.randperm(len(indices), generator=random)[:count].tolist()
        return [loaders.read(self.loader.dataset, indices[row]) for row in order]

    def collated(self, chosen: list[Any]) -> Batch:
        """A batch of some samples; a ``step_fn`` splits it by itself."""
        raw = self.loader.collate_fn(chosen)
        return Batch((), raw=raw) if self.setup.step_fn is not None else self.setup.split(raw)

    @property
    def seconds_a_sample(self) -> float:
        """How long one sample took to read in this process."""
        return self.reading / len(self.samples) if self.samples else 0.0


def collates(loader: Any) -> bool:
    """Whether a loader makes its batches of single samples."""
    plain = isinstance(loader, DataLoader) and type(loader).__iter__ is DataLoader.__iter__
    return plain and (loader.batch_sampler is not None or loader.batch_size is not None)


def samples(loader: DataLoader[Any]) -> Iterator[Any]:
    """The samples of a loader one by one, in its order."""
    if isinstance(loader.dataset, IterableDataset):
        yield from loader.dataset
    else:
        yield from (loaders.read(loader.dataset, index) for index in indices_of(loader))


def indices_of(loader: DataLoader[Any]) -> Iterator[Any]:
    """The indices in the order of the loader's sampler."""
    for chosen in loader.batch_sampler or ():
        yield from chosen


def length(loader: DataLoader[Any]) -> int | None:
    """How many samples there are; None for a stream."""
    return None if isinstance(loader.dataset, IterableDataset) else len(loader.dataset)  # type: ignore[arg-type]


def users_size(setup: Setup) -> int | None:
    """The batch size that the user trains with now."""
    known = getattr(setup.train_loader, "batch_size", None)
    if known is None:
        known = getattr(getattr(setup.train_loader, "batch_sampler", None), "batch_size", None)
    return known if isinstance(known, int) else None
