"""D108 tells samples that were copied into validation from those that repeat by chance."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import (
    ConcatDataset,
    DataLoader,
    Dataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    random_split,
)

from nbdebug.debugger import Debugger
from nbdebug.finding import Finding
from nbdebug.rules.examples import network
from nbdebug.setup import Setup

DRAWN = torch.Generator().manual_seed(0)
X = torch.randn(200, 4, generator=DRAWN)
Y = (X @ torch.randn(4, 3, generator=DRAWN)).argmax(1)
DATA = TensorDataset(X, Y)
WORDS = torch.randint(0, 4, (400, 3), generator=DRAWN)


class Augmented(Dataset[Any]):
    """Other noise at each reading."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return self.x[index] + 0.1 * torch.randn(4), self.y[index]


class Named(Dataset[Any]):
    """Samples as dictionaries."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {"x": self.x[index], "labels": self.y[index]}


def splits(train: Any, val: Any, **given: Any) -> Setup:
    loaders = [DataLoader(part, 16, shuffle=part is train) for part in (train, val)]
    return Setup(given.pop("model", None) or network(3), *loaders, loss_fn=nn.CrossEntropyLoss(), **given)


def pool(x: Tensor, y: Tensor, copies: int) -> Setup:
    data = ConcatDataset([TensorDataset(x, y), TensorDataset(x[:copies], y[:copies])])
    train, val = random_split(data, [0.75, 0.25], generator=torch.Generator().manual_seed(0))
    return splits(train, val)


def samplers(train: range, val: range) -> Setup:
    data = Augmented(X, Y)
    loaders = [DataLoader(data, 16, sampler=SubsetRandomSampler(list(part))) for part in (train, val)]
    return Setup(network(3), *loaders, loss_fn=nn.CrossEntropyLoss())


def tokens(train: Tensor, val: Tensor) -> Setup:
    model = nn.Sequential(nn.Embedding(4, 8), nn.Flatten(), nn.Linear(24, 3))
    return splits(*(TensorDataset(part, part.sum(1) % 3) for part in (train, val)), model=model)


def batches(train: slice, val: slice) -> Setup:
    parts = [[(X[part], Y[part])] for part in (train, val)]
    return Setup(network(3), *parts, loss_fn=nn.CrossEntropyLoss())


FAULTY: dict[str, Callable[[], Setup]] = {
    "slice of training": lambda: splits(TensorDataset(X[:160], Y[:160]), TensorDataset(X[:40], Y[:40])),
    "overlapping subsets": lambda: splits(Subset(DATA, range(150)), Subset(DATA, range(140, 200))),
    "one augmented data set": lambda: samplers(range(200), range(150, 200)),
    "the same loader": lambda: splits(DATA, DATA),
    "copies in the pool": lambda: pool(X, Y, 40),
    "dictionaries": lambda: splits(Named(X[:160], Y[:160]), Named(X[150:], Y[150:])),
    "plain batches": lambda: batches(slice(0, 64), slice(32, 96)),
    "token rows, all seen": lambda: tokens(WORDS[:20].unique(dim=0), WORDS[:20].unique(dim=0)[:15]),
}
HEALTHY: dict[str, Callable[[], Setup]] = {
    "cut in two": lambda: splits(TensorDataset(X[:160], Y[:160]), TensorDataset(X[160:], Y[160:])),
    "random split": lambda: splits(*random_split(DATA, [0.8, 0.2])),
    "samplers over one data set": lambda: samplers(range(150), range(150, 200)),
    "short words": lambda: tokens(WORDS[:300], WORDS[300:]),
    "flags": lambda: splits(
        TensorDataset((X[:160] > 0).float(), Y[:160]), TensorDataset((X[160:] > 0).float(), Y[160:])
    ),
    "few clean curves": lambda: splits(*random_split(TensorDataset(X[Y], Y), [0.8, 0.2])),
    "same inputs, other targets": lambda: splits(TensorDataset(X, Y), TensorDataset(X, (Y + 1) % 3)),
    "one-hot noise input": lambda: splits(TensorDataset(F.one_hot(Y, 4).float(), Y), TensorDataset(X, Y)),
    "no validation": lambda: Setup(network(3), DataLoader(DATA, 16), loss_fn=nn.CrossEntropyLoss()),
}


def said(setup: Setup) -> Iterator[Finding]:
    torch.manual_seed(0)
    return iter(Debugger.of(setup).checkup(select=["D108"]))


@pytest.mark.parametrize("name", FAULTY)
def test_copies_are_found(name: str) -> None:
    (found,) = said(FAULTY[name]())
    assert found.severity == "error"


@pytest.mark.parametrize("name", HEALTHY)
def test_chance_is_at_most_a_note(name: str) -> None:
    assert [one for one in said(HEALTHY[name]()) if one.severity != "note"] == []


def test_a_single_copy_is_a_warning() -> None:
    x, y = torch.cat([X[160:], X[:1]]), torch.cat([Y[160:], Y[:1]])
    (found,) = said(splits(TensorDataset(X[:160], Y[:160]), TensorDataset(x, y)))
    assert found.severity == "warning"
    assert found.evidence["pairs of train and val"] == [(0, 40)]


def test_a_stream_keeps_its_batches() -> None:
    given = iter([(X[:16], Y[:16]), (X[16:32], Y[16:32])])
    debugger = Debugger.of(Setup(network(3), given, [(X[:16], Y[:16])], loss_fn=nn.CrossEntropyLoss()))
    assert len(debugger.checkup(select=["D108"])) == 1
    assert len(list(debugger.train_loader)) == 2
