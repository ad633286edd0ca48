"""Setups of models whose weights are known."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup


def random_rows(rows: int, columns: int = 4, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


X = random_rows(60)
Y = (X[:, 0] > 0).long()


def linear_model(weights: Tensor) -> nn.Linear:
    """A linear layer with zero bias and with weights of shape (inputs,) or (outputs, inputs)."""
    rows = torch.atleast_2d(weights)
    model = nn.Linear(rows.shape[1], rows.shape[0])
    with torch.no_grad():
        model.weight[:] = rows
        model.bias.zero_()
    return model


def make_setup(
    model: nn.Module, *tensors: Tensor, batch_size: int = 50, shuffle: bool = False, **options: Any
) -> Setup:
    """A setup with the same data for training and validation; the default loss is cross entropy."""
    loader = DataLoader(TensorDataset(*tensors), batch_size=batch_size, shuffle=shuffle)
    return Setup(model, loader, loader, **{"loss_fn": nn.CrossEntropyLoss(), **options})


def classifier_setup(x: Tensor = X, y: Tensor = Y, model: nn.Module | None = None, **options: Any) -> Setup:
    """A linear classifier of two classes with random weights, and a shuffling loader."""
    return make_setup(model or nn.Linear(4, 2), x, y, batch_size=16, shuffle=True, **options)
