"""D116 tells batches of one class from shuffled ones, whatever gives them out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup

X, Y = points()
SORTED = torch.argsort(Y)
DATA = TensorDataset(X[SORTED], Y[SORTED])
CE = nn.CrossEntropyLoss()


class Named(Dataset[Any]):
    """Samples as dictionaries, class after class."""

    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": X[SORTED[index]], "labels": Y[SORTED[index]]}


class Stream(IterableDataset[Any]):
    """Samples one after the other, class after class."""

    def __iter__(self) -> Iterator[Any]:
        return iter(DATA)


def loaded(data: Any, **given: Any) -> Callable[[], Setup]:
    return lambda: Setup(network(3), DataLoader(data, 16, **given), loss_fn=CE)


def batches(order: Tensor) -> list[tuple[Tensor, Tensor]]:
    return [(X[part], Y[part]) for part in order.split(16)]


def balanced() -> Setup:
    weights = 1 / torch.bincount(Y)[DATA.tensors[1]]
    return loaded(DATA, sampler=WeightedRandomSampler(weights.tolist(), 64))()


FAULTY: dict[str, Callable[[], Setup]] = {
    "sorted tensors": loaded(DATA),
    "dictionaries": loaded(Named()),
    "stream": loaded(Stream()),
    "plain batches": lambda: Setup(network(3), batches(SORTED), loss_fn=CE),
    "one class for long": lambda: Setup(
        network(3), [(torch.randn(16, 4), torch.full((16,), i // 6)) for i in range(18)], loss_fn=CE
    ),
    "one-shot": lambda: Setup(network(3), iter(batches(SORTED)), loss_fn=CE),
    "binary": lambda: minimal_setup(
        network(1), X[SORTED], (Y[SORTED] > 0).float().unsqueeze(1), nn.BCEWithLogitsLoss()
    ),
    "own loss": lambda: minimal_setup(network(3), X[SORTED], Y[SORTED], lambda o, t: F.cross_entropy(o, t)),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "in random order": lambda: minimal_setup(network(3), X, Y, CE),
    "sorted and shuffled by the loader": loaded(DATA, shuffle=True),
    "balanced sampler": balanced,
    "easy samples first": lambda: minimal_setup(network(3), *(t[X.norm(dim=1).argsort()] for t in (X, Y)), CE),
    "one class": lambda: minimal_setup(network(3), X, torch.ones_like(Y), CE),
    "targets in time": lambda: minimal_setup(network(1), X, torch.linspace(0, 1, 64).unsqueeze(1), nn.MSELoss()),
    "batches of one": lambda: Setup(network(3), DataLoader(DATA, 1), loss_fn=CE),
    "a stream of one common class": lambda: Setup(
        network(3), [(torch.randn(16, 4), (torch.arange(16) > 14).long() * (i == 9)) for i in range(18)], loss_fn=CE
    ),
    "a rare class": lambda: minimal_setup(network(3), X, (torch.arange(64) == 40).long(), CE),
}


def said(setup: Setup) -> list[Finding]:
    torch.manual_seed(0)
    return list(Debugger.of(setup).checkup(select=["D116"]))


@pytest.mark.parametrize("name", FAULTY)
def test_sorted_batches_are_found(name: str) -> None:
    (found,) = said(FAULTY[name]())
    assert found.severity == "warning"
    assert "shuffle=True" in found.fix


@pytest.mark.parametrize("name", HEALTHY)
def test_shuffled_batches_are_left_alone(name: str) -> None:
    assert said(HEALTHY[name]()) == []
