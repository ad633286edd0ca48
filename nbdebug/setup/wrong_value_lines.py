"""The user's line that makes a wrong value of a sample while it is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.preserve import Preserve
from nbdebug.setup.loaders import is_map_style
from nbdebug.setup.sample_functions import collate_method, nested_datasets
from nbdebug.setup.setup import Setup
from nbdebug.source.appearing_values import find_appearance
from nbdebug.source.location import SourceLine

_MAX_STORED_VALUES = 50_000_000


def non_finite_line(setup: Setup, split: str, index: int, *, is_nan: bool) -> SourceLine | None:
    """Return the line that makes the first NaN, or infinite value, of a sample; None if it is stored with the data."""
    matches = torch.isnan if is_nan else torch.isinf

    def is_wrong(value: Any) -> bool:
        values = _as_tensor(value)
        return values is not None and values.is_floating_point() and bool(matches(values).any())

    return _appearance(setup, split, index, is_wrong, is_wrong)


def wrong_label_line(setup: Setup, split: str, index: int, labels: Collection[int]) -> SourceLine | None:
    """Return the line that makes a wrong label of a sample; None if one is stored, or if the index is such a number."""
    if index in labels:
        return None

    def is_stored(value: Any) -> bool:
        values = _as_tensor(value)
        return values is not None and any(bool((values == label).any()) for label in labels)

    def is_wrong(value: Any) -> bool:
        values = _as_tensor(value)
        return values is not None and values.numel() == 1 and is_stored(values)

    return _appearance(setup, split, index, is_wrong, is_stored)


def label_sequence_line(setup: Setup, index: int, labels: Sequence[int]) -> SourceLine | None:
    """Return the line that makes the labels of a sequence when a training sample is read; None if they are stored."""

    def holds_labels(value: Any) -> bool:
        is_listed = isinstance(value, (list, tuple)) and all(type(item) is int for item in value)
        values = torch.tensor(value) if is_listed else _as_tensor(value)
        return values is not None and values.dim() == 1 and values.tolist() == [*labels]

    def is_stored(value: Any) -> bool:
        values = _as_tensor(value)
        rows = values if values is not None and values.dim() == 2 else ()
        return holds_labels(value) or any(holds_labels(row[: len(labels)]) for row in rows)

    return _appearance(setup, "train", index, holds_labels, is_stored)


def narrow_value_line(setup: Setup, size: int, share: float) -> SourceLine | None:
    """Return the line that first makes ``size`` values with a small spread while a training sample is read.

    Their standard deviation is below a ``share`` of their root mean square, but not zero. None if they are stored.
    """

    def is_narrow(value: Any) -> bool:
        values = _as_tensor(value)
        if values is None or values.numel() != size:
            return False
        numbers = values.detach().double()
        return 0 < float(numbers.std()) < share * float(numbers.square().mean().sqrt())

    def is_stored(value: Any) -> bool:
        values = _as_tensor(value)
        return is_narrow(value) or (
            values is not None and values.dim() > 1 and len(values) > 0 and is_narrow(values[0])
        )

    return _appearance(setup, "train", 0, is_narrow, is_stored)


def _appearance(
    setup: Setup, split: str, index: int, is_wrong: Callable[[Any], bool], is_stored: Callable[[Any], bool]
) -> SourceLine | None:
    """Return the line at which the read of a sample makes its first wrong value, with the user's collate function.

    None if the dataset stores a wrong value, or a table or a very large array, which may contain one.
    """
    loader = setup.val_loader if split in ("val", "validation") else setup.train_loader
    dataset = getattr(loader, "dataset", None)
    if dataset is None or not is_map_style(loader):
        return None

    def read() -> None:
        sample = dataset[index]
        if collate_method(loader):
            loader.collate_fn([sample])

    try:
        if any(_is_unknown(value) or is_stored(value) for value in _stored_values(dataset)):
            return None
        with Preserve(dataset):
            return find_appearance(read, is_wrong)
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def _stored_values(dataset: Any) -> list[Any]:
    """Return the attributes of a dataset and of those inside it, and the parts of tuples and lists of them."""
    attributes = [value for part in nested_datasets(dataset) for value in getattr(part, "__dict__", {}).values()]
    return [part for value in attributes for part in (value if isinstance(value, (list, tuple)) else [value])]


def _is_unknown(value: Any) -> bool:
    size = value.numel() if isinstance(value, Tensor) else getattr(value, "size", 0)
    return hasattr(value, "iloc") or (isinstance(size, int) and size > _MAX_STORED_VALUES)


def _as_tensor(value: Any) -> Tensor | None:
    """Return a number or an array of numbers as a tensor; None for others."""
    if isinstance(value, (float, int)) and not isinstance(value, bool):
        return torch.tensor(value, dtype=torch.float64)
    if isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind in "fiu":
        is_readable = value.flags.writeable and value.dtype.isnative and min(value.strides, default=0) >= 0
        return torch.as_tensor(value if is_readable else np.array(value, value.dtype.newbyteorder("="), order="C"))
    return value if isinstance(value, Tensor) and not value.is_complex() else None
