"""Training programs with one bottleneck each, which can be built again with the advice applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

FEATURES, CLASSES = 64, 10


@dataclass(frozen=True)
class Change:
    """The advice to apply: the fix of the line, or a number of workers, a batch size or a number of threads.

    ``every`` is how often a line of the loop runs: at each step, or at every so many steps.
    """

    fixed: bool = False
    workers: int = 0
    batch_size: int | None = None
    threads: int | None = None
    every: int = 1


@dataclass
class Program:
    """The objects of a program, and its own loop; None for a standard one."""

    model: nn.Module
    train_loader: Any
    loss_fn: Any = field(default_factory=nn.CrossEntropyLoss)
    optimizer: Any = None
    val_loader: Any = None
    train: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        if self.optimizer is None:
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-3)


Build = Callable[[Change], Program]


@dataclass(frozen=True)
class Case:
    """A planted bottleneck: how to build its program, and the kinds of advice that name it; none if balanced."""

    build: Build
    kinds: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name of the function that builds it."""
        return self.build.__name__


def plant(cases: list[Case], *kinds: str) -> Callable[[Build], Build]:
    """Register a program; the lines that its advice may name end in ``# here``."""

    def register(build: Build) -> Build:
        cases.append(Case(build, kinds))
        return build

    return register


def mlp(features: int = FEATURES, width: int = 512, outputs: int = CLASSES) -> nn.Sequential:
    """A network whose step takes some milliseconds on 128 samples."""
    layers = [nn.Linear(features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs)]
    return nn.Sequential(*layers)


def samples(count: int = 4096, features: int = FEATURES) -> tuple[Tensor, Tensor]:
    """Random inputs and classes."""
    return torch.randn(count, features), torch.randint(0, CLASSES, (count,))


def workers(change: Change) -> dict[str, Any]:
    """Options of a loader, as the advice writes them: workers that live as long as the loader."""
    return {"num_workers": change.workers, "persistent_workers": change.workers > 0}


class Samples(Dataset[Any]):
    """Samples in memory; subclasses make them slow."""

    def __init__(self, count: int = 4096, features: int = FEATURES) -> None:
        self.x, self.y = samples(count, features)

    def __len__(self) -> int:
        return len(self.y)

    def __getitem__(self, index: int) -> Any:
        return self.x[index], self.y[index]


def cached(size: int = 128, count: int = 4096, features: int = FEATURES) -> DataLoader[Any]:
    """A loader of samples in memory."""
    return DataLoader(TensorDataset(*samples(count, features)), batch_size=size, shuffle=True)


def endless(loader: Any) -> Iterator[tuple[int, Any]]:
    """Yield numbered batches, epoch after epoch."""
    step = 0
    for _ in cycle([0]):
        for batch in loader:
            yield step, batch
            step += 1


def update(program: Any, x: Tensor, y: Tensor) -> Tensor:
    """Make one step and return the loss."""
    program.optimizer.zero_grad()
    loss: Tensor = program.loss_fn(program.model(x), y)
    loss.backward()
    program.optimizer.step()
    return loss
