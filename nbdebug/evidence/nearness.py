"""Validation samples that lie far nearer to one in training than their other neighbors do: copies, slightly changed."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.tables import Table

ASKED, MOST_ROWS, MOST_COLUMNS = 100, 2000, 128
FAR, WIDE, LEAST, ENOUGH = 20, 40, 100, 20
NEAR, LINE = 0.35, 0.75


@dataclass(frozen=True)
class Near:
    """The pairs of places (train, val) of near copies, and how many validation samples were asked.

    ``expected`` is the share that would be as near if samples filled their space evenly, at the numbers of dimensions
    that the distances of further neighbors show.
    """

    pairs: list[tuple[int, int]]
    asked: int
    expected: float = 0.0

    @property
    def share(self) -> float:
        """The share of validation samples that have a near copy in training."""
        return len(self.pairs) / max(self.asked, 1)


@measurement
def near_copies(tables: dict[str, Table]) -> Near:
    """The near copies of validation samples in training, by the distance to the nearest against the twentieth.

    None where the inputs are not one tensor of real numbers, or the training samples too few.
    """
    train, val = tables.get("train"), tables.get("val")
    if train is None or val is None or len(train) < LEAST or len(train.inputs) != 1 or len(val.inputs) != 1:
        return Near([], 0)
    parts = train.inputs[0], val.inputs[0]
    if not parts[0].is_floating_point() or parts[0].shape[1:] != parts[1].shape[1:] or not parts[0].numel():
        return Near([], 0)
    rows = chosen(len(train), MOST_ROWS), chosen(len(val), ASKED)
    first, second = scaled(*(part[places] for part, places in zip(parts, rows, strict=True)))
    if not first.shape[1] or not bool(first.isfinite().all() and second.isfinite().all()):
        return Near([], 0)
    return judged(train, val, *rows, torch.cdist(second, first))


def scaled(train: Tensor, val: Tensor) -> tuple[Tensor, Tensor]:
    """Some of the values that vary; columns of a table in units of their spread."""
    columns = chosen(train[0].numel(), MOST_COLUMNS)
    first, second = (part.flatten(1)[:, columns].float() for part in (train, val))
    spread = first.std(0)
    used = spread > 1e-6
    unit = spread[used] if train.dim() == 2 else torch.ones(())
    return first[:, used] / unit, second[:, used] / unit


def judged(train: Table, val: Table, here: Tensor, there: Tensor, apart: Tensor) -> Near:
    """The pairs that are near, and how many are expected by the dimensions around samples that have no near copy.

    Where samples fill a few of many dimensions, as those with most of their values padded do, the dimensions around
    each tell more. They cannot be under one, but for a sample that stands among some twenty copies of itself.
    """
    ordered, order = apart.topk(WIDE, dim=1, largest=False)
    nearest, far = ordered[:, 0], ordered[:, FAR - 1]
    near = (nearest > 0) & (nearest < NEAR * far)
    growth = (ordered[:, -1] / far.clamp_min(1e-12)).log()
    others = growth[~near] if int((~near).sum()) >= ENOUGH else growth
    around = math.log(WIDE / FAR) / growth.clamp_min(1e-3)
    dimensions = math.log(WIDE / FAR) / max(float(others.median()), 1e-3)
    around = around.where(around > LINE, dimensions)
    found = [(int(here[order[row, 0]]), int(there[row])) for row in near.nonzero().flatten().tolist()]
    labels = train.labels, val.labels
    pairs = [(train.indices[i], val.indices[j]) for i, j in found if alike(*labels, i, j)]
    expected = max(by_chance(around).mean().item(), by_chance(torch.tensor(dimensions)).item())
    return Near(pairs, len(there), expected)


def by_chance(dimensions: Tensor) -> Tensor:
    """How likely the nearest of evenly spread neighbors counts as near."""
    return 1 - (1 - NEAR**dimensions) ** (FAR - 1)


def alike(train: Tensor | None, val: Tensor | None, here: int, there: int) -> bool:
    """Whether two samples have the same class; true where they have none."""
    return train is None or val is None or bool(train[here] == val[there])


def chosen(count: int, most: int) -> Tensor:
    """Some rows, drawn with a fixed seed."""
    return torch.randperm(count, generator=torch.Generator().manual_seed(0))[:most]
