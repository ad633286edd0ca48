"""Random divisions of the samples of both splits: what a comparison of the splits shows by chance."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.feature_values import is_image_batch

_MAX_DIVISIONS, _MIN_DIVISIONS, _MAX_WORK = 199, 39, 20_000_000
_MAX_ROWS, _MAX_FEATURES, _MAX_POSITIONS = 1000, 64, 32


def get_classes(train: SplitTable, val: SplitTable) -> tuple[Tensor, Tensor]:
    """Return the class of each sample of both splits; one for all without classes in both."""
    if train.labels is None or val.labels is None:
        return torch.zeros(len(train), dtype=torch.long), torch.zeros(len(val), dtype=torch.long)
    return train.labels, val.labels


def _random_divisions(train_classes: Tensor, val_classes: Tensor, values_per_sample: int) -> Iterator[Tensor]:
    """Yield, for several random divisions, which samples of training followed by validation are in validation.

    Each split keeps its size, and the number of samples of each class, so that a shift of the classes is no difference.
    A value that exceeds those of all divisions has a probability of less than one in 40, and in 200 for few values.
    """
    classes = torch.cat([train_classes, val_classes])
    is_validation = torch.arange(len(classes)) >= len(train_classes)
    by_class = classes.argsort(stable=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(max(_MIN_DIVISIONS, min(_MAX_DIVISIONS, _MAX_WORK // max(len(classes) * values_per_sample, 1)))):
        order = torch.randperm(len(classes), generator=generator)
        division = torch.empty(len(classes), dtype=torch.bool)
        division[order[classes[order].argsort(stable=True)]] = is_validation[by_class]
        yield division


def shared_by_chance(classes: tuple[Tensor, Tensor], codes: Tensor) -> Tensor:
    """Return, for each random division, how many samples of validation have an equal one in training.

    ``codes`` are equal for equal samples of training followed by validation, and count from 0.
    """
    count, shares = int(codes.max()) + 1, []
    for division in _random_divisions(*classes, values_per_sample=1):
        in_training = torch.zeros(count, dtype=torch.bool)
        in_training[codes[~division]] = True
        shares.append(in_training[codes[division]].sum())
    return torch.stack(shares).double()


@dataclass(frozen=True)
class ChanceDifferences:
    """The largest differences of the units of two splits in random divisions of their samples.

    ``scale_factor`` is by how much the values of one spread wider, ``mean_shift`` the distance of the means in units of
    the spread, each in the median feature. In ``opposite_factor``, a tenth of the features spread that much wider, and
    another tenth as much less.
    """

    scale_factor: float = 1.0
    mean_shift: float = 0.0
    opposite_factor: float = 1.0


def differences_by_chance(train: Tensor, val: Tensor, classes: tuple[Tensor, Tensor]) -> ChanceDifferences:
    """Return the largest differences between random divisions of the samples of both splits."""
    rows = [torch.linspace(0, len(part) - 1, min(_MAX_ROWS, len(part))).long() for part in (train, val)]
    values = torch.cat([_sampled_values(part[index]) for part, index in zip((train, val), rows, strict=True)])
    own_classes = (classes[0][rows[0]], classes[1][rows[1]])
    factors, shifts, opposites = [1.0], [0.0], [1.0]
    for division in _random_divisions(*own_classes, values_per_sample=values[0].numel()):
        means, spreads = zip(*(_location_and_spread(values[part]) for part in (~division, division)), strict=True)
        is_varying = (spreads[0] > 0) & (spreads[1] > 0)
        if not bool(is_varying.any()):
            continue
        ratios = (spreads[1] / spreads[0])[is_varying].log()
        factors.append(float(ratios.median().abs().exp()))
        shifts.append(float(((means[1] - means[0]).abs() / spreads[0])[is_varying].median()))
        low, high = torch.quantile(ratios, torch.tensor([0.1, 0.9])).tolist()
        opposites.append(float(torch.tensor(max(min(-low, high), 0.0)).exp()))
    return ChanceDifferences(max(factors), max(shifts), max(opposites))


def _sampled_values(rows: Tensor) -> Tensor:
    """Return some values of each sample (samples × features × positions).

    A feature is a column of a table, a channel of an image batch, or all values otherwise.
    """
    if rows.dim() == 2:
        values = rows.unsqueeze(2)
    elif is_image_batch(rows):
        values = rows.flatten(2)
    else:
        values = rows.reshape(len(rows), 1, -1)
    generator = torch.Generator().manual_seed(0)
    features = torch.randperm(values.shape[1], generator=generator)[:_MAX_FEATURES]
    positions = torch.randperm(values.shape[2], generator=generator)[:_MAX_POSITIONS]
    return values[:, features][:, :, positions].float()


def _location_and_spread(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean and the mean absolute deviation of each feature."""
    means = values.mean((0, 2))
    return means, (values - means[:, None]).abs().mean((0, 2))
