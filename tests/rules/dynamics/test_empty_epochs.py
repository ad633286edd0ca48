"""Tests of T614 on loops whose training loader yields no batch in some epochs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import points

X, Y = points()


def rows() -> Iterator[tuple[Tensor, Tensor]]:
    yield from zip(X, Y, strict=True)


class HeldReader(IterableDataset[Any]):
    """A stream over a generator that is created once."""

    def __init__(self) -> None:
        self.reader = rows()  # here

    def __iter__(self) -> Iterator[Any]:
        return self.reader


class CountedRows(IterableDataset[Any]):
    """A stream that is its own iterator and never starts again."""

    def __init__(self) -> None:
        self.position = 0

    def __iter__(self) -> Iterator[Any]:  # here
        return self

    def __next__(self) -> tuple[Tensor, Tensor]:
        if self.position == len(X):
            raise StopIteration
        self.position += 1
        return X[self.position - 1], Y[self.position - 1]


class RestartedReader(IterableDataset[Any]):
    """A stream that opens a new generator for each epoch."""

    def __iter__(self) -> Iterator[Any]:
        return rows()


class EndlessReader(IterableDataset[Any]):
    """A stream over one generator without an end."""

    def __init__(self) -> None:
        self.reader = self.read()

    def read(self) -> Iterator[Any]:
        while True:
            yield from rows()

    def __iter__(self) -> Iterator[Any]:
        return self.reader


def whole_epochs(loader: Any) -> Iterator[Any]:
    for _ in range(4):
        yield from loader


def one_epoch(loader: Any) -> Iterator[Any]:
    yield from loader


def cut_epochs(loader: Any) -> Iterator[Any]:
    for _ in range(4):
        yield from islice(loader, 3)


def renewed_iterator(loader: Any) -> Iterator[Any]:
    batches = iter(loader)
    for _ in range(12):
        try:
            yield next(batches)
        except StopIteration:
            batches = iter(loader)
            yield next(batches)


def found(
    train: Any, validation: Any, batches: Callable[[Any], Iterator[Any]], *, is_checked: bool, is_replaced: bool
) -> list[Finding]:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader, val_loader = DataLoader(train, 16), DataLoader(validation, 16)
    loss_fn = nn.CrossEntropyLoss()
    debugger = Debugger(model, loader, val_loader, loss_fn=loss_fn, optimizer=optimizer)
    if is_checked:
        debugger.checkup()
    with debugger.watch(final_tests=False):
        for x, y in batches(debugger.train_loader if is_replaced else loader):
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
        for _ in range(3):
            list(val_loader)
    return [finding for finding in debugger.findings if finding.aspect == "empty epochs"]


@pytest.mark.parametrize("is_checked", [False, True])
@pytest.mark.parametrize(
    ("build", "is_replaced"), [(HeldReader, True), (HeldReader, False), (CountedRows, True), (CountedRows, False)]
)
def test_stopped_early_reports_epochs_without_a_batch(
    build: Callable[[], Any], is_replaced: bool, is_checked: bool
) -> None:
    (finding,) = found(build(), RestartedReader(), whole_epochs, is_checked=is_checked, is_replaced=is_replaced)
    assert (finding.code, finding.severity) == ("T614", "error")
    assert "# here" in str(finding.where.source)
    assert f"no batch in {finding.evidence['empty epochs']} epochs" in finding.message
    assert finding.evidence["empty epochs"] in ((3,) if finding.evidence["batches before"] else (4,))


@pytest.mark.parametrize(
    ("train", "validation", "batches"),
    [
        (RestartedReader, RestartedReader, whole_epochs),
        (RestartedReader, RestartedReader, renewed_iterator),
        (RestartedReader, HeldReader, whole_epochs),
        (EndlessReader, RestartedReader, cut_epochs),
        (HeldReader, RestartedReader, one_epoch),
    ],
    ids=["restarted", "renewed iterator", "validation", "endless", "one epoch"],
)
@pytest.mark.parametrize("is_replaced", [False, True])
def test_stopped_early_ignores_streams_that_yield_batches_in_each_epoch(
    train: Callable[[], Any], validation: Callable[[], Any], batches: Callable[[Any], Iterator[Any]], is_replaced: bool
) -> None:
    assert found(train(), validation(), batches, is_checked=True, is_replaced=is_replaced) == []
