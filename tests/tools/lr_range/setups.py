"""Setups for range tests, and what the tests read from them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import mlp, rings, training_setup
from nbdebug.setup import Setup
from nbdebug.tools.lr_range import LrRange


def run_lr_range(setup: Setup, **options: Any) -> LrRange:
    return Debugger.of(setup).lr_range(**options)


def ring_classifier(**options: Any) -> Setup:
    """A classifier of rings with untrained weights."""
    return training_setup(mlp(8, 32, 2), rings(), rings(64, seed=1), nn.CrossEntropyLoss(), **options)


def two_group_classifier(second_rate: float = 0.02) -> Setup:
    """A classifier of rings whose SGD has two groups, the first at rate 0.1."""
    model = mlp(8, 32, 2)
    groups = [{"params": model[0].parameters()}, {"params": model[2].parameters(), "lr": second_rate}]
    return training_setup(model, rings(), rings(), nn.CrossEntropyLoss(), optimizer=torch.optim.SGD(groups, lr=0.1))


def sgd_and_adam(setup: Setup) -> tuple[torch.optim.Optimizer, ...]:
    """SGD at 0.1 for the first layer and Adam at 1e-3 for the head."""
    body, head = setup.model[0], setup.model[2]  # type: ignore[index]
    return torch.optim.SGD(body.parameters(), 0.1), torch.optim.Adam(head.parameters(), 1e-3)


def group_rates(setup: Setup) -> list[float]:
    """The learning rates of all groups of all optimizers."""
    return [float(group["lr"]) for optimizer in setup.optimizers for group in optimizer.param_groups]


def loss_decreased(result: LrRange) -> bool:
    """True if every sweep ran to its end or diverged, after its loss had decreased."""
    return all(
        sweep.ended in ("finished", "diverged") and min(sweep.smooth) < sweep.smooth[0] for sweep in result.sweeps
    )


def step_fn_with_error(setup: Setup, step: int, error: BaseException) -> Callable[[Any], Tensor]:
    """A training step that raises ``error`` at its call number ``step``, counted from 0."""
    calls = 0

    def step_fn(batch: Any) -> Tensor:
        nonlocal calls
        calls += 1
        if calls == step + 1:
            raise error
        loss: Tensor = setup.loss_fn(setup.model(batch[0]), batch[1])  # type: ignore[misc]
        return loss

    return step_fn
