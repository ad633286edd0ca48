"""Tensors, lists and frames as arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.predictions.table import fits


def array(values: Any) -> NDArray[Any]:
    """An array of whatever holds numbers; of tensors also those on a device, and of half precision."""
    if hasattr(values, "detach"):
        found = values.detach().cpu()
        return np.asarray(found.float().numpy() if str(found.dtype) == "torch.bfloat16" else found.numpy())
    return np.asarray(values)


def indexed(index: Any, rows: int) -> NDArray[np.int64] | None:
    """Places in the data set, one a row; raises SetupError for another number of them."""
    if index is None:
        return None
    places = np.asarray(array(index), np.int64)
    fits("index", len(places), rows)
    return places
