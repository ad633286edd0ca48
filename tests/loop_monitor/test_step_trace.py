"""Tests of the trace of the first step of a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import nbdebug

X = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))


def in_turn(batches: Iterable[Any]) -> Iterator[Any]:
    yield from batches


def one_batch_ahead(batches: Iterable[Any]) -> Iterator[Any]:
    """Yield each batch when the next one has been read, as the loaders of Accelerate do."""
    remaining = iter(batches)
    batch = next(remaining)
    for following in remaining:
        yield batch
        batch = following
    yield batch


@pytest.mark.parametrize("read", [in_turn, one_batch_ahead])
@pytest.mark.parametrize("target", [X.sum(1), X.sum(1, keepdim=True)], ids=["broadcast", "of the same shape"])
def test_targets_of_a_batch_that_was_read_earlier_are_followed(
    read: Callable[[Iterable[Any]], Iterator[Any]], target: torch.Tensor
) -> None:
    model, loss_fn = nn.Linear(4, 1), nn.MSELoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(TensorDataset(X, target), 16)
    debugger = nbdebug.Debugger(model, loader, loss_fn=loss_fn, optimizer=optimizer)
    with debugger.watch(every=1, final_tests=False):
        for x, y in read(loader):
            optimizer.zero_grad()
            loss_fn(model(x), y).backward()
            optimizer.step()
    found = [finding for finding in debugger.findings if finding.code == "L205"]
    assert len(found) == (target.dim() == 1)
    assert all(finding.where.file == __file__ for finding in found)
