"""Converts samples to numpy arrays: tensors of any device, PIL images, lists of numbers, sparse rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
_NUMERIC_MODES = ("1", "L", "RGB", "RGBA", "I", "F", "I;16")  # modes of PIL images whose numbers are the displayed ones


def as_array(value: Any) -> Array | None:
    """Return ``value`` as an array of numbers or booleans; None if it is not one."""
    if hasattr(value, "detach"):
        return _tensor_to_array(value)
    if is_pil_image(value):
        return np.asarray(value if value.mode in _NUMERIC_MODES else value.convert("RGB"))
    if hasattr(value, "toarray"):
        value = value.toarray()
        value = value[0] if value.ndim == 2 and len(value) == 1 else value
    if isinstance(value, (str, bytes, dict)) or not (hasattr(value, "__array__") or isinstance(value, Sequence)):
        return None
    return _numeric_array(value)


def _tensor_to_array(value: Any) -> Array:
    dense = value.detach()
    if dense.layout.__repr__() != "torch.strided":
        dense = dense.to_dense()
    if dense.dtype.itemsize <= 2 and dense.dtype.is_floating_point:
        dense = dense.float()  # numpy has no bfloat16
    return np.asarray(dense.cpu().resolve_conj().numpy())


def _numeric_array(value: Any) -> Array | None:
    scalar_types = (int, float, list, tuple, np.generic)
    if isinstance(value, (list, tuple)) and not all(isinstance(item, scalar_types) for item in value):
        return None
    try:
        array = np.asarray(value)
    except (ValueError, TypeError):
        return None
    return array if array.dtype.kind in "biufc" else None


def is_pil_image(value: Any) -> bool:
    """Check whether this is a PIL image, without importing PIL."""
    return hasattr(value, "getbands") and hasattr(value, "convert") and hasattr(value, "mode")


def finite_values(values: Sequence[Array], max_values: int = 200_000) -> Array:
    """Return the finite numbers of some arrays as one vector, evenly thinned to about ``most`` numbers."""
    values_per_array = max(max_values // max(len(values), 1), 1)
    thinned = [array.reshape(-1)[:: max(array.size // values_per_array, 1)].astype(np.float64) for array in values]
    flat = np.concatenate([*thinned, np.zeros(0)])
    return np.asarray(flat[np.isfinite(flat)])
