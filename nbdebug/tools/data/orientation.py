"""Recognizes images of one split that are turned against those of the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_Floats = NDArray[np.float64]
_MIN_ROWS, _MAX_ROWS, _MIN_SIDE, _MIN_GROUP = 30, 2_000, 4, 10
# Squared standard errors of the mean image, on average over its pixels.
_IMAGES_DIFFER, _IMAGES_AGREE = 10.0, 3.0
# Significance at which the lines of two splits have another direction, and at which they have the same one.
_LINES_DIFFER, _LINES_AGREE = 1e-5, 0.01
_TURNS: dict[str, Callable[[Tensor], Tensor]] = {
    "transposed": lambda image: image.transpose(-1, -2),
    "flipped left to right": lambda image: image.flip(-1),
    "upside down": lambda image: image.flip(-2),
    "rotated by 180°": lambda image: image.flip(-1, -2),
    "rotated by 90° counterclockwise": lambda image: torch.rot90(image, 1, (-2, -1)),
    "rotated by 90° clockwise": lambda image: torch.rot90(image, 3, (-2, -1)),
}
_SWAPPING = ("transposed", "rotated by 90° counterclockwise", "rotated by 90° clockwise")


@dataclass(frozen=True)
class Orientation:
    """How the images of the second split are turned against those of the first; "" if they are not.

    ``recognizable`` are the turns that would be recognized if the images of the second split were turned so.
    """

    turn: str
    recognizable: tuple[str, ...]

    @property
    def text(self) -> str:
        """The turn as a difference of the preprocessing; "" for none."""
        return f"the images of {{second}} are {self.turn}" if self.turn else ""


@dataclass(frozen=True)
class _Images:
    """The mean image of a split with its squared standard error, and the direction of the lines of each image.

    ``directions`` are the logarithms of the variation along the rows over that along the columns, one array for each
    class.
    """

    mean: Tensor
    noise: Tensor
    directions: tuple[_Floats, ...]

    def turn(self, name: str) -> _Images:
        """Return what the images would have if they were turned."""
        function, sign = _TURNS[name], -1 if name in _SWAPPING else 1
        return _Images(function(self.mean), function(self.noise), tuple(sign * part for part in self.directions))


def compare_orientation(
    first: Tensor, second: Tensor, labels: tuple[Tensor | None, Tensor | None] = (None, None)
) -> Orientation | None:
    """Return how the images of the second split are turned; None for inputs other than square images.

    The mean images must differ by more than sampling noise as they are, and agree after the turn. Photographs have no
    mean image that tells, but the lines of a class can have a direction: then exchanged axes are recognized if the mean
    directions differ in some class, and agree in all of them after the exchange.
    """
    if first.dim() not in (3, 4) or first.shape[1:] != second.shape[1:] or not first.is_floating_point():
        return None
    if first.shape[-1] != first.shape[-2] or first.shape[-1] < _MIN_SIDE or min(len(first), len(second)) < _MIN_ROWS:
        return None
    images = [_to_gray(part[:_MAX_ROWS]) for part in (first, second)]
    if not all(bool(part.isfinite().all()) for part in images):
        return None
    directions = _group_by_class([_line_directions(part) for part in images], labels)
    sides = [_Images(part.mean(0), part.var(0) / len(part), own) for part, own in zip(images, directions, strict=True)]
    recognizable = [name for name in _TURNS if _find_turn(sides[0], sides[1].turn(name))]
    return Orientation(_find_turn(sides[0], sides[1]), tuple(recognizable))


def _to_gray(part: Tensor) -> Tensor:
    """Return the mean over the channels, if there are any."""
    return part.float().reshape(len(part), -1, *part.shape[-2:]).mean(1)


def _line_directions(images: Tensor) -> _Floats:
    """Return the logarithm of the variation along the rows over that along the columns; NaN if one is zero."""
    along = [images.diff(dim=axis).square().mean((1, 2)).double() for axis in (-1, -2)]
    directions = torch.log(along[0] / along[1]).numpy()
    return np.where(np.isfinite(directions), directions, np.nan)


def _group_by_class(values: Sequence[_Floats], labels: Sequence[Tensor | None]) -> list[tuple[_Floats, ...]]:
    """Return the finite values of both splits by class, of classes with ten in both; all together if there are none."""
    classes = [
        np.zeros(len(part)) if own is None else own[:_MAX_ROWS].numpy()
        for part, own in zip(values, labels, strict=True)
    ]
    for groups in (classes, [np.zeros(len(part)) for part in values]):
        pairs = [
            tuple(part[(own == number) & np.isfinite(part)] for part, own in zip(values, groups, strict=True))
            for number in np.intersect1d(*groups)
        ]
        large = [pair for pair in pairs if min(map(len, pair)) >= _MIN_GROUP]
        if large:
            return list(zip(*large, strict=True))
    return [(), ()]


def _find_turn(first: _Images, second: _Images) -> str:
    """Return the turn of the second images; "" for none."""
    if _image_distance(first, second) >= _IMAGES_DIFFER:
        distances = {name: _image_distance(first.turn(name), second) for name in _TURNS}
        best = min(distances, key=lambda name: distances[name])
        if distances[best] < _IMAGES_AGREE:
            return best
    swapped = first.turn("transposed")
    if _line_chance(first, second) < _LINES_DIFFER and _line_chance(swapped, second) > _LINES_AGREE:
        return "transposed or rotated by 90°"
    return ""


def _image_distance(first: _Images, second: _Images) -> float:
    noise = first.noise + second.noise
    varying = noise > 1e-6 * noise.max()
    return float(((first.mean - second.mean).square() / noise)[varying].mean()) if bool(varying.any()) else 0.0


def _line_chance(first: _Images, second: _Images) -> float:
    """Return the p-value of equal mean directions in all groups, by the chi-squared distribution."""
    from scipy.stats import chi2

    if not first.directions:
        return 1.0
    total = 0.0
    for one, other in zip(first.directions, second.directions, strict=True):
        deviations = np.concatenate([one - one.mean(), other - other.mean()])
        variance = deviations @ deviations / (len(deviations) - 2) * (1 / len(one) + 1 / len(other))
        total += (one.mean() - other.mean()) ** 2 / max(variance, 1e-30)
    return float(chi2.sf(total, len(first.directions)))
