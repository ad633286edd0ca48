"""Problems for a constant rate and for the peak of one-cycle: tables, deep residual networks, sequences and images.

Each kind of problem has two members, which differ in data, size, optimizer and batch size. The rule of the split was
written before any of them was trained: the first member of each kind is for tuning, the second is held out. Nothing of
the range test is fitted to a held-out problem. The later problems were written when the range test was finished; the
first of them is since used for tuning. The fresh ones were written before the choice among confirmation runs was
changed, and run only once it was final.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import torch
from lr_problems import (
    CROSS_ENTROPY,
    LETTERS,
    LOCALES,
    MSE,
    Data,
    OptimizerGrid,
    Problem,
    digits,
    normalized_cnn,
    sgd_with_momentum,
    split_data,
    surnames,
)
from models import Transformer, mlp
from torch import Tensor, nn

ROWS, COLUMNS, NUMBERS = 16_000, 54, 10  # as in the forest cover table: numbers first, then indicators of two choices
CHOICES = 4, 40
CLASSES = 7
STEPS = 300


@cache
def forest_table(seed: int, noise: float = 0.02) -> Data:
    """Return a table of the forest cover kind: ten numbers, two choices as indicators, and seven unequal classes."""
    generator = torch.Generator().manual_seed(seed)
    rows = ROWS + 1000
    numbers = torch.randn(rows, NUMBERS, generator=generator) @ torch.randn(NUMBERS, NUMBERS, generator=generator)
    choices = []
    for count in CHOICES:
        affinity = numbers @ torch.randn(NUMBERS, count, generator=generator) / 3
        choices.append(nn.functional.one_hot(affinity.softmax(1).multinomial(1, generator=generator)[:, 0], count))
    x = torch.cat([(numbers - numbers.mean(0)) / numbers.std(0), *choices], 1).float()
    hidden = torch.tanh(0.4 * x @ torch.randn(COLUMNS, 40, generator=generator))
    logits = hidden @ torch.randn(40, CLASSES, generator=generator) + 5 * torch.rand(CLASSES, generator=generator)
    labels = logits.argmax(1)
    is_noisy = torch.rand(rows, generator=generator) < noise
    labels[is_noisy] = torch.randint(CLASSES, (int(is_noisy.sum()),), generator=generator)
    return split_data(x, labels, ROWS)


@cache
def friedman_table(width: int, noise: float = 0.2) -> Data:
    """Return the first regression problem of Friedman 1991, doi:10.1214/aos/1176347963, with a standardized target."""
    generator = torch.Generator().manual_seed(width)
    x = torch.rand(10_000, width, generator=generator)
    y = 10 * torch.sin(torch.pi * x[:, 0] * x[:, 1]) + 20 * (x[:, 2] - 0.5) ** 2 + 10 * x[:, 3] + 5 * x[:, 4]
    y = (y - y.mean()) / y.std() + noise * torch.randn(len(y), generator=generator)
    return split_data(2 * x - 1, y.unsqueeze(1), 8000)


class Residual(nn.Module):
    """A residual branch of normalization, two linear layers and ReLU."""

    def __init__(self, width: int, norm: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.branch = nn.Sequential(norm(width), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        """Return the sum of the input and its branch."""
        y: Tensor = x + self.branch(x)
        return y


class NormalizedResidual(nn.Module):
    """A residual branch that is normalized after each linear layer, with ReLU after the sum.

    Without a last normalization the outputs grow with the depth, so the loss starts high and first falls at low rates.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        first, second = (nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width)) for _ in range(2))
        self.branch = nn.Sequential(first, nn.ReLU(), second)

    def forward(self, x: Tensor) -> Tensor:
        """Return the activated sum of the input and its branch."""
        return torch.relu(x + self.branch(x))


def normalized_residual_mlp(width: int, blocks: int) -> nn.Module:
    """Return a residual perceptron for the forest table, as in an image classifier."""
    stem = [nn.Linear(COLUMNS, width), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*stem, *(NormalizedResidual(width) for _ in range(blocks)), nn.Linear(width, CLASSES))


def normalized_regressor(inputs: int, width: int) -> nn.Module:
    """Return a perceptron with batch normalization for one number."""
    layers = [nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, 1))


def residual_mlp(width: int, blocks: int, norm: Callable[[int], nn.Module]) -> nn.Module:
    """Return a residual perceptron for the forest table."""
    body = [Residual(width, norm) for _ in range(blocks)]
    return nn.Sequential(nn.Linear(COLUMNS, width), *body, norm(width), nn.Linear(width, CLASSES))


def normalized_mlp(width: int, layers: int) -> nn.Module:
    """Return a perceptron with batch normalization for the forest table."""
    modules: list[nn.Module] = []
    for inputs in (COLUMNS, *[width] * (layers - 1)):
        modules += [nn.Linear(inputs, width), nn.BatchNorm1d(width), nn.ReLU()]
    return nn.Sequential(*modules, nn.Linear(width, CLASSES))


