"""Small programs whose faults one change repairs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger


def blobs(count: int, seed: int, scale: float = 1.0, positive: float = 0.5) -> TensorDataset:
    """Two classes of eight features that a small network tells apart."""
    generator = torch.Generator().manual_seed(seed)
    y = (torch.rand(count, generator=generator) < positive).long()
    x = torch.randn(count, 8, generator=generator)
    x[:, 0] += 3.0 * y
    return TensorDataset(x * scale, y)


def debugger(
    *head: nn.Module,
    optimizer: Callable[[Any], torch.optim.Optimizer] = lambda parameters: torch.optim.SGD(parameters, lr=0.1),
    loss_fn: Any = None,
    scale: float = 1.0,
    positive: float = 0.5,
    layers: tuple[nn.Module, ...] = (),
    **options: Any,
) -> Debugger:
    """A debugger of a classifier of the two classes."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), *layers, nn.ReLU(), nn.Linear(16, 2), *head)
    return Debugger(
        model,
        DataLoader(blobs(320, 0, scale, positive), 16, shuffle=True),
        DataLoader(blobs(200, 1, scale, positive), 50),
        loss_fn=loss_fn or nn.CrossEntropyLoss(),
        optimizer=optimizer(model.parameters()),
        **options,
    )


def sgd(lr: float, **settings: Any) -> Callable[[Any], torch.optim.Optimizer]:
    """A factory of SGD."""
    return lambda parameters: torch.optim.SGD(parameters, lr=lr, **settings)
