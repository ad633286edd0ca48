"""Set-ups of the tests of the data tool."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import one_hot
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from nbdebug.setup import Setup
from nbdebug.tools.data import DataProfile, data


class AnyInput(nn.Module):
    """A model of ten classes that knows nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x: Any) -> Tensor:
        """Logits of shape (batch, 10)."""
        return self.weight * torch.ones(len(x), 10)


class ListDataset(Dataset[Any]):
    """Samples of a list; an exception in it is raised."""

    def __init__(self, samples: list[Any]) -> None:
        self.samples = samples

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        if isinstance(self.samples[index], Exception):
            raise self.samples[index]
        return self.samples[index]


class EndlessStream(IterableDataset[Any]):
    """Rows without end."""

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(0)
        while True:
            yield torch.randn(3, generator=generator), 1


class StuckStream(IterableDataset[Any]):
    """Forty rows, and then a wait."""

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(0)
        for _ in range(40):
            yield torch.randn(3, generator=generator), 1
        time.sleep(60)


class RaisingStream(IterableDataset[Any]):
    """Forty rows of two classes, the last eight of double precision, and then a broken record."""

    def __iter__(self) -> Iterator[Any]:
        generator = torch.Generator().manual_seed(0)
        for number in range(40):
            row = torch.randn(3, generator=generator)
            yield row if number < 32 else row.double(), number % 2
        raise ValueError("broken record")


def profile_of(train: Any, val: Any = None, **options: Any) -> DataProfile:
    """The profile of two data sets or loaders."""
    loaders = [DataLoader(item, 16) if isinstance(item, Dataset) else item for item in (train, val)]
    return data(Setup(AnyInput(), *loaders, loss_fn=nn.CrossEntropyLoss()), **options)


def profile_of_tensors(train: tuple[Tensor, ...], val: tuple[Tensor, ...], **options: Any) -> DataProfile:
    """The profile of two splits of tensors."""
    return profile_of(TensorDataset(*train), TensorDataset(*val), **options)


def profile_of_inputs(train: tuple[Tensor, Tensor], val: tuple[Tensor, Tensor]) -> DataProfile:
    """The profile of two splits with predictions that agree with their classes; learners take most of the time."""
    return profile_of_tensors(train, val, pred_probs=agreeing_predictions(train[1], val[1]))


def agreeing_predictions(train: Tensor, val: Tensor) -> dict[str, Tensor]:
    """Predicted probabilities of both splits that agree with their classes."""
    count = int(torch.cat([train, val]).max()) + 1
    return {name: one_hot(y, count) * 0.9 + 0.1 / count for name, y in (("train", train), ("val", val))}


def digits(seed: int = 0) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """A random split of the digits with values from 0 to 1: 1,198 for training, 599 for validation."""
    loaded = load_digits()
    x, y = torch.tensor(loaded.images / 16, dtype=torch.float32)[:, None], torch.tensor(loaded.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    train, val = order[:1198], order[1198:]
    return (x[train], y[train]), (x[val], y[val])