class Recurrent(nn.Module):
    """A recurrent classifier of letters, or of the rows of an image, by its last state."""

    def __init__(self, cell: Callable[..., nn.Module], inputs: int, width: int, classes: int, *, letters: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding(64, inputs) if letters else nn.Identity()
        self.cell = cell(inputs, width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.head(self.cell(self.embed(x))[0][:, -1])
        return logits


class RowTransformer(nn.Module):
    """A Transformer on the rows of an image of 8 × 8."""

    def __init__(self, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.position = nn.Parameter(torch.randn(8, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.head(self.encoder(self.embed(x) + self.position).mean(1))
        return logits


def residual_regressor(inputs: int, width: int, blocks: int) -> nn.Module:
    """Return a residual perceptron for one number."""
    body = [Residual(width, nn.LayerNorm) for _ in range(blocks)]
    return nn.Sequential(nn.Linear(inputs, width), *body, nn.LayerNorm(width), nn.Linear(width, 1))


SGD = OptimizerGrid("SGD", sgd_with_momentum, -10, 3)
ADAMW = OptimizerGrid("AdamW", torch.optim.AdamW, -13, 0)
PLAIN = OptimizerGrid("plain SGD", torch.optim.SGD, -10, 5)
FOREST, OTHER_FOREST = partial(forest_table, 0), partial(forest_table, 1)


def regression(name: str, data: Callable[[], Data], model: Callable[[], nn.Module], batch_size: int) -> Problem:
    """Return a regression problem."""
    return Problem(name, data, model, MSE, batch_size, STEPS)


def classifier(name: str, data: Callable[[], Data], model: Callable[[], nn.Module], batch_size: int) -> Problem:
    """Return a classification problem."""
    return Problem(name, data, model, CROSS_ENTROPY, batch_size, STEPS)


KINDS = (
    (
        (classifier("table, BatchNorm", FOREST, partial(normalized_mlp, 64, 2), 128), SGD),
        (classifier("table, BatchNorm, 3 layers", OTHER_FOREST, partial(normalized_mlp, 96, 3), 64), ADAMW),
    ),
    (
        (classifier("table, small batch", FOREST, partial(normalized_mlp, 48, 3), 16), ADAMW),
        (classifier("table, small batch, wide", OTHER_FOREST, partial(normalized_mlp, 128, 2), 16), SGD),
    ),
    (
        (classifier("table, residual", FOREST, partial(residual_mlp, 48, 3, nn.LayerNorm), 256), ADAMW),
        (
            classifier("table, residual, BatchNorm", OTHER_FOREST, partial(residual_mlp, 48, 3, nn.BatchNorm1d), 512),
            SGD,
        ),
    ),
    (
        (classifier("deep residual", OTHER_FOREST, partial(residual_mlp, 48, 8, nn.BatchNorm1d), 64), SGD),
        (classifier("deep residual, LayerNorm", FOREST, partial(residual_mlp, 48, 8, nn.LayerNorm), 128), ADAMW),
    ),
    (
        (classifier("growing residual", FOREST, partial(normalized_residual_mlp, 64, 6), 128), SGD),
        (classifier("growing residual, deep", OTHER_FOREST, partial(normalized_residual_mlp, 48, 10), 256), ADAMW),
    ),
    (
        (classifier("linear table", FOREST, partial(nn.Linear, COLUMNS, CLASSES), 32), ADAMW),
        (classifier("linear table, large batch", OTHER_FOREST, partial(nn.Linear, COLUMNS, CLASSES), 256), SGD),
    ),
    (
        (classifier("row Transformer", partial(digits, (8, 8)), partial(RowTransformer, 32, 1), 64), ADAMW),
        (
            classifier(
                "letter Transformer",
                surnames,
                partial(Transformer, 64, len(LOCALES), 32, 1, feedforward=64, dropout=0.0, length=LETTERS),
                16,
            ),
            SGD,
        ),
    ),
    (
        (
            classifier("letter GRU", surnames, partial(Recurrent, nn.GRU, 16, 48, len(LOCALES), letters=True), 32),
            SGD,
        ),
        (
            classifier("row LSTM", partial(digits, (8, 8)), partial(Recurrent, nn.LSTM, 8, 48, 10, letters=False), 128),
            ADAMW,
        ),
    ),
    (
        (Problem("regression", partial(friedman_table, 10), partial(mlp, 10, 64, 1), MSE, 1024, STEPS), ADAMW),
        (
            Problem("regression, 3 layers", partial(friedman_table, 20), partial(mlp, 20, 48, 1, 3), MSE, 1024, STEPS),
            SGD,
        ),
    ),
)
TUNING_PAIRS, HELD_OUT_PAIRS = (tuple(kind[index] for kind in KINDS) for index in range(2))
LATER_PAIRS = (
    (
        Problem(
            "regression, BatchNorm", partial(friedman_table, 15), partial(normalized_regressor, 15, 64), MSE, 64, STEPS
        ),
        SGD,
    ),
    (classifier("residual, 12 blocks", partial(forest_table, 2), partial(residual_mlp, 32, 12, nn.LayerNorm), 64), SGD),
    (classifier("row Transformer, 2 layers", partial(digits, (8, 8)), partial(RowTransformer, 48, 2), 32), ADAMW),
    (classifier("row GRU", partial(digits, (8, 8)), partial(Recurrent, nn.GRU, 8, 40, 10, letters=False), 64), ADAMW),
)
FRESH_PAIRS = (
    (
        regression(
            "regression, BatchNorm, wide", partial(friedman_table, 12), partial(normalized_regressor, 12, 128), 128
        ),
        PLAIN,
    ),
    (
        regression(
            "regression, BatchNorm, narrow", partial(friedman_table, 25), partial(normalized_regressor, 25, 32), 32
        ),
        ADAMW,
    ),
    (
        regression("residual regression", partial(friedman_table, 30), partial(residual_regressor, 30, 40, 10), 256),
        SGD,
    ),
    (classifier("table, BatchNorm, narrow", partial(forest_table, 3), partial(normalized_mlp, 40, 2), 64), PLAIN),
    (classifier("digits CNN", partial(digits, (1, 8, 8)), partial(normalized_cnn, 8), 32), SGD),
)
