"""Single images and series that stand out: dark, washed out, cut off or odd-sized images, clipped or frozen series."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.tools.data.comparison_features import find_blank_samples, move_channels_first
from nbdebug.tools.data.reading import Shape
from nbdebug.tools.data.split_profile import SPLIT_NAMES

MIN_SAMPLES, MIN_PLACES = 40, 64
MIN_SIDE = 12
_MAX_SHARE = 0.05
_LOW, _HIGH, _DARK, _BRIGHT, _ENDS = 0.01, 0.99, 0.15, 0.85, 0.01
_CUT_SHARE, _CLIPPED_RUN, _CLIPPED_SHARE, _FROZEN_SHARE = 0.2, 3, 0.02, 0.25
_MAX_QUANTILE_VALUES = 1_000_000


@dataclass(frozen=True)
class UnusualSamples:
    """Samples of one input of a split with the same fault, at most 5% of the ``samples`` that were compared."""

    split: str
    leaf: str
    fault: str
    indices: tuple[int, ...]
    samples: int

    @property
    def title(self) -> str:
        """The split and the input."""
        return f"{SPLIT_NAMES[self.split]} input {self.leaf}".rstrip()

    @property
    def is_cut_off(self) -> bool:
        """True for images that are cut off."""
        return self.fault == _CUT_OFF

    @property
    def text(self) -> str:
        """The fault in words."""
        return f"{len(self.indices):,} of {self.samples:,} {self.fault}, such as sample {self.indices[0]}"


def find_unusual_samples(table: SplitTable, names: Sequence[str]) -> list[UnusualSamples]:
    """Return the images and series that are exposed, cut off, clipped or frozen unlike nearly all others.

    A fault that more than 5% of the samples have is how the data are. Blank samples are not repeated.
    """
    result = []
    for number in _comparable_inputs(table):
        part = table.inputs[number]
        samples, is_varied = torch.nan_to_num(move_channels_first(part).float()), ~find_blank_samples(part)
        for fault, find in (_IMAGE_FAULTS if samples.dim() == 4 else _SERIES_FAULTS).items():
            rows = torch.nonzero(find(samples) & is_varied).flatten().tolist()
            if 0 < len(rows) <= _MAX_SHARE * len(part):
                name = names[number] if len(table.inputs) > 1 and number < len(names) else ""
                indices = tuple(sorted(int(table.indices[row]) for row in rows))
                result.append(UnusualSamples(table.split, name, fault, indices, len(part)))
    return result


def find_other_sizes(split: str, sizes: Mapping[tuple[Shape, ...], Sequence[int]]) -> Iterator[UnusualSamples]:
    """Yield the samples whose images have another size than nearly all others, from the samples by size."""
    total = sum(map(len, sizes.values()))
    common = max(sizes, key=lambda size: len(sizes[size]), default=())
    others = sorted(index for size, indices in sizes.items() if size != common for index in indices)
    if total >= MIN_SAMPLES and 0 < len(others) <= _MAX_SHARE * total:
        shapes = " and ".join("×".join(map(str, shape)) for shape in common)
        yield UnusualSamples(split, "", f"images have another size than {shapes}", tuple(others), total)


def count_compared_samples(table: SplitTable) -> int:
    """Return the number of samples whose images or series are compared with each other."""
    return max((len(table.inputs[number]) for number in _comparable_inputs(table)), default=0)


def _comparable_inputs(table: SplitTable) -> list[int]:
    """Return the inputs that are images or series of enough places, if there are enough samples."""
    return [
        number
        for number, part in enumerate(table.inputs)
        if len(part) >= MIN_SAMPLES
        and part.dim() in (3, 4)
        and not part.is_complex()
        and part.dtype != torch.bool
        and move_channels_first(part[:1]).flatten(2).shape[2] >= MIN_PLACES
    ]


def _are_dark(images: Tensor) -> Tensor:
    """Return whether all but 1% of the values lie in the lowest part of the range of all images."""
    low, high = _value_range(images)
    return images.flatten(1).quantile(1 - _ENDS, dim=1) < low + _DARK * (high - low)


def _are_bright(images: Tensor) -> Tensor:
    low, high = _value_range(images)
    return images.flatten(1).quantile(_ENDS, dim=1) > low + _BRIGHT * (high - low)


def _value_range(images: Tensor) -> tuple[Tensor, Tensor]:
    values = images.flatten()
    values = values[:: -(-len(values) // _MAX_QUANTILE_VALUES)]
    return values.quantile(_LOW), values.quantile(_HIGH)


def _are_cut_off(images: Tensor) -> Tensor:
    """Return whether the lowest fifth of the rows has one value in each channel, as a file that ends early leaves it.

    Images of which more than 5% have an edge of one value, such as a background, can have a wide one.
    """
    height = images.shape[2]
    if height < MIN_SIDE:
        return torch.zeros(len(images), dtype=torch.bool)
    cut_off = _have_one_value(images[:, :, height - max(int(_CUT_SHARE * height), 2) :])
    return cut_off & bool(_share_of_edges(images) <= _MAX_SHARE)


def _share_of_edges(images: Tensor) -> float:
    """Return the share of images whose upper or lower edge has one value."""
    return float((_have_one_value(images[:, :, :2]) | _have_one_value(images[:, :, -2:])).float().mean())


def limit_cut_off(table: SplitTable) -> str:
    """Return why cut off images of a split would not be noticed; "" if they would, or if there are none."""
    images = [table.inputs[number] for number in _comparable_inputs(table) if table.inputs[number].dim() == 4]
    if not images:
        return ""
    samples = move_channels_first(images[0])
    if samples.shape[2] < MIN_SIDE:
        return f"the images have {samples.shape[2]} rows"
    share = _share_of_edges(samples)
    return f"{share:.0%} of the images have an edge of one value" if share > _MAX_SHARE else ""


def _have_one_value(images: Tensor) -> Tensor:
    values = images.flatten(2)
    return (values.amax(2) == values.amin(2)).all(1)


def _are_clipped(series: Tensor) -> Tensor:
    """Return whether runs at the highest or lowest value of a channel, other than 0, make up 2% of its steps."""
    clipped = torch.zeros(len(series), dtype=torch.bool)
    for limit in (series.amax((0, 2), keepdim=True), series.amin((0, 2), keepdim=True)):
        is_at_limit = (series == limit) & (limit != 0)
        in_run = is_at_limit.unfold(2, _CLIPPED_RUN, 1).all(3)
        steps = in_run.sum(2) + (_CLIPPED_RUN - 1) * in_run.any(2)
        clipped |= (steps >= _CLIPPED_SHARE * series.shape[2]).any(1)
    return clipped


def _are_frozen(series: Tensor) -> Tensor:
    """Return whether a channel keeps one value, other than 0, for a quarter of the steps."""
    length = max(int(_FROZEN_SHARE * series.shape[2]), 8)
    is_same = (series.diff(dim=2) == 0) & (series[:, :, 1:] != 0)
    return is_same.unfold(2, length - 1, 1).all(3).any(2).any(1)


_CUT_OFF = "images are cut off: the lowest fifth has one value"
_Finder = Callable[[Tensor], Tensor]
_IMAGE_FAULTS: dict[str, _Finder] = {
    "images are nearly black": _are_dark,
    "images are nearly white": _are_bright,
    _CUT_OFF: _are_cut_off,
}
_SERIES_FAULTS: dict[str, _Finder] = {
    "series are clipped: they stay at the limit of a channel": _are_clipped,
    "series are frozen: a channel keeps one value for a quarter of the steps": _are_frozen,
}
