"""The built-in changes of ``try_fix`` by which fixes of data are tried, with their values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from torch import Tensor


def hide_feature(part: Tensor, column: int) -> str:
    """Return the change that keeps a column of a table, or the last step of a series, from the model; else ""."""
    if part.dim() == 2:
        return f"hide column={column}"
    return "end window earlier=1" if part.dim() == 3 and column // part.shape[2] == part.shape[1] - 1 else ""


def renumber_validation(numbers: Mapping[int, int]) -> str:
    """Return the change of the numbers of validation classes into those of the training split."""
    return f"renumber validation={','.join(f'{old}>{new}' for old, new in sorted(numbers.items()))}"


def order_validation(order: Sequence[int]) -> str:
    """Return the change of the order of validation columns; ``order`` holds the training column of each."""
    return f"order validation={','.join(map(str, sorted(range(len(order)), key=order.__getitem__)))}"


def fill_missing(numbers: Iterable[tuple[int, float]]) -> str:
    """Return the change that fills some features where they have a number."""
    return f"fill missing values={','.join(f'{feature}:{number}' for feature, number in numbers)}"
