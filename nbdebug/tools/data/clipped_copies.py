"""Images that are others with another brightness and contrast, clipped at the limits of the values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

_MAX_VALUES, _MIN_VALUES = 1_024, 16
_MAX_RESIDUAL, _MIN_SPREAD, _TOLERANCE, _AT_LIMIT = 0.02, 0.01, 0.02, 1e-4


def have_clipped_shades(images: Tensor, pairs: Sequence[tuple[int, int]]) -> NDArray[np.bool_]:
    """Return for each pair of images whether one is the other times a factor plus an offset, clipped.

    ``images`` has the shape (rows, channels, height, width). Clipped values, which are those at the lowest or highest
    value of all images, only have to lie beyond the limit. The others must follow the line with an error of 2% of their
    spread, which different images do not do by chance. The first channel and at most 1,024 of its places are compared.
    """
    values = images[:, 0].flatten(1).double()
    values = values[:, :: -(-values.shape[1] // _MAX_VALUES)]
    low, high = float(values.min()), float(values.max())
    if not pairs or not np.isfinite([low, high]).all() or low == high:
        return np.zeros(len(pairs), dtype=bool)
    values = (values - low) / (high - low)
    first, second = (values[[pair[side] for pair in pairs]] for side in (0, 1))
    found: NDArray[np.bool_] = (_is_clipped_line(first, second) | _is_clipped_line(second, first)).numpy()
    return found


def _is_clipped_line(original: Tensor, copy: Tensor) -> Tensor:
    """Return for each row, of values from 0 to 1, whether the copy is a line of the original that is clipped."""
    is_low, is_high = copy <= _AT_LIMIT, copy >= 1 - _AT_LIMIT
    inside = (~(is_low | is_high)).double()
    count = inside.sum(1, keepdim=True).clamp_min(1)
    x, y = ((side - (side * inside).sum(1, keepdim=True) / count) * inside for side in (original, copy))
    slope = (x * y).sum(1, keepdim=True) / x.square().sum(1, keepdim=True).clamp_min(1e-12)
    offset = ((copy - slope * original) * inside).sum(1, keepdim=True) / count
    line = slope * original + offset
    residual = ((copy - line) * inside).square().sum(1)
    spread = y.square().sum(1)
    fits = (residual < _MAX_RESIDUAL**2 * spread) & (spread > _MIN_SPREAD**2 * count[:, 0])
    is_beyond = (~is_low | (line < _TOLERANCE)) & (~is_high | (line > 1 - _TOLERANCE))
    result: Tensor = fits & (slope[:, 0] > 0) & (count[:, 0] >= _MIN_VALUES) & is_beyond.all(1)
    return result
