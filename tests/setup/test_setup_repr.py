"""Tests of the representation of a setup."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup

MODEL = nn.Sequential(nn.Linear(2, 2))
LOADER = DataLoader(TensorDataset(torch.zeros(4, 2)))
OPTIMIZER = torch.optim.Adam(MODEL.parameters())


@pytest.mark.parametrize(
    ("setup", "text"),
    [
        (Setup(MODEL, LOADER), "Setup(Sequential, train_loader)"),
        (
            Setup(MODEL, LOADER, LOADER, nn.CrossEntropyLoss(), (OPTIMIZER,)),
            "Setup(Sequential, train_loader, val_loader, CrossEntropyLoss, Adam)",
        ),
        (Setup(MODEL, LOADER, loss_fn=F.mse_loss), "Setup(Sequential, train_loader, mse_loss)"),
    ],
)
def test_representation_is_one_line(setup: Setup, text: str) -> None:
    assert repr(setup) == text
