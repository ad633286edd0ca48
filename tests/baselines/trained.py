"""Small trained models and the browsers of what they get wrong."""

from __future__ import annotations

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.debugger import Debugger
from nbdebug.rules.examples import gaussian_clusters, mlp, train, training_setup, waves
from nbdebug.setup import Setup
from nbdebug.tools.errors import Errors
from nbdebug.tools.errors import errors as browse

CENTERS = [(0.0, 0.0), (3.0, 0.0), (0.0, 3.0), (3.0, 3.0)]
SHARES = [0.4, 0.3, 0.2, 0.1]


def classes(epochs: int = 10, names: list[str] | None = None, seed: int = 0) -> Setup:
    """Four classes that overlap a little."""
    data = [gaussian_clusters(rows, CENTERS, SHARES, seed + i) for i, rows in enumerate((600, 400))]
    setup = training_setup(mlp(2, 32, 4), data[0], data[1], nn.CrossEntropyLoss(), lr=3e-3)
    setup.class_names = names
    train(setup, epochs)
    return setup


def numbers(epochs: int = 20) -> Setup:
    """A smooth function of four numbers."""
    setup = training_setup(mlp(4, 32, 1), waves(600), waves(400, seed=1), nn.MSELoss())
    train(setup, epochs)
    return setup


def browser_of(setup: Setup, loader: DataLoader[TensorDataset] | None = None) -> Errors:
    """The browser, without what the rules say."""
    torch.manual_seed(0)
    return browse(setup, loader)


def debugger_of(setup: Setup) -> Debugger:
    """The debugger, asked for its errors."""
    debugger = Debugger.of(setup)
    debugger.errors()
    return debugger
