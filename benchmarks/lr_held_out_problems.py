"""Held-out problems, to which the factor of the recommendation is not fitted.

They have other widths, depths, batch sizes, data and optimizers than the default problems. Their results informed how
the recommendation treats momentum, except those of the wide Transformers.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any

import torch
from lr_problems import (
    CROSS_ENTROPY,
    MSE,
    Data,
    OptimizerGrid,
    Problem,
    digits,
    least_squares,
    letter_transformer,
    mnist,
    normalized_cnn,
    shuffle_and_split,
    surnames,
)
from models import mlp
from optional_packages import import_data_module
from torch import nn


@cache
def tabular_data(name: str, samples: int) -> Data:
    """Return a table of scikit-learn with standardized features; the target of a regression is standardized, too."""
    data = getattr(import_data_module("sklearn.datasets", "scikit-learn"), f"load_{name}")()
    x, y = (torch.tensor(array, dtype=torch.float32) for array in (data.data, data.target))
    y = ((y - y.mean()) / y.std()).unsqueeze(1) if name == "diabetes" else y.long()
    return shuffle_and_split((x - x.mean(0)) / x.std(0), y, samples)


def group_norm(channels: int) -> nn.Module:
    """Return group normalization with two channels per group."""
    return nn.GroupNorm(channels // 2, channels)


def sgd_with_nesterov(parameters: Any, lr: float) -> torch.optim.Optimizer:
    """Return SGD with Nesterov momentum of 0.95 and weight decay."""
    return torch.optim.SGD(parameters, lr, momentum=0.95, nesterov=True, weight_decay=1e-3)


PLAIN = OptimizerGrid("plain SGD", torch.optim.SGD, -10, 6)
NESTEROV = OptimizerGrid("Nesterov", sgd_with_nesterov, -13, 2)
ADAM = OptimizerGrid("Adam, beta2 0.98", partial(torch.optim.Adam, betas=(0.9, 0.98)), -15, 1)
NADAM = OptimizerGrid("NAdam", torch.optim.NAdam, -15, 1)
RMSPROP = OptimizerGrid("RMSprop", torch.optim.RMSprop, -15, 0)

WIDE_QUADRATIC = Problem(
    "wide quadratic", partial(least_squares, 2000, 60, 1.0, 30.0), partial(nn.Linear, 60, 1), MSE, 64, 300
)
FULL_QUADRATIC = Problem(
    "full quadratic", partial(least_squares, 500, 10, 0.5, 20.0), partial(nn.Linear, 10, 1), MSE, 500, 300
)
CANCER = Problem(
    "breast cancer", partial(tabular_data, "breast_cancer", 400), partial(mlp, 30, 32, 2), CROSS_ENTROPY, 32, 200
)
DIABETES = Problem("diabetes", partial(tabular_data, "diabetes", 300), partial(mlp, 10, 16, 1, 1), MSE, 32, 200)
LOGISTIC = Problem("logistic, MNIST", partial(mnist, (196,)), partial(nn.Linear, 196, 10), CROSS_ENTROPY, 16, 500)
WIDE_MLP = Problem("wide MLP", digits, partial(mlp, 64, 256, 10), CROSS_ENTROPY, 128, 200)
DEEP_MLP = Problem("deep MLP", partial(mnist, (196,)), partial(mlp, 196, 32, 10, 4), CROSS_ENTROPY, 16, 500)
GROUP_NORM_CNN = Problem(
    "CNN, groups", partial(digits, (1, 8, 8)), partial(normalized_cnn, 8, group_norm), CROSS_ENTROPY, 128, 300
)
WIDE_TRANSFORMER = Problem(
    "wide Transformer", surnames, partial(letter_transformer, 64, 2, 0.0), CROSS_ENTROPY, 16, 300
)
HELD_OUT_PAIRS = (
    (WIDE_QUADRATIC, PLAIN),
    (FULL_QUADRATIC, ADAM),
    (CANCER, ADAM),
    (DIABETES, PLAIN),
    (DIABETES, NADAM),
    (LOGISTIC, PLAIN),
    (LOGISTIC, RMSPROP),
    (WIDE_MLP, PLAIN),
    (WIDE_MLP, RMSPROP),
    (DEEP_MLP, NESTEROV),
    (DEEP_MLP, NADAM),
    (GROUP_NORM_CNN, NESTEROV),
    (GROUP_NORM_CNN, ADAM),
    (WIDE_TRANSFORMER, NESTEROV),
    (WIDE_TRANSFORMER, ADAM),
)
