"""How well labels can be predicted from inputs by a small learner that knows nothing of the model."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.tables import Table

MOST_ROWS, MOST_COLUMNS, LEAST_ROWS = 300, 128, 100
DRAWS, RIDGE, UNSEEN = 25, 0.1, 2.0


@dataclass(frozen=True)
class Relation:
    """How many labels are predicted right out of sample, beside the same with labels drawn anew."""

    right: float
    chance: float
    spread: float
    rows: int

    @property
    def sigma(self) -> float:
        """By how many standard deviations of chance the labels are predicted better than by chance."""
        return (self.right - self.chance) / max(self.spread, 1e-6)


@dataclass(frozen=True)
class Probe:
    """The relation of inputs and labels in each split, and what a learner of one split makes of the other.

    Empty where a split has under a hundred samples, or not one class for each.
    ``shifted`` holds that of training with the labels moved by one sample, measured where the plain one is not seen.
    ``across`` counts for each class of the validation split (row) what a learner of the training split takes it for.
    """

    within: dict[str, Relation]
    shifted: dict[int, Relation]
    across: Tensor | None = None


@measurement
def label_probe(tables: dict[str, Table]) -> Probe:
    """How well kernel ridge regression on some hundred samples predicts the labels of others, in and across splits."""
    parts = {split: drawn(table) for split, table in tables.items()}
    ready = {split: part for split, part in parts.items() if part is not None}
    if "train" not in ready:
        return Probe({}, {})
    classes = 1 + max(int(one.labels.max()) for one in ready.values())
    within = {split: relation(one, one.labels, classes) for split, one in ready.items()}
    shifted: dict[int, Relation] = {}
    train = ready["train"]
    if within["train"].sigma < UNSEEN and tables["train"].whole:
        shifted = {by: relation(train, train.moved(by), classes) for by in (-1, 1)}
    comparable = "val" in ready and ready["val"].columns.shape[1] == train.columns.shape[1]
    return Probe(within, shifted, confusion(train, ready["val"], classes) if comparable else None)


@dataclass(frozen=True)
class Drawn:
    """Some rows of a table as standardized columns, with the labels of all its samples."""

    rows: Tensor
    columns: Tensor
    every: Tensor

    @property
    def labels(self) -> Tensor:
        """The labels of these rows."""
        return self.every[self.rows]

    def moved(self, by: int) -> Tensor:
        """The labels that these rows would have, were all labels moved ``by`` samples."""
        return torch.roll(self.every, by)[self.rows]

    @cached_property
    def halves(self) -> Tensor:
        """What the first half of the rows teaches of the second."""
        half = len(self.rows) // 2
        return learner(self.columns[:half], self.columns[half:])


def drawn(table: Table) -> Drawn | None:
    """Some rows of a split; None for too few, for one class, or for columns that are not finite."""
    labels = table.labels
    if labels is None or len(table) < LEAST_ROWS or len(set(labels.tolist())) < 2 or int(labels.min()) < 0:
        return None
    rows = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:MOST_ROWS]
    columns = torch.cat([numbers(part[rows]) for part in table.inputs], 1)
    if not bool(columns.isfinite().all()):
        return None
    return Drawn(rows, (columns - columns.mean(0)) / columns.std(0).clamp_min(1e-6), labels)


def numbers(part: Tensor) -> Tensor:
    """Rows of numbers: the values themselves, or how often each token occurs."""
    flat = part.reshape(len(part), -1)
    if not flat.is_floating_point() and flat.dtype != torch.uint8 and 0 <= int(flat.min()) <= int(flat.max()) < 4096:
        tokens, width = flat.long(), int(flat.max()) + 1
        flat = torch.zeros(len(flat), width).scatter_add_(1, tokens, torch.ones(tokens.shape))
    flat = flat.float()
    if flat.shape[1] <= MOST_COLUMNS:
        return flat
    generator = torch.Generator().manual_seed(0)
    projected: Tensor = flat @ torch.randn(flat.shape[1], MOST_COLUMNS, generator=generator) / MOST_COLUMNS**0.5
    return projected


def learner(x: Tensor, others: Tensor) -> Tensor:
    """The matrix that turns one-hot labels of ``x`` into scores of ``others``, with Gaussian kernels."""
    apart = torch.cdist(x, x).square()
    width = apart.median().clamp_min(1e-6)
    kernel = torch.exp(-apart / width) + RIDGE * torch.eye(len(x))
    matrix: Tensor = torch.linalg.solve(kernel, torch.exp(-torch.cdist(x, others).square() / width)).t()
    return matrix


def relation(part: Drawn, labels: Tensor, classes: int) -> Relation:
    """What one half of the rows tells of the labels of the other, beside the same with labels in random order."""
    half = len(part.rows) // 2
    generator = torch.Generator().manual_seed(0)
    orders = [torch.arange(half), *(torch.randperm(half, generator=generator) for _ in range(DRAWS))]
    taught = centered(labels, classes)[torch.stack(orders, 1)]
    scores = (part.halves @ taught.flatten(1)).reshape(-1, 1 + DRAWS, classes)
    right, *null = (scores.argmax(2) == labels[half:, None]).float().mean(0).tolist()
    return Relation(right, statistics.mean(null), statistics.stdev(null), len(labels))


def confusion(train: Drawn, val: Drawn, classes: int) -> Tensor:
    """How often each class of the validation split (row) is taken for each (column) by what training teaches."""
    guess = (learner(train.columns, val.columns) @ centered(train.labels, classes)).argmax(1)
    return torch.bincount(val.labels * classes + guess, minlength=classes**2).reshape(classes, classes)


def centered(labels: Tensor, classes: int) -> Tensor:
    """One-hot labels less how often each occurs."""
    hot = F.one_hot(labels, classes).float()
    return hot - hot.mean(0)
