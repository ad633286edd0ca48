"""Plain training loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from torch import nn

from nbdebug.setup import Setup


def train(setup: Setup, epochs: int = 1) -> list[float]:
    """Clear, forward, backward, step; gives the losses."""
    losses = []
    for raw in batches(setup, epochs):
        batch = setup.split(raw)
        setup.optimizers[0].zero_grad()
        output = setup.model(*batch.args, **batch.kwargs)
        loss = setup.loss(output, batch)
        loss.backward()
        setup.optimizers[0].step()
        losses.append(loss.item())
    return losses


def batches(setup: Setup, epochs: int = 1) -> Iterator[Any]:
    """What the training loader gives."""
    for _ in range(epochs):
        yield from setup.train_loader


def dropping(model: nn.Module) -> nn.Sequential:
    """The model behind dropout of its inputs."""
    return nn.Sequential(nn.Dropout(0.2), model)
