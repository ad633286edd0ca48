"""Small trained models and their errors."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.rules.examples import gaussian_clusters, mlp, train, training_setup, waves
from nbdebug.setup import Setup
from nbdebug.tools.errors import Errors, errors

CENTERS = [(0.0, 0.0), (3.0, 0.0), (0.0, 3.0), (3.0, 3.0)]
PROBABILITIES = [0.4, 0.3, 0.2, 0.1]


def train_classifier(epochs: int = 10, class_names: list[str] | None = None, seed: int = 0) -> Setup:
    """A classifier of four classes that overlap a little."""
    data = [gaussian_clusters(rows, CENTERS, PROBABILITIES, seed + i) for i, rows in enumerate((600, 400))]
    setup = training_setup(mlp(2, 32, 4), data[0], data[1], nn.CrossEntropyLoss(), lr=3e-3)
    setup.class_names = class_names
    train(setup, epochs)
    return setup


def train_regressor(epochs: int = 20) -> Setup:
    """A regressor of a smooth function of four numbers."""
    setup = training_setup(mlp(4, 32, 1), waves(600), waves(400, seed=1), nn.MSELoss())
    train(setup, epochs)
    return setup


def collect_errors(setup: Setup, loader: DataLoader[TensorDataset] | None = None) -> Errors:
    """The errors of the model, without findings of the rules."""
    torch.manual_seed(0)
    return errors(setup, loader)
