"""Small training runs, on which the rules about the course of training show what they find and leave alone."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup

Data = tuple[Tensor, Tensor]


def rings(samples: int = 384, noise: float = 0.0, seed: int = 0) -> Data:
    """Points in eight dimensions and whether they lie far from the center, which takes a hidden layer to tell;
    ``noise`` is the share of labels drawn anew."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 8, generator=generator)
    y = (x[:, :3].square().sum(1) > 2.4).long()
    drawn = torch.rand(samples, generator=generator) < noise
    return x, torch.where(drawn, torch.randint(0, 2, (samples,), generator=generator), y)


def waves(samples: int = 384, seed: int = 0) -> Data:
    """Points in four dimensions and a smooth function of them."""
    x = torch.randn(samples, 4, generator=torch.Generator().manual_seed(seed))
    return x, (torch.sin(x[:, :1]) + 0.5 * x[:, 1:2] * x[:, 2:3]).clone()


def layers(*sizes: int, seed: int = 0) -> nn.Sequential:
    """Linear layers with ReLU between them; the same weights each time, and the global generator as before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        parts = [part for a, b in pairwise(sizes) for part in (nn.Linear(a, b), nn.ReLU())]
    return nn.Sequential(*parts[:-1])


def run(model: nn.Module, train: Data, val: Data, loss_fn: Callable[..., Any], **given: Any) -> Setup:
    """A set-up of batches of 32, shuffled alike each time unless ``shuffle`` is False, trained by Adam at ``lr``."""
    shuffle, size = given.pop("shuffle", True), given.pop("batch_size", 32)
    order = torch.Generator().manual_seed(0)
    made = given.pop("optimizer", None) or torch.optim.Adam(model.parameters(), lr=given.pop("lr", 3e-3))
    loader = DataLoader(TensorDataset(*train), batch_size=size, shuffle=shuffle, generator=order)
    return Setup(model, loader, DataLoader(TensorDataset(*val), batch_size=128), loss_fn=loss_fn, optimizers=(made,))


def told_apart(lr: float = 1e-2) -> Setup:
    """A classifier that fits its task, for which a rate of 1e-2 is right."""
    return run(layers(8, 32, 2), rings(), rings(256, seed=1), nn.CrossEntropyLoss(), lr=lr)


def train(setup: Setup, epochs: int, clip: float | None = None) -> None:
    """A plain loop."""
    for _ in range(epochs):
        for x, y in setup.train_loader:
            setup.optimizers[0].zero_grad()
            setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
            if clip is not None:
                nn.utils.clip_grad_norm_(setup.model.parameters(), clip)
            setup.optimizers[0].step()
