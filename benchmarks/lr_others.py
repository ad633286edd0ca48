"""Other problems, to which no factor was fitted: other widths, depths, batches, data and optimizers.

Not all of them are unseen, though: those without momentum, and some of Nesterov's, have shown how momentum delays what
a sweep sees, and at 0.9 its share was capped. Only the wide Transformers were met after that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from lr_problems import (
    CE,
    MSE,
    Data,
    Descent,
    Problem,
    Transformer,
    digits,
    least_squares,
    mlp,
    mnist,
    shuffled,
    surnames,
)
from torch import nn


@cache
def table(name: str, samples: int) -> Data:
    """A table of scikit-learn, standardized; a target that is a number as well."""
    import sklearn.datasets

    found = getattr(sklearn.datasets, f"load_{name}")()
    x, y = (torch.tensor(part, dtype=torch.float32) for part in (found.data, found.target))
    x = (x - x.mean(0)) / x.std(0)
    return shuffled(x, ((y - y.mean()) / y.std()).unsqueeze(1) if name == "diabetes" else y.long(), samples)


def normalized(width: int, norm: Callable[[int], nn.Module] = nn.BatchNorm2d) -> nn.Module:
    """Three convolutions with a normalization each, and the mean over places."""
    parts: list[nn.Module] = []
    for given, gives, stride in ((1, width, 1), (width, 2 * width, 2), (2 * width, 2 * width, 2)):
        parts += [nn.Conv2d(given, gives, 3, stride, 1, bias=False), norm(gives), nn.ReLU()]
    return nn.Sequential(*parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10))


def groups(channels: int) -> nn.Module:
    """Group normalization with groups of two."""
    return nn.GroupNorm(channels // 2, channels)


def nesterov(parameters: Any, lr: float) -> torch.optim.Optimizer:
    """SGD with Nesterov's momentum of 0.95 and weight decay."""
    return torch.optim.SGD(parameters, lr, momentum=0.95, nesterov=True, weight_decay=1e-3)


PLAIN = Descent("plain SGD", torch.optim.SGD, -10, 6)
NESTEROV = Descent("Nesterov", nesterov, -13, 2)
ADAM = Descent("Adam, beta2 0.98", partial(torch.optim.Adam, betas=(0.9, 0.98)), -15, 1)
NADAM = Descent("NAdam", torch.optim.NAdam, -15, 1)
RMSPROP = Descent("RMSprop", torch.optim.RMSprop, -15, 0)
OTHERS = (
    (
        Problem("wide quadratic", partial(least_squares, 2000, 60, 1.0, 30.0), partial(nn.Linear, 60, 1), MSE, 64, 300),
        PLAIN,
    ),
    (
        Problem("full quadratic", partial(least_squares, 500, 10, 0.5, 20.0), partial(nn.Linear, 10, 1), MSE, 500, 300),
        ADAM,
    ),
    (Problem("breast cancer", partial(table, "breast_cancer", 400), partial(mlp, 30, 32, 2), CE, 32, 200), ADAM),
    (Problem("diabetes", partial(table, "diabetes", 300), partial(mlp, 10, 16, 1, 1), MSE, 32, 200), PLAIN),
    (Problem("diabetes", partial(table, "diabetes", 300), partial(mlp, 10, 16, 1, 1), MSE, 32, 200), NADAM),
    (Problem("logistic, MNIST", partial(mnist, (196,)), partial(nn.Linear, 196, 10), CE, 16, 500), PLAIN),
    (Problem("logistic, MNIST", partial(mnist, (196,)), partial(nn.Linear, 196, 10), CE, 16, 500), RMSPROP),
    (Problem("wide MLP", digits, partial(mlp, 64, 256, 10), CE, 128, 200), PLAIN),
    (Problem("wide MLP", digits, partial(mlp, 64, 256, 10), CE, 128, 200), RMSPROP),
    (Problem("deep MLP", partial(mnist, (196,)), partial(mlp, 196, 32, 10, 4), CE, 16, 500), NESTEROV),
    (Problem("deep MLP", partial(mnist, (196,)), partial(mlp, 196, 32, 10, 4), CE, 16, 500), NADAM),
    (Problem("CNN, groups", partial(digits, (1, 8, 8)), partial(normalized, 8, groups), CE, 128, 300), NESTEROV),
    (Problem("CNN, groups", partial(digits, (1, 8, 8)), partial(normalized, 8, groups), CE, 128, 300), ADAM),
    (Problem("wide Transformer", surnames, partial(Transformer, 64, 2, 0.0), CE, 16, 300), NESTEROV),
    (Problem("wide Transformer", surnames, partial(Transformer, 64, 2, 0.0), CE, 16, 300), ADAM),
)
