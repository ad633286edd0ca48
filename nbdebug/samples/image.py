"""Images: arrays of any layout and normalization, PIL images, and flat vectors that are pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from math import isqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.samples import encode
from nbdebug.samples.arrays import Array, as_array, is_picture
from nbdebug.samples.hints import Hints
from nbdebug.samples.layout import arranged, squeezed, visible
from nbdebug.samples.scale import Scale, scale_of
from nbdebug.samples.smooth import nearness

LEAST_SIDE = 3
NONE = (255, 0, 255)  # magenta: what no picture has where it is a number
PLAUSIBLE = 0.8  # of the difference between any two pixels: so near, on average, are neighbors in a picture


@dataclass
class Images:
    """Pictures of one data set: all on one scale; ``side`` is that of flat vectors, which are square."""

    scale: Scale | None
    side: int | None = None
    stretch: bool = False

    @classmethod
    def of(cls, values: Sequence[Any], hints: Hints) -> Images | None:
        """How these are shown as pictures; None where they are none."""
        if all(is_picture(one) and one.mode != "F" and not one.mode.startswith("I") for one in values):
            return cls(None, stretch=hints.stretch)
        arrays = [one for value in values if (one := as_array(value)) is not None]
        if len(arrays) < len(values):
            return None
        side = flat_side(arrays, hints)
        if side is None and not all(map(has_sides, arrays)):
            return None
        pictures = [arranged(raised(one, side)) for one in arrays]
        alike = [one for one in pictures if one.shape[-1] == pictures[0].shape[-1]]
        return cls(scale_of(alike, hints.normalization), side, hints.stretch)

    def __call__(self, value: Any, full: bool) -> dict[str, Any]:
        """One picture."""
        if self.scale is None:
            picture = value if value.mode in encode.MODES.values() else value.convert("RGB")
            return encode.image(picture, full)
        array = as_array(value)
        assert array is not None
        picture = smaller(visible(arranged(raised(array, self.side)), full), encode.LONGEST[full])
        scale = scale_of([picture]) if self.stretch else self.scale
        shown = encode.image(encode.of_bytes(painted(picture, scale)), full)
        return {**shown, "scale": scale.said} if full else shown


def painted(picture: Array, scale: Scale) -> NDArray[np.uint8]:
    """A picture as bytes, with what is no number in magenta."""
    found = scale.light(picture)
    if picture.dtype.kind == "f" and not np.isfinite(picture.sum(dtype=np.float64)):
        lost = ~np.isfinite(picture).all(-1)
        found = np.repeat(found, 3, -1) if found.shape[-1] == 1 else found.copy()
        found[lost, :3] = NONE
        found[lost, 3:] = 255
    return found


def smaller(picture: Array, longest: int) -> Array:
    """A large picture of real numbers, each the mean of a square of 2 × 2, 3 × 3 …, as small as ``longest`` allows.

    One lost number in a square stays visible so. Bytes are left to PIL.
    """
    times = max(picture.shape[:2]) // longest
    if picture.dtype.kind != "f" or times < 2:
        return picture
    height, width = (max(side // times, 1) * times for side in picture.shape[:2])
    step = [min(times, side) for side in picture.shape[:2]]
    rows = reduce(np.add, [picture[at : height : step[0], :width] for at in range(step[0])])
    return reduce(np.add, [rows[:, at :: step[1]] for at in range(step[1])]) / np.float32(step[0] * step[1])


def raised(values: Array, side: int | None) -> Array:
    """A flat vector as the square picture that it is; anything else as it is, complex numbers by their size."""
    if values.dtype.kind == "c":
        values = np.abs(values)
    if side is None:
        return values
    flat = values.reshape(-1)
    return flat.reshape(side, side) if flat.size == side * side else flat.reshape(3, side, side)


def has_sides(values: Array) -> bool:
    """Whether an array has two axes along which there is something to see."""
    shape = sorted(squeezed(values).shape) if values.ndim > 1 else []
    return len(shape) > 1 and shape[-2] >= LEAST_SIDE


def flat_side(arrays: Sequence[Array], hints: Hints) -> int | None:
    """The side of the square pictures that flat vectors are, where neighbors below each other are nearly alike."""
    size = arrays[0].size
    flat = all(one.size == size and one.ndim and max(one.shape) == size for one in arrays)
    side = isqrt(size)
    if side * side != size:
        side = isqrt(size // 3)
    if not flat or not unnamed(hints.columns) or side < 8 or size not in (side * side, 3 * side * side):
        return None
    pictures = np.stack([raised(one, side).astype(np.float64).reshape(-1, side, side)[0] for one in arrays])
    below, beside = nearness(pictures, 1), nearness(pictures, 2)
    half = nearness(pictures.reshape(len(pictures), -1), 1, side // 2)
    alike = below + beside < 2 * PLAUSIBLE and max(below, beside) < 0.95
    return side if alike and below < 0.95 * half else None  # in a mere series half a row apart is nearer still


def unnamed(names: Sequence[str] | None) -> bool:
    """Whether columns have no names that mean anything: none at all, or numbered ones such as pixel12."""
    return names is None or len({re.sub(r"\d+", "", one) for one in names}) == 1
