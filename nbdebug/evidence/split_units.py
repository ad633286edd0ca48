"""Whether the numbers of the two splits stand in the same units: location and spread of each feature in each."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.evidence.ledger import measurement
from nbdebug.evidence.tables import Table
from nbdebug.exceptions import NotChecked

LEAST, MOST = 30, 1000
COLORS = 4


@dataclass(frozen=True)
class Units:
    """One part of the data in both splits, by feature: a column of a table, a channel of a picture, else all values.

    ``ratios`` is the spread in validation over that in training, of features that vary in both, ``within`` the same
    for the steps between neighbors inside of one sample (None where a sample is one number), ``moved`` the distance of
    the means in training spreads.
    ``swapped`` says that the channels agree once their order is turned round, and only then.
    """

    part: str
    ratios: Tensor
    within: float | None
    moved: Tensor
    swapped: bool
    means: tuple[list[float], list[float]]
    spreads: tuple[list[float], list[float]]

    @property
    def factor(self) -> float:
        """By how much the values of validation spread wider, over all features and inside of samples; 1 if mixed."""
        if not len(self.ratios):
            return 1.0
        low, high = torch.quantile(self.ratios, torch.tensor([0.1, 0.9])).tolist()
        both = [float(self.ratios.median())] + ([self.within] if self.within is not None else [])
        if low > 1.0 and min(both) > 1:
            return min(both)
        return max(both) if high < 1.0 and max(both) < 1 else 1.0


@measurement
def split_units(tables: dict[str, Table]) -> list[Units]:
    """Location and spread of inputs and real targets in both splits."""
    if len(tables) < 2:
        raise NotChecked("there is no validation loader")
    train, val = tables["train"], tables["val"]
    if min(len(train), len(val)) < LEAST:
        raise NotChecked(f"it takes {LEAST} samples of each split that can be read")
    pairs = [(f"input {i}", *pair) for i, pair in enumerate(zip(train.inputs, val.inputs, strict=False))]
    if train.labels is None and len(train.targets) == len(val.targets) == 1:
        pairs.append(("target", train.targets[0], val.targets[0]))
    return [compared(*pair) for pair in pairs if comparable(*pair[1:])]


def comparable(train: Tensor, val: Tensor) -> bool:
    """Whether both hold finite real numbers, and the same features."""
    kinds = {
        train.is_floating_point() or train.dtype == torch.uint8,
        val.is_floating_point() or val.dtype == torch.uint8,
    }
    alike = train.dim() == val.dim() and (train.dim() != 2 or train.shape[1] == val.shape[1])
    return kinds == {True} and alike and bool(train.float().isfinite().all()) and bool(val.float().isfinite().all())


def compared(part: str, train: Tensor, val: Tensor) -> Units:
    """One part of the data in both splits."""
    here, there = (some(one) for one in (train, val))
    first, second = features(here), features(there)
    spread = [(one - one.mean(1, keepdim=True)).abs().mean(1) for one in (first, second)]
    varies = (spread[0] > 0) & (spread[1] > 0)
    means = [one.mean(1) for one in (first, second)]
    return Units(
        part,
        (spread[1] / spread[0])[varies],
        step_ratio(here, there),
        ((means[1] - means[0]).abs() / spread[0])[varies],
        swapped(here, there),
        (means[0].tolist()[:20], means[1].tolist()[:20]),
        (spread[0].tolist()[:20], spread[1].tolist()[:20]),
    )


def some(part: Tensor) -> Tensor:
    """Evenly chosen rows, as real numbers."""
    return part[torch.linspace(0, len(part) - 1, min(len(part), MOST)).long()].float()


def features(part: Tensor) -> Tensor:
    """The values of each feature in one row."""
    if part.dim() == 2:
        return part.t()
    return part.transpose(0, 1).flatten(1) if is_colored(part) else part.reshape(1, -1)


def is_colored(part: Tensor) -> bool:
    """Whether samples are pictures with a first axis of a few channels."""
    return part.dim() == 4 and 1 < part.shape[1] <= COLORS


def step_ratio(train: Tensor, val: Tensor) -> float | None:
    """By how much values next to each other lie further apart in validation; None where there are none, or all alike.

    Along the axis on which neighbors are nearest in training: that of time in a series, whose level may drift.
    """
    steps = {axis: neighbors(train, axis) for axis in range(1, train.dim()) if train.shape[axis] > 1}
    axis = min(steps, key=lambda one: steps[one], default=None)
    return neighbors(val, axis) / steps[axis] if axis is not None and steps[axis] and val.shape[axis] > 1 else None


def neighbors(part: Tensor, axis: int) -> float:
    """The middle, over samples, of the mean distance of values next to each other along an axis."""
    return float(part.diff(dim=axis).abs().flatten(1).mean(1).median())


def swapped(train: Tensor, val: Tensor) -> bool:
    """Whether the first three channels are alike in reverse order and differ as they are, beyond sampling noise."""
    if not is_colored(train) or train.shape[1] < 3 or val.shape[1] != train.shape[1]:
        return False
    here, there = (one[:, :3].flatten(2).mean(2) for one in (train, val))
    noise = here.var(0) / len(here) + there.var(0) / len(there)

    def far(one: Tensor, other: Tensor, error: Tensor) -> float:
        return float(((one - other).square() / error.clamp_min(1e-12)).mean())

    turned = here.var(0) / len(here) + there.var(0).flip(0) / len(there)
    return far(here.mean(0), there.mean(0), noise) > 25 and far(here.mean(0), there.mean(0).flip(0), turned) < 4
