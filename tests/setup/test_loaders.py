"""Looking at batches takes none from the user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, Dataset, IterableDataset, SequentialSampler, TensorDataset

import nbdebug
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup, loaders

X, Y = points()
DATA = TensorDataset(X, Y)


class Stream(IterableDataset[Any]):
    """Starts again each time."""

    def __iter__(self) -> Iterator[Any]:
        return iter(list(zip(X, Y, strict=True)))


class Socket(IterableDataset[Any]):
    """Gives each sample once."""

    def __init__(self) -> None:
        self.source = iter(list(zip(X, Y, strict=True)))

    def __iter__(self) -> Iterator[Any]:
        return self.source


class Broken(Dataset[Any]):
    """Cannot read sample 5."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise OSError("no such picture")
        return X[index], Y[index]


def first(loader: Any, count: int = 2) -> list[Any]:
    return list(loaders.peek_batches(loader, count, "train_loader"))


def debugger(loader: Any) -> nbdebug.Debugger:
    return nbdebug.Debugger(network(3), loader, loss_fn=torch.nn.CrossEntropyLoss())


def seen(loader: Any) -> list[float]:
    return [float(x[0, 0]) for x, _ in loader]


def test_batches_of_a_data_set_are_made_by_index() -> None:
    loader = DataLoader(DATA, batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    for (x, y), indices in first(loader):
        assert torch.equal(x, X[list(indices)])
        assert torch.equal(y, Y[list(indices)])
    assert loader._iterator is None


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(DATA, batch_sampler=BatchSampler(SequentialSampler(DATA), 16, False)),
        DataLoader(
            DATA,
            batch_size=16,
            collate_fn=lambda rows: (torch.stack([x for x, _ in rows]), torch.tensor([y for _, y in rows])),
        ),
        DataLoader(TensorDataset(X.view(4, 16, 4), Y.view(4, 16)), batch_size=None),
        DataLoader(Stream(), batch_size=16),
        [(X[:16], Y[:16]), (X[16:], Y[16:])],
    ],
    ids=["batch sampler", "collate", "no batching", "stream", "list"],
)
def test_any_loader_gives_its_first_batches_and_keeps_them(loader: Any) -> None:
    before = seen(loader)
    assert [float(batch[0][0, 0]) for batch, _ in first(loader)] == before[:2]
    debugger(loader).checkup()
    assert seen(loader) == before


@pytest.mark.parametrize(
    "make",
    [lambda: iter(DataLoader(DATA, batch_size=16)), lambda: (batch for batch in DataLoader(DATA, batch_size=16))],
)
def test_a_one_shot_loader_gives_everything_back(make: Any) -> None:
    dbg = debugger(make())
    dbg.checkup()
    dbg.overfit(steps=10, examples=4)
    assert seen(dbg.train_loader) == seen(DataLoader(DATA, batch_size=16))


def test_a_stream_that_cannot_start_again_gives_everything_back() -> None:
    dbg = debugger(DataLoader(Socket(), batch_size=16))
    dbg.checkup()
    assert seen(dbg.train_loader) == seen(DataLoader(DATA, batch_size=16))


def test_an_iterator_that_has_ended_is_empty() -> None:
    with pytest.raises(nbdebug.SetupError, match="train_loader is empty; expected at least one batch"):
        debugger(iter([])).checkup()


def test_an_empty_loader() -> None:
    with pytest.raises(nbdebug.SetupError, match="train_loader is empty"):
        debugger(DataLoader(DATA, batch_size=100, drop_last=True)).checkup()


def test_a_data_set_that_raises_names_the_sample() -> None:
    with pytest.raises(nbdebug.SetupError, match=r"sample 5 of the dataset raised OSError: no such picture"):
        first(DataLoader(Broken(), batch_size=4))
    (found,) = debugger(DataLoader(Broken(), batch_size=4)).checkup()
    assert (found.code, found.where.sample) == ("D121", 5)


def test_a_generator_that_raises_names_the_batch() -> None:
    def batches() -> Iterator[Any]:
        yield X[:16], Y[:16]
        raise OSError("lost")

    with pytest.raises(nbdebug.SetupError, match="train_loader raised OSError in batch 1: lost"):
        first(loaders.make_peekable(batches(), "train_loader"))


@pytest.mark.parametrize("wrong", [None, 3, DATA, DATA.tensors[0].mean])
def test_what_is_no_loader_is_refused(wrong: Any) -> None:
    with pytest.raises(nbdebug.SetupError, match=r"train_loader is .*; expected"):
        Setup(network(3), wrong)


def test_the_shuffled_order_of_the_user_stays() -> None:
    def epochs(look: bool) -> list[float]:
        torch.manual_seed(3)
        loader = DataLoader(DATA, batch_size=16, shuffle=True)
        if look:
            debugger(loader).checkup()
        return seen(loader)

    assert epochs(look=True) == epochs(look=False)
