"""Tests of Preserve on loaders: random state and the position in the data."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Sampler, Subset, TensorDataset

from nbdebug.preserve import Preserve
from tests.preserve.fingerprint import fingerprint


class NoisyDataset(Dataset[Tensor]):
    """Adds noise of its own generators and counts the samples that were read."""

    def __init__(self) -> None:
        self.items = [torch.zeros(1) for _ in range(200)]
        self.python, self.numpy, self.torch = random.Random(1), np.random.default_rng(1), torch.Generator()
        self.legacy, self.transforms, self.read_count = np.random.RandomState(1), [JitterTransform()], 0

    def __getitem__(self, index: int) -> Tensor:
        self.read_count += 1
        noise = self.python.random() + self.numpy.random() + self.legacy.rand()
        return self.transforms[0](self.items[index] + noise + torch.rand(1, generator=self.torch))

    def __len__(self) -> int:
        return 8


class JitterTransform:
    """A transform with a generator."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(2)

    def __call__(self, item: Tensor) -> Tensor:
        return item + self.rng.random()


def make_loaders() -> Iterator[DataLoader[Any]]:
    data = ConcatDataset([Subset(NoisyDataset(), [0, 1, 2]), NoisyDataset()])
    yield DataLoader(data, batch_size=2)
    yield DataLoader(data, batch_size=2, shuffle=True)
    yield DataLoader(data, batch_size=2, shuffle=True, generator=torch.Generator().manual_seed(3))


@pytest.mark.parametrize("loader", [*make_loaders()], ids=["in order", "shuffled", "custom generator"])
def test_block_restores_all_random_generators(loader: DataLoader[Any]) -> None:
    before = fingerprint(loaders=[loader])
    with Preserve(loaders=[loader]):
        batches = [batch.tolist() for batch in loader]
        np.random.seed(0)
        torch.manual_seed(0)
        random.random()
        assert before.differences()
    before.check()
    assert [batch.tolist() for batch in loader] == batches


class ResumableSampler(Sampler[int]):
    """A sampler that continues where it stopped."""

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


def test_block_restores_position_of_sampler() -> None:
    loader = DataLoader(TensorDataset(torch.arange(9)), batch_size=3, sampler=ResumableSampler(9))
    next(iter(loader))
    before = fingerprint(loaders=[loader])
    with Preserve(loaders=[loader]):
        list(loader)
        next(iter(loader))
    before.check()
    assert len(list(loader)) == 2


def test_block_during_epoch_keeps_its_workers() -> None:
    assert read_two_epochs(block=True) == read_two_epochs(block=False)


def read_two_epochs(block: bool) -> list[list[int]]:
    data = TensorDataset(torch.arange(12))
    loader = DataLoader(data, batch_size=2, shuffle=True, num_workers=1, persistent_workers=True)
    torch.manual_seed(0)
    batches = []
    for batch in (batch for _ in range(2) for batch in loader):
        batches.append(batch[0].tolist())
        workers = loader._iterator
        if block and len(batches) in (1, 4, 6, 9):
            with Preserve(loaders=[loader]):
                next(iter(loader))
        assert loader._iterator is workers
    return batches


class ResumableStream(IterableDataset[int]):
    """Continues where it stopped."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Iterator[int]:
        while self.position < 20:
            self.position += 1
            yield self.position


def test_block_restores_position_of_stream_and_does_not_read_iterator() -> None:
    loader, iterator = DataLoader(ResumableStream(), batch_size=4), iter(range(3))
    next(iter(loader))
    with Preserve(loaders=[loader, iterator]):
        next(iter(loader))
    assert next(iter(loader)).tolist() == [5, 6, 7, 8]
    assert list(iterator) == [0, 1, 2]


class KeepingDataset(Dataset[Tensor]):
    """Keeps each sample after its first read, with random noise."""

    def __init__(self, store: Any) -> None:
        self.x, self.store = torch.arange(200.0), store

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Tensor:
        kept: Tensor | None = self.store.get(index) if isinstance(self.store, dict) else self.store[index]
        if kept is None:
            kept = self.store[index] = self.x[index] + torch.randn(())
        return kept


STORES: dict[str, Callable[[], Any]] = {
    "a list": lambda: [None] * 200,
    "a dictionary": lambda: dict.fromkeys(range(200)),
    "an empty dictionary": dict,
    "a dictionary with a default": lambda: defaultdict(lambda: None),
    "a list with a kept sample": lambda: [torch.ones(()), *[None] * 199],
}


@pytest.mark.parametrize("name", STORES)
def test_samples_that_a_dataset_keeps_are_forgotten_after_the_block(name: str) -> None:
    store = STORES[name]()
    dataset = KeepingDataset(store)
    loader, before = DataLoader(Subset(dataset, range(100, 104)), batch_size=4), store.copy()
    with Preserve(loaders=[loader]):
        next(iter(loader))
    assert dataset.store is store
    assert len(store) == len(before)
    entries = zip(*(kept.values() if isinstance(kept, dict) else kept for kept in (store, before)), strict=True)
    assert all(value is earlier for value, earlier in entries)


def test_samples_that_a_dataset_keeps_are_shared_by_inner_blocks() -> None:
    dataset = KeepingDataset([None] * 200)
    with Preserve(dataset):
        with Preserve(dataset):
            sample = dataset[100]
        assert dataset[100] is sample
    assert dataset.store == [None] * 200
