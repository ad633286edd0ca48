"""Pictures of any layout as height × width × channels, and what a page can show of many channels."""

from __future__ import annotations

from math import ceil, isqrt
from typing import Any

import numpy as np

from nbdebug.samples.arrays import Array

MOST_COLORS = 4
SHEETS = {False: 4, True: 16}  # channels or frames side by side, on a card and in full


def squeezed(values: Array) -> Array:
    """Without axes of length one, as long as more than two are left."""
    while values.ndim > 3 or (values.ndim == 3 and values.shape[0] != 1 and values.shape[-1] != 1):
        axis = next((at for at, length in enumerate(values.shape) if length == 1), None)
        if axis is None:
            break
        values = values.squeeze(axis)
    return values


def arranged(values: Array) -> Array:
    """A picture as height × width × channels; frames of a film or slices of a volume become channels.

    Channels are told by an axis of at most 4, the first before the last, and else by the shortest axis at either end.
    """
    values = squeezed(values)
    if values.ndim == 2:
        return values[:, :, None]
    if values.ndim > 3:
        return frames(values)
    return values if channels_last(values.shape) else values.transpose(1, 2, 0)


def channels_last(shape: tuple[int, ...]) -> bool:
    """Whether the last axis of three is the one of channels."""
    first, last = shape[0], shape[-1]
    if first <= MOST_COLORS and last <= MOST_COLORS:
        return last in (1, 3) and first not in (1, 3)
    if min(first, last) <= MOST_COLORS:
        return last <= MOST_COLORS
    return last < first and last < shape[1]


def frames(values: Array) -> Array:
    """The frames of a film as channels, each in gray."""
    axis = next((at for at in (-1, 1, 0) if values.shape[at] in (1, 3)), 0)
    gray = values.mean(axis) if values.dtype.kind == "f" else values.astype(np.float32).mean(axis)
    flat = gray.reshape(-1, *gray.shape[-2:])
    return np.asarray(flat.transpose(1, 2, 0))


def visible(picture: Array, full: bool) -> Array:
    """Gray or colors with or without transparency; more channels than that side by side, each in gray."""
    count = picture.shape[-1]
    if count in (1, 3) or (count == MOST_COLORS and not side_by_side(picture)):
        return picture
    return sheet(picture, SHEETS[full])


def side_by_side(picture: Array) -> bool:
    """Whether four channels are four pictures: the last is none of opacity, as it is not opaque anywhere."""
    alpha = picture[..., 3]
    top: Any = 255 if picture.dtype.kind in "iu" else 1
    return not (bool((alpha >= 0).all()) and float(alpha.max()) == top)


def sheet(picture: Array, most: int) -> Array:
    """At most so many channels as one gray picture, in rows, evenly out of all."""
    at = np.unique(np.linspace(0, picture.shape[-1] - 1, most).round().astype(int))
    across = isqrt(len(at) - 1) + 1
    down = ceil(len(at) / across)
    height, width = picture.shape[:2]
    out = np.zeros((down * height, across * width, 1), picture.dtype)
    for number, channel in enumerate(at):
        row, column = divmod(number, across)
        out[row * height : (row + 1) * height, column * width : (column + 1) * width, 0] = picture[..., channel]
    return out
