"""Setups for the tests of the optimizer rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup

MakeOptimizer = Callable[[Any], torch.optim.Optimizer]


def setup_with_optimizer(
    make_optimizer: MakeOptimizer, dtype: torch.dtype = torch.float32, loss_fn: Callable[..., Any] | None = None
) -> Setup:
    """Return a classifier with parameters and inputs of ``dtype``, and cross-entropy unless ``loss_fn`` is passed."""
    model, (x, y) = network(3).to(dtype), points()
    optimizers = (make_optimizer(model.parameters()),)
    return minimal_setup(model, x.to(dtype), y, loss_fn or nn.CrossEntropyLoss(), optimizers=optimizers)
