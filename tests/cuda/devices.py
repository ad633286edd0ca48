"""Setups and programs on an accelerator, whose loaders deliver their batches there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from nbdebug.setup import Setup
from nbdebug.tensors.pytree import to_device
from tests.programs import Program

DEVICE = torch.device("cuda")


@contextmanager
def device_batches() -> Iterator[None]:
    """Let the iterators of all loaders within the block move their batches to the accelerator, as loops do."""
    original = DataLoader.__iter__

    def iterate(self: DataLoader[Any]) -> Iterator[Any]:
        return (to_device(batch, DEVICE) for batch in original(self))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataLoader, "__iter__", iterate)
        yield


def move_setup(setup: Setup) -> Setup:
    """Move the model and the loss of a setup to the accelerator."""
    for module in (setup.model, setup.loss_fn):
        if isinstance(module, nn.Module):
            module.to(DEVICE)
    return setup


def move_program(program: Program) -> Program:
    """Move a program with the state of its optimizer to the accelerator."""
    program.model.to(DEVICE)
    program.loss_fn.to(DEVICE)
    program.optimizer.load_state_dict(program.optimizer.state_dict())  # casts the state to the device of the weights
    return program
