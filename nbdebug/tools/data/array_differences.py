"""The difference of two outputs of a preprocessing step, recognized by its shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.sample_display.arrays import as_array, is_pil_image
from nbdebug.tensors.pytree import tree_leaves
from nbdebug.validation import describe_value

_RELATIVE, _ABSOLUTE, _AFFINE_RESIDUAL = 1e-5, 1e-6, 1e-4
_MAX_AXES, _MAX_CHANNELS, _MIN_VALUES = 4, 4, 3


@dataclass(frozen=True)
class OutputDifference:
    """The difference of two outputs: its kind, in words, and the largest difference of two values (NaN if unknown)."""

    kind: Literal["error", "structure", "shape", "dtype", "values"]
    text: str
    largest: float = float("nan")


def find_difference(first: Any, second: Any) -> OutputDifference | None:
    """Return the difference of two outputs; None if they agree up to rounding in single precision.

    An array, a tensor and a picture with the same values and dtype agree.
    """
    if isinstance(first, Exception) or isinstance(second, Exception):
        return _compare_errors(first, second)
    own, other = (dict(tree_leaves(output)) for output in (first, second))
    if own.keys() != other.keys():
        paths = sorted(".".join(map(str, path)) or "the output" for path in own.keys() ^ other.keys())
        return OutputDifference("structure", f"only one of them has {', '.join(paths[:3])}")
    differences = [difference for path in own if (difference := _compare_leaves(own[path], other[path])) is not None]
    return next(iter(differences), None)


def _compare_errors(first: Any, second: Any) -> OutputDifference | None:
    texts = [f"{type(item).__name__}: {item}" if isinstance(item, Exception) else "" for item in (first, second)]
    if texts[0] == texts[1]:
        return None
    raised = [f"the {name} raises {text}" for name, text in zip(("first", "second"), texts, strict=True) if text]
    return OutputDifference("error", " and ".join(raised))


def _compare_leaves(first: Any, second: Any) -> OutputDifference | None:
    arrays = [np.asarray(leaf) if is_pil_image(leaf) else as_array(leaf) for leaf in (first, second)]
    one, other = arrays
    if one is None or other is None:
        return _compare_objects(first, second)
    if one.dtype.kind not in "biufc" or other.dtype.kind not in "biufc":
        return _compare_objects(first, second)
    if one.shape != other.shape:
        return OutputDifference("shape", f"shape {one.shape} and {other.shape}{_describe_axes(one, other)}")
    if (largest := _largest_difference(one, other)) > 0:
        return OutputDifference("values", _describe_values(one, other, largest), largest)
    if one.dtype != other.dtype:
        return OutputDifference("dtype", f"{one.dtype} and {other.dtype}, with the same values", 0.0)
    return None


def _compare_objects(first: Any, second: Any) -> OutputDifference | None:
    if isinstance(first, Mapping) and isinstance(second, Mapping) and not first and not second:
        return None
    try:
        is_equal = type(first) is type(second) and bool(first == second)
    except Exception:
        is_equal = False
    if is_equal:
        return None
    return OutputDifference("values", f"{describe_value(first)} and {describe_value(second)}")


def _largest_difference(first: NDArray[Any], second: NDArray[Any]) -> float:
    """Return the largest absolute difference beyond rounding; 0 without one, and infinity for other missing values."""
    if not first.size:
        return 0.0
    one, other = (array.astype(np.complex128 if array.dtype.kind == "c" else np.float64) for array in (first, second))
    finite = np.isfinite(one) & np.isfinite(other)
    same_missing = (np.isnan(one) == np.isnan(other)) & ((one == other) | np.isnan(one) | finite)
    if not same_missing.all():
        return float("inf")
    difference = np.abs(np.where(finite, one - other, 0))
    tolerance = _ABSOLUTE + _RELATIVE * np.maximum(np.abs(one), np.abs(other))
    return float(difference.max()) if bool((difference[finite] > tolerance[finite]).any()) else 0.0


def _describe_axes(first: NDArray[Any], second: NDArray[Any]) -> str:
    """Return how the axes are arranged otherwise; "" if no order of the axes makes the arrays equal."""
    if first.ndim == second.ndim <= _MAX_AXES:
        for order in permutations(range(first.ndim)):
            turned = first.transpose(order)
            if turned.shape == second.shape and not _largest_difference(turned, second):
                return f": the same values, with the axes in the order {order}"
    if first.size == second.size and not _largest_difference(first.reshape(-1), second.reshape(-1)):
        return ": the same values in the same order"
    return ""


def _describe_values(first: NDArray[Any], second: NDArray[Any], largest: float) -> str:
    """Return the relation of the values: another order, or a factor with an offset; else the largest difference."""
    for axis in range(first.ndim):
        if not _largest_difference(np.flip(first, axis), second):
            is_channel = 2 < first.shape[axis] <= _MAX_CHANNELS
            return f"the order along axis {axis} is reversed{', such as BGR for RGB' if is_channel else ''}"
    is_square = first.ndim >= 2 and first.shape[-1] == first.shape[-2]
    if is_square and not _largest_difference(first.swapaxes(-1, -2), second):
        return "the last two axes are exchanged"
    if largest == float("inf"):
        return "missing or infinite values are in other places"
    return _describe_affine(first, second) or f"values differ by up to {largest:.4g}"


def _describe_affine(first: NDArray[Any], second: NDArray[Any]) -> str:
    """Return the factor and the offset that map one to the other; "" without such a relation."""
    one, other = (array.astype(np.float64).ravel() for array in (first, second))
    finite = np.isfinite(one) & np.isfinite(other)
    one, other = one[finite], other[finite]
    if len(np.unique(one)) < _MIN_VALUES or other.std() == 0:
        return ""
    factor = float(np.cov(one, other)[0, 1] / one.var(ddof=1))
    offset = float(other.mean() - factor * one.mean())
    if np.abs(factor * one + offset - other).max() > _AFFINE_RESIDUAL * np.abs(other).max():
        return ""
    known = {255.0: " (0–255 for 0–1)", 1 / 255: " (divided by 255 once more)"}
    hint = next((text for value, text in known.items() if abs(factor / value - 1) < 1e-3), "")
    has_offset = abs(offset) > _AFFINE_RESIDUAL * np.abs(other).max()
    return f"the second is {factor:.5g} × the first{f' {offset:+.5g}' if has_offset else ''}{hint}"
