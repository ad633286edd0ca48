"""Values of each feature of a split."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.registry import measurement
from nbdebug.tensors.row_search import is_finite

_MAX_CHANNELS = 4
_MIN_SAMPLES, _MAX_VALUES = 30, 2_000_000


@dataclass(frozen=True)
class FeatureValues:
    """The values of one real-valued input or target, one row for each feature.

    A feature is a column of a table, a channel of an image batch, or all values otherwise. ``part`` has the samples
    along its first axis, and ``indices`` are their dataset indices; all values of a sample are next to each other in a
    row of ``values``.
    """

    name: str
    part: Tensor
    values: Tensor
    indices: list[int]
    is_target: bool = False
    split: str = "train"

    @property
    def title(self) -> str:
        """The name, and the split if it is validation."""
        return f"{self.name} of validation" if self.split == "val" else self.name

    @property
    def is_table(self) -> bool:
        """True if each feature has one value for each sample."""
        return self.values.shape[1] == len(self.part)

    @property
    def input_evidence(self) -> dict[str, int]:
        """Evidence of a finding: the index of the input and, for a table of training rows, its number of columns."""
        number = self.name.rpartition(" ")[2]
        if self.is_target or not number.isdecimal():
            return {}
        has_columns = self.is_table and self.part.dim() == 2 and self.split == "train"
        return {"input": int(number)} | ({"columns": self.part.shape[1]} if has_columns else {})

    def sample_index(self, position: int) -> int:
        """Return the dataset index of the sample that a position in a row of ``values`` belongs to."""
        return self.indices[position // (self.values.shape[1] // len(self.part))]

    def feature_name(self, row: int) -> str:
        """Return the name of a feature for a message."""
        if self.part.dim() < 2 or len(self.values) == 1:
            return self.title
        return f"{'column' if self.is_table else 'channel'} {row} of {self.title}"


@measurement
def train_features(tables: dict[str, SplitTable]) -> list[FeatureValues]:
    """The values of each feature of the real-valued inputs and targets of the training split."""
    table = tables.get("train")
    if table is None or len(table) < _MIN_SAMPLES:
        raise NotChecked(f"fewer than {_MIN_SAMPLES} training samples can be read")
    return _features_of_split(table)


@measurement
def val_features(tables: dict[str, SplitTable]) -> list[FeatureValues]:
    """The same values of the validation split; none if fewer than 30 of its samples can be read."""
    table = tables.get("val")
    return [] if table is None or len(table) < _MIN_SAMPLES else _features_of_split(table)


def same_features(features: FeatureValues, others: list[FeatureValues]) -> FeatureValues | None:
    """Return the part of another split that has the same features; None if there is none."""
    is_same = (other.name == features.name and len(other.values) == len(features.values) for other in others)
    return next((other for other, same in zip(others, is_same, strict=True) if same), None)


def _features_of_split(table: SplitTable) -> list[FeatureValues]:
    parts = [(f"input {number}", part, False) for number, part in enumerate(table.inputs)]
    if table.labels is None:
        parts += [(f"target {number}", part, True) for number, part in enumerate(table.targets)]
    return [
        _get_sampled_features(name, part, is_target, table)
        for name, part, is_target in parts
        if part.is_floating_point() and part.numel() and is_finite(part)
    ]


def _get_sampled_features(name: str, part: Tensor, is_target: bool, table: SplitTable) -> FeatureValues:
    """Return the features of evenly spaced samples, so that they can be sorted quickly."""
    positions = sample_positions(len(part), max(_MIN_SAMPLES, _MAX_VALUES // part[0].numel()))
    samples = part[positions].float()
    indices = [table.indices[position] for position in positions.tolist()]
    return FeatureValues(name, samples, feature_rows(samples), indices, is_target, table.split)


def sample_positions(count: int, limit: int) -> Tensor:
    """Return at most ``limit`` evenly spaced positions of ``count`` samples."""
    return torch.linspace(0, count - 1, min(count, limit)).long()


def feature_rows(part: Tensor) -> Tensor:
    """Return the values of each feature as one row; the samples are along the first axis of ``part``."""
    if part.dim() == 2:
        return part.t()
    return part.transpose(0, 1).flatten(1) if is_image_batch(part) else part.reshape(1, -1)


def is_image_batch(part: Tensor) -> bool:
    """Return whether the second axis holds the channels of images."""
    return part.dim() == 4 and 1 < part.shape[1] <= _MAX_CHANNELS
