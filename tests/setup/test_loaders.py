"""Tests of reading batches without consuming them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    SequentialSampler,
    Subset,
    TensorDataset,
    get_worker_info,
)

import nbdebug
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup, loaders

X, Y = points()
DATA = TensorDataset(X, Y)


class RestartableStream(IterableDataset[Any]):
    """Restarts at every iteration."""

    def __iter__(self) -> Iterator[Any]:
        return iter(list(zip(X, Y, strict=True)))


class OneShotStream(IterableDataset[Any]):
    """Yields each sample once."""

    def __init__(self) -> None:
        self.source = iter(list(zip(X, Y, strict=True)))

    def __iter__(self) -> Iterator[Any]:
        return self.source


class UnreadableDataset(Dataset[Any]):
    """Cannot read sample 5."""

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> Any:
        if index == 5:
            raise OSError("no such picture")
        return X[index], Y[index]


def peek_batches(loader: Any, count: int = 2) -> list[Any]:
    return list(loaders.peek_batches(loader, count, "train_loader"))


def make_debugger(loader: Any) -> nbdebug.Debugger:
    return nbdebug.Debugger(network(3), loader, loss_fn=torch.nn.CrossEntropyLoss())


def read_first_values(loader: Any) -> list[float]:
    return [float(x[0, 0]) for x, _ in loader]


def test_peek_batches_of_dataset_reads_samples_by_index() -> None:
    loader = DataLoader(DATA, batch_size=16, shuffle=True, num_workers=2, persistent_workers=True)
    for (x, y), indices in peek_batches(loader):
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
        DataLoader(RestartableStream(), batch_size=16),
        [(X[:16], Y[:16]), (X[16:], Y[16:])],
    ],
    ids=["batch sampler", "collate", "no batching", "stream", "list"],
)
def test_peek_batches_of_any_loader_does_not_consume_them(loader: Any) -> None:
    expected = read_first_values(loader)
    assert [float(batch[0][0, 0]) for batch, _ in peek_batches(loader)] == expected[:2]
    make_debugger(loader).checkup()
    assert read_first_values(loader) == expected


@pytest.mark.parametrize(
    "options",
    [{"shuffle": True}, {"shuffle": True, "generator": torch.Generator(), "drop_last": True}, {}],
    ids=["random state of torch", "own generator", "in order"],
)
def test_tensors_read_at_once_are_the_same_batches_from_the_same_random_numbers(options: dict[str, Any]) -> None:
    loader = DataLoader(Subset(DATA, range(3, 60)), batch_size=16, **options)
    runs = []
    for source in (loader, loaders.read_tensors_at_once(loader)):
        generators = torch.default_generator, options.get("generator", torch.default_generator)
        for generator in generators:
            generator.manual_seed(3)
        batches = [[*batch] for _ in range(2) for batch in source]
        runs.append((source, batches, [generator.get_state() for generator in generators]))
    (user, batches, states), (quick, quick_batches, quick_states) = runs
    assert quick is not user
    assert [type(batch) for batch in quick] == [type(batch) for batch in user]
    for (x, y), (quick_x, quick_y) in zip(batches, quick_batches, strict=True):
        assert torch.equal(x, quick_x)
        assert torch.equal(y, quick_y)
    assert all(map(torch.equal, states, quick_states))


@pytest.mark.parametrize(
    "loader",
    [
        DataLoader(DATA, batch_size=16, num_workers=1),
        DataLoader(DATA, batch_size=16, collate_fn=lambda rows: rows),
        DataLoader(UnreadableDataset(), batch_size=16),
        [(X, Y)],
    ],
    ids=["workers", "collate", "own dataset", "list"],
)
def test_other_loaders_are_read_as_they_are(loader: Any) -> None:
    assert loaders.read_tensors_at_once(loader) is loader


@pytest.mark.parametrize(
    "make_loader",
    [lambda: iter(DataLoader(DATA, batch_size=16)), lambda: (batch for batch in DataLoader(DATA, batch_size=16))],
    ids=["iterator", "generator"],
)
def test_checkup_and_overfit_of_one_shot_loader_consume_no_batch(make_loader: Any) -> None:
    debugger = make_debugger(make_loader())
    debugger.checkup()
    debugger.overfit(steps=10, examples=4)
    assert read_first_values(debugger.train_loader) == read_first_values(DataLoader(DATA, batch_size=16))


def test_checkup_of_one_shot_stream_consumes_no_batch() -> None:
    debugger = make_debugger(DataLoader(OneShotStream(), batch_size=16))
    debugger.checkup()
    assert read_first_values(debugger.train_loader) == read_first_values(DataLoader(DATA, batch_size=16))


def test_checkup_of_ended_iterator_raises() -> None:
    with pytest.raises(nbdebug.SetupError, match="train_loader is empty; expected at least one batch"):
        make_debugger(iter([])).checkup()


def test_checkup_of_empty_loader_raises() -> None:
    with pytest.raises(nbdebug.SetupError, match="train_loader is empty"):
        make_debugger(DataLoader(DATA, batch_size=100, drop_last=True)).checkup()


def test_peek_batches_and_checkup_of_failing_dataset_name_sample() -> None:
    with pytest.raises(nbdebug.SetupError, match=r"sample 5 of the dataset raised OSError: no such picture"):
        peek_batches(DataLoader(UnreadableDataset(), batch_size=4))
    (finding,) = make_debugger(DataLoader(UnreadableDataset(), batch_size=4)).checkup()
    assert (finding.code, finding.where.sample) == ("D121", 5)


def test_peek_batches_of_failing_generator_names_batch() -> None:
    def batches() -> Iterator[Any]:
        yield X[:16], Y[:16]
        raise OSError("lost")

    with pytest.raises(nbdebug.SetupError, match="train_loader raised OSError in batch 1: lost"):
        peek_batches(loaders.make_peekable(batches(), "train_loader"))


class HoldsIterator:
    """A loader that goes on where it was, since it holds one iterator."""

    def __init__(self) -> None:
        self.batches = iter([(X[i : i + 8], Y[i : i + 8]) for i in range(0, 64, 8)])

    def __iter__(self) -> Iterator[Any]:
        yield from self.batches


def test_loader_that_holds_an_iterator_is_read_once() -> None:
    debugger = make_debugger(HoldsIterator())
    result = debugger.repeatable(steps=3)
    assert result.verdict == "repeatable"
    assert "can be read only once" in str(result.unchecked)
    assert len(list(debugger.setup.train_loader)) == 8


class RenewsIterator(HoldsIterator):
    """A loader that keeps the iterator of its latest epoch."""

    def __iter__(self) -> Iterator[Any]:
        self.batches = iter([(X[i : i + 8], Y[i : i + 8]) for i in range(0, 64, 8)])
        return self.batches


def test_loader_that_renews_its_iterator_is_read_again() -> None:
    loader = RenewsIterator()
    assert make_debugger(loader).setup.train_loader is loader


class KilledWorker(TensorDataset):
    """Kills the worker that reads its first sample, as the system does when memory is short."""

    def __getitem__(self, index: int) -> Any:
        if get_worker_info() is not None:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().__getitem__(index)


def test_killed_worker_is_named() -> None:
    debugger = make_debugger(DataLoader(KilledWorker(*DATA.tensors), batch_size=16, num_workers=1))
    with pytest.raises(nbdebug.SetupError, match=r"in batch 0: DataLoader worker .* (killed by|exited)"):
        debugger.repeatable(steps=2)


def test_broken_connection_of_a_worker_has_the_reason_that_a_signal_brings() -> None:
    def tell(*_: Any) -> None:
        raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed. ")

    former = signal.signal(signal.SIGALRM, tell)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        error = loaders.loader_error("train_loader", 2, EOFError())
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, former)
    assert "RuntimeError in batch 2: DataLoader worker (pid 1) is killed by signal: Killed; expected" in str(error)
    assert "raised ConnectionResetError in batch 2: reset" in str(
        loaders.loader_error("train_loader", 2, ConnectionResetError("reset"))
    )


@pytest.mark.parametrize("loader", [None, 3, DATA, DATA.tensors[0].mean], ids=["none", "number", "dataset", "method"])
def test_setup_with_invalid_loader_raises(loader: Any) -> None:
    with pytest.raises(nbdebug.SetupError, match=r"train_loader is .*; expected"):
        Setup(network(3), loader)


def test_checkup_does_not_change_shuffled_order() -> None:
    def read_epoch(with_checkup: bool) -> list[float]:
        torch.manual_seed(3)
        loader = DataLoader(DATA, batch_size=16, shuffle=True)
        if with_checkup:
            make_debugger(loader).checkup()
        return read_first_values(loader)

    assert read_epoch(with_checkup=True) == read_epoch(with_checkup=False)


def test_rows_of_transposed_tensors_have_the_strides_of_collated_samples() -> None:
    channels_last = torch.randn(12, 5, 6, 3).permute(0, 3, 1, 2)
    loader = DataLoader(TensorDataset(channels_last, torch.arange(12)), batch_size=4)
    (images, _), _ = next(loaders.peek_batches(loader, 1, "train_loader"))
    assert images.stride() == next(iter(loader))[0].stride()
