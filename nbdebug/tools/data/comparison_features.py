"""One number or category per sample for each feature, so that the samples of two splits can be compared."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.padding import find_trailing_padding
from nbdebug.tensors.row_search import to_columns

_MAX_CATEGORIES, _MAX_CHANNELS, _MAX_COLUMNS = 50, 32, 512
_MIN_PLACES = 16  # of a sample that can be blank


@dataclass(frozen=True, eq=False)
class FeatureColumn:
    """One feature of all samples of a split: numbers, with NaN where missing, or category codes."""

    role: str
    name: str
    values: NDArray[np.float64]
    is_category: bool = False

    @property
    def title(self) -> str:
        """The role and the name."""
        return f"{self.role} {self.name}".strip()


def comparison_columns(
    table: SplitTable, input_names: Sequence[str], column_names: Sequence[str] | None
) -> list[FeatureColumn]:
    """Return the features of all inputs and targets.

    They are the columns of a table; mean, standard deviation and mean step between neighbors of each channel of images
    and series; length and number of different tokens of texts; the class or the values of targets.
    """
    columns: list[FeatureColumn] = []
    for number, part in enumerate(table.inputs):
        name = input_names[number] if number < len(input_names) else str(number)
        columns += _part_columns("input", name if len(table.inputs) > 1 else "", part, column_names)
    if table.labels is not None:
        columns.append(FeatureColumn("target", "", table.labels.double().numpy(), True))
    else:
        for number, part in enumerate(table.targets):
            columns += _part_columns("target", str(number) if len(table.targets) > 1 else "", part, None)
    return columns[:_MAX_COLUMNS]


def _part_columns(role: str, name: str, part: Tensor, column_names: Sequence[str] | None) -> Iterator[FeatureColumn]:
    if not part.numel() or part.is_complex():
        return
    if part.dim() <= 2 and not _is_text(part):
        rows = part.reshape(len(part), -1)
        has_names = column_names is not None and len(column_names) == rows.shape[1]
        for index, values in enumerate(to_columns([rows[:, :_MAX_COLUMNS]])):
            own = column_names[index] if has_names and column_names else f"column {index}"
            label = " ".join(filter(None, (name, own if rows.shape[1] > 1 else "")))
            yield FeatureColumn(role, label, values.double().numpy(), _is_category(values))
    elif part.dim() == 2:
        yield from _text_columns(role, name, part)
    else:
        yield from _channel_columns(role, name, part)


def _is_text(part: Tensor) -> bool:
    return find_trailing_padding(part) is not None if part.dim() == 2 else False


def _is_category(values: Tensor) -> bool:
    """Return whether integers stand for a few categories."""
    if values.is_floating_point():
        return False
    return len(values.unique()) <= _MAX_CATEGORIES  # type: ignore[no-untyped-call]


def _text_columns(role: str, name: str, part: Tensor) -> Iterator[FeatureColumn]:
    """Yield the length before the padding, and the number of different tokens."""
    trailing = find_trailing_padding(part)
    assert trailing is not None
    lengths = (~trailing[1]).sum(1).double().numpy()
    ordered = part.sort(1).values
    distinct = (1 + (ordered.diff(dim=1) != 0).sum(1)).double().numpy()
    yield FeatureColumn(role, f"{name} length".strip(), lengths)
    yield FeatureColumn(role, f"{name} different tokens".strip(), distinct)


def _channel_columns(role: str, name: str, part: Tensor) -> Iterator[FeatureColumn]:
    """Yield mean, standard deviation and mean step between neighbors of each channel."""
    samples = move_channels_first(part).float()
    steps = (samples.diff(dim=-1) if samples.shape[-1] > 1 else samples).abs()
    flat = samples.flatten(2)
    spread = flat.std(2) if flat.shape[2] > 1 else flat[:, :, 0]
    for quantity, by_channel in {"mean": flat.mean(2), "spread": spread, "step": steps.flatten(2).mean(2)}.items():
        for channel, values in enumerate(by_channel.t()):
            own = f"channel {channel} {quantity}" if samples.shape[1] > 1 else quantity
            yield FeatureColumn(role, f"{name} {own}".strip(), values.double().numpy())


def find_blank_samples(part: Tensor) -> Tensor:
    """Return for each image or series if each channel is constant, as in a black image; False for other inputs."""
    if part.dim() < 3 or part.is_complex() or not part.numel():
        return torch.zeros(len(part), dtype=torch.bool)
    channels = move_channels_first(part).flatten(2)
    if channels.shape[2] < _MIN_PLACES:
        return torch.zeros(len(part), dtype=torch.bool)
    low, high = channels.aminmax(dim=2)
    return (low == high).all(1)


def move_channels_first(part: Tensor) -> Tensor:
    """Return samples × channels × places; a part without channels has one."""
    axis = _channel_axis(part)
    return part.movedim(axis, 1) if axis is not None else part.unsqueeze(1)


def _channel_axis(part: Tensor) -> int | None:
    """Return the axis of the channels: the second of images, the shorter of series; None for many or none."""
    if part.dim() == 4:
        return 1 if part.shape[1] <= _MAX_CHANNELS else 3 if part.shape[3] <= _MAX_CHANNELS else None
    if part.dim() == 3 and min(part.shape[1:]) <= _MAX_CHANNELS and part.shape[1] != part.shape[2]:
        return 1 if part.shape[1] < part.shape[2] else 2
    return None
