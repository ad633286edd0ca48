"""What the user handed over, under the names that rules ask for."""

from __future__ import annotations

import torch
from torch import nn

from nbdebug.evidence.ledger import measurement, slow_measurement
from nbdebug.exceptions import NotChecked
from nbdebug.setup import Batch, Setup

LOOK, QUICK_LOOK = 4, 1


@measurement
def model(setup: Setup) -> nn.Module:
    """The model under training, as Python code."""
    return setup.eager


@measurement
def optimizers(setup: Setup) -> tuple[torch.optim.Optimizer, ...]:
    """The optimizers of the training loop."""
    if not setup.optimizers:
        raise NotChecked("no optimizer was given; pass optimizer=")
    return setup.optimizers


@measurement
def batches(setup: Setup, budget: str) -> list[Batch]:
    """The first batches of the training loader; fewer for a quick checkup."""
    return list(setup.batches(QUICK_LOOK if budget == "quick" else LOOK))


@slow_measurement
def val_batches(setup: Setup) -> list[Batch]:
    """The first batches of the validation loader; none where there is no such loader."""
    return list(setup.batches(LOOK, "val")) if setup.val_loader is not None else []
