"""What a sample holds as a numpy array: tensors of any device, PIL images, lists of numbers, sparse rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
PLAIN_MODES = ("1", "L", "RGB", "RGBA", "I", "F", "I;16")  # of PIL images whose numbers are what is seen


def as_array(value: Any) -> Array | None:
    """``value`` as an array of numbers or truth values; None for what is none."""
    if hasattr(value, "detach"):
        return of_tensor(value)
    if is_picture(value):
        return np.asarray(value if value.mode in PLAIN_MODES else value.convert("RGB"))
    if hasattr(value, "toarray"):
        value = value.toarray()
        value = value[0] if value.ndim == 2 and len(value) == 1 else value
    if isinstance(value, (str, bytes, dict)) or not (hasattr(value, "__array__") or isinstance(value, Sequence)):
        return None
    return numbers(value)


def of_tensor(value: Any) -> Array:
    """A tensor of any device and dtype, dense."""
    found = value.detach()
    if found.layout.__repr__() != "torch.strided":
        found = found.to_dense()
    if found.dtype.itemsize <= 2 and found.dtype.is_floating_point:
        found = found.float()  # numpy has no bfloat16
    return np.asarray(found.cpu().resolve_conj().numpy())


def numbers(value: Any) -> Array | None:
    """An array of what can be one; None for texts, objects and lists of lists of different lengths."""
    plain = (int, float, list, tuple, np.generic)
    if isinstance(value, (list, tuple)) and not all(isinstance(one, plain) for one in value):
        return None
    try:
        found = np.asarray(value)
    except (ValueError, TypeError):
        return None
    return found if found.dtype.kind in "biufc" else None


def is_picture(value: Any) -> bool:
    """Whether this is a PIL image; PIL is not imported for that."""
    return hasattr(value, "getbands") and hasattr(value, "convert") and hasattr(value, "mode")


def finite(values: Sequence[Array], most: int = 200_000) -> Array:
    """The finite numbers of some arrays in a row, every n-th where there are many."""
    share = max(most // max(len(values), 1), 1)
    thinned = [one.reshape(-1)[:: max(one.size // share, 1)].astype(np.float64) for one in values]
    flat = np.concatenate([*thinned, np.zeros(0)])
    return np.asarray(flat[np.isfinite(flat)])
