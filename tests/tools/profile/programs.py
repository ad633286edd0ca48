"""Small setups for the profile, and loops on them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.setup import Setup

SAMPLES, FEATURES, BATCH = 96, 6, 8


class SleepingDataset(Dataset[Any]):
    """Samples that take some seconds to read."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds = seconds
        self.x, self.y = torch.randn(SAMPLES, FEATURES), torch.randint(0, 2, (SAMPLES,))

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if self.seconds:
            time.sleep(self.seconds)
        return self.x[index], self.y[index]


def make_setup(seconds: float = 0.0, **options: Any) -> Setup:
    """A small classifier; ``seconds`` is the time to read a sample."""
    model = nn.Sequential(nn.Linear(FEATURES, 16), nn.ReLU(), nn.Linear(16, 2))
    loader = DataLoader(SleepingDataset(seconds), batch_size=BATCH, shuffle=True)
    options.setdefault("loss_fn", nn.CrossEntropyLoss())
    return Setup(model, loader, optimizers=(torch.optim.SGD(model.parameters(), 0.01),), **options)


def make_loop(setup: Setup, after_step: Callable[[int, Tensor], object] = lambda step, loss: None) -> Callable[[], int]:
    """A loop of the user over many epochs, which calls ``after_step``."""
    optimizer = setup.optimizers[0]

    def train() -> int:
        step = 0
        for _ in range(100):
            for x, y in setup.train_loader:
                optimizer.zero_grad()
                loss = setup.loss_fn(setup.model(x), y)
                loss.backward()
                optimizer.step()
                after_step(step, loss)
                step += 1
        return step

    return train


def line_of(text: str) -> int:
    """The number of the only line of this file with a text."""
    with open(__file__, encoding="utf-8") as file:
        numbers = [number for number, line in enumerate(file, 1) if text in line and "line_of" not in line]
    assert len(numbers) == 1
    return numbers[0]
