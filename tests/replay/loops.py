"""Plain training loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.replay import Replay
from nbdebug.setup import Setup
from nbdebug.watching.watch import Watch
from tests.replay.faults import Through, points, setup, unit


def train(setup: Setup, epochs: int = 1) -> list[float]:
    """Clear, forward, backward, step; gives the losses."""
    losses = []
    for raw in batches(setup, epochs):
        batch = setup.split_batch(raw)
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


def made(model: nn.Module, odd: Tensor | float | None = 0.0, **given: object) -> Setup:
    """A set-up of a model and points, one of which is odd."""
    return setup(model, points(odd), **given)


def model_of(enter=unit, act=torch.relu) -> Through:  # type: ignore[no-untyped-def]
    """A model from a seed."""
    torch.manual_seed(0)
    return Through(enter, act)


def replayed(run: Watch) -> Replay:
    """The replay of a run that had no trouble, and something to replay."""
    assert run.error_summary == ""
    found = run.replay()
    assert found is not None
    return found
