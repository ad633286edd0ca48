"""Tests of short trials: how soon one ends that would take too long."""

from __future__ import annotations

import time

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.short_trials import run_trials
from nbdebug.setup import Setup

TRAINING_PASSES: list[float] = []


class SlowModel(nn.Module):
    """A model whose pass in training takes a tenth of a second of the processor."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        end = time.thread_time() + 0.1
        while time.thread_time() < end:
            pass
        TRAINING_PASSES.append(end)
        return self.linear(x)


def test_trial_that_would_take_too_long_ends_when_that_is_certain() -> None:
    model = SlowModel()
    loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.arange(32) % 2), 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    setup = Setup(model, loader, loss_fn=nn.CrossEntropyLoss(), optimizers=(optimizer,))
    batches = list(setup.batches(2))
    TRAINING_PASSES.clear()
    with pytest.raises(NotChecked, match="two trials of 100 steps take more than 2 s"):
        run_trials(setup, batches, 100, "standard")
    assert 1 <= len(TRAINING_PASSES) <= 3  # eight steps would predict the time of all; two take longer than allowed
