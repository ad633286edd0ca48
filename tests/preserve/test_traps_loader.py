"""Random state and the place in the data, which other tools move by looking at a batch."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Sampler, Subset, TensorDataset

from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import fingerprint


class Noisy(Dataset[Tensor]):
    """Augments by generators of its own and counts what it gave."""

    def __init__(self) -> None:
        self.items = [torch.zeros(1) for _ in range(200)]
        self.python, self.numpy, self.torch = random.Random(1), np.random.default_rng(1), torch.Generator()
        self.legacy, self.transforms, self.given = np.random.RandomState(1), [Jitter()], 0

    def __getitem__(self, index: int) -> Tensor:
        """One item with noise."""
        self.given += 1
        noise = self.python.random() + self.numpy.random() + self.legacy.rand()
        return self.transforms[0](self.items[index] + noise + torch.rand(1, generator=self.torch))

    def __len__(self) -> int:
        return 8


class Jitter:
    """A transform with a generator."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(2)

    def __call__(self, item: Tensor) -> Tensor:
        """The item, moved."""
        return item + self.rng.random()


def _loaders() -> Iterator[DataLoader[Any]]:
    data = ConcatDataset([Subset(Noisy(), [0, 1, 2]), Noisy()])
    yield DataLoader(data, batch_size=2)
    yield DataLoader(data, batch_size=2, shuffle=True)
    yield DataLoader(data, batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("loader", [*_loaders()], ids=["in order", "shuffled", "own generator"])
def test_r10_no_generator_moves(loader: DataLoader[Any]) -> None:
    before = fingerprint(loaders=[loader])
    with Preserve(loaders=[loader]):
        first = [batch.tolist() for batch in loader]
        np.random.seed(0)
        torch.manual_seed(0)
        random.random()
        assert before.differences()
    before.check()
    assert [batch.tolist() for batch in loader] == first


class Position(Sampler[int]):
    """A sampler that goes on where it stopped."""

    def __init__(self, size: int) -> None:
        self.size, self.position, self.order = size, 0, torch.randperm(size)

    def __iter__(self) -> Iterator[int]:
        while self.position < self.size:
            self.position += 1
            yield int(self.order[self.position - 1])
        self.position = 0
        self.order.copy_(torch.randperm(self.size))

    def __len__(self) -> int:
        return self.size


def test_r11_the_sampler_keeps_its_place() -> None:
    loader = DataLoader(TensorDataset(torch.arange(9)), batch_size=3, sampler=Position(9))
    next(iter(loader))
    before = fingerprint(loaders=[loader])
    with Preserve(loaders=[loader]):
        list(loader)
        next(iter(loader))
    before.check()
    assert len(list(loader)) == 2


def test_r11_an_epoch_under_way_goes_on_with_the_same_workers() -> None:
    assert _two_epochs(block=True) == _two_epochs(block=False)


def _two_epochs(block: bool) -> list[list[int]]:
    data = TensorDataset(torch.arange(12))
    loader = DataLoader(data, batch_size=2, shuffle=True, num_workers=1, persistent_workers=True)
    torch.manual_seed(0)
    found = []
    for batch in (batch for _ in range(2) for batch in loader):
        found.append(batch[0].tolist())
        workers = loader._iterator
        if block and len(found) in (1, 4, 6, 9):
            with Preserve(loaders=[loader]):
                next(iter(loader))
        assert loader._iterator is workers
    return found


class Stream(IterableDataset[int]):
    """Goes on where it stopped, by an index of its own."""

    def __init__(self) -> None:
        self.at = 0

    def __iter__(self) -> Iterator[int]:
        while self.at < 20:
            self.at += 1
            yield self.at


def test_r11_a_stream_keeps_its_place_and_an_iterator_is_not_touched() -> None:
    loader, once = DataLoader(Stream(), batch_size=4), iter(range(3))
    next(iter(loader))
    with Preserve(loaders=[loader, once]):
        next(iter(loader))
    assert next(iter(loader)).tolist() == [5, 6, 7, 8]
    assert list(once) == [0, 1, 2]
