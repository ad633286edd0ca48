"""How far an image and its target, such as a mask, move between two reads of the same sample."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, pairwise

import torch
from torch import Tensor

from nbdebug.measurements.transform_lines import moves

_MAX_SIDE, _MIN_OVERLAP = 256, 0.5
_MAX_PIXELS = 100_000  # in the compared pairs of a sample; a pair of 256 x 256 pixels takes about 0.3 s
_CLEAR_RATIO = 0.5  # the error at the best shift over that at the next; noise that is drawn again stays above it
_EXACT, _RELATED = 1e-6, 0.5  # unexplained variance
_MAX_LOCAL_RATIO = 2.0  # the error at the objects of the target over that elsewhere; above it, only these moved
_FOREGROUND = 0.1  # of the range of the target's values, away from its median
_MIN_DIFFERENT, _MIN_SHARE = 3, 0.25

Shift = tuple[int, int]
Pair = tuple[Tensor, Tensor]


def find_shifts(pairs: list[Pair]) -> Iterator[tuple[Shift, Shift]]:
    """Yield the shifts of image and target for each two consecutive reads of a sample between which they are known.

    The image is moved as a whole if no other shift explains nearly as much of it and if this one explains it as well
    where the target has objects as elsewhere: an object that moves over a constant background is no shift. The target
    takes the values of the other read after exactly one shift, and most of its objects are in both reads.
    """
    count = max(_MAX_PIXELS // max(pairs[0][0].shape[-2:].numel(), 1), 1)
    for first, second in islice(pairwise(pairs), count):
        if first[0].shape != second[0].shape or first[1].shape != second[1].shape or _is_large(first[0]):
            continue
        images = _plane(first[0]), _plane(second[0])
        targets = _plane(first[1]), _plane(second[1])
        objects = _foreground(targets[0]), _foreground(targets[1])
        of_target = _find_target_shift(targets, objects)
        of_image = _find_image_shift(images, objects) if of_target else None
        if of_target and of_image:
            yield of_image, of_target


def count_different(shifts: list[tuple[Shift, Shift]]) -> int:
    """Return in how many pairs of reads image and target move differently; 0 if these are few.

    A target in other, constant coordinates, such as those of a mirrored image, moves as these do.
    """
    different = min(
        sum(_in_coordinates(of_image, number) != of_target for of_image, of_target in shifts) for number in range(8)
    )
    return different if different >= max(_MIN_DIFFERENT, _MIN_SHARE * len(shifts)) else 0


def are_equal_reads(pairs: list[Pair]) -> bool:
    """Return whether all reads of a sample are the same, so that no shift needs to be searched for."""
    return all(
        first.shape == other.shape and torch.equal(first, other)
        for pair in pairs[1:]
        for first, other in zip(pairs[0], pair, strict=True)
    )


def are_views(pair: Pair) -> bool:
    """Return whether image and target are windows of the same picture, as the two views of a contrastive loss are."""
    if _is_large(pair[0]):
        return False
    return float(_unexplained(_plane(pair[0]), _plane(pair[1])).min()) < _RELATED


def _is_large(image: Tensor) -> bool:
    return max(image.shape[-2:]) > _MAX_SIDE


def _in_coordinates(shift: Shift, number: int) -> Shift:
    """Return a shift in the coordinates of one of the eight flips and rotations of a square."""
    rows, columns = shift if number < 4 else shift[::-1]
    return rows * (-1 if number & 1 else 1), columns * (-1 if number & 2 else 1)


def _plane(values: Tensor) -> Tensor:
    """Return one plane of height and width, in which the channels have different weights."""
    planes = values.reshape(-1, *values.shape[-2:])
    weights = torch.arange(1, len(planes) + 1, dtype=planes.dtype)
    return (planes * weights[:, None, None]).sum(0)


def _foreground(target: Tensor) -> Tensor:
    return (target - target.median()).abs() > _FOREGROUND * (target.max() - target.min())


def _find_target_shift(targets: Pair, objects: Pair) -> Shift | None:
    """Return the only shift after which the target is the same; None if most of its objects leave the read.

    A mirror image of a symmetric object may equal a shifted one: then neither is known.
    """
    errors = _unexplained(*targets)
    shift = _position(errors)
    parts = _overlap(*objects, shift)
    is_visible = all(part.sum() > _MIN_OVERLAP * whole.sum() for part, whole in zip(parts, objects, strict=True))
    is_only = int((errors < _EXACT).sum()) == 1 and min(_mirror_errors(*targets)) > _EXACT
    return shift if is_only and is_visible else None


def _find_image_shift(images: Pair, objects: Pair) -> Shift | None:
    """Return the shift that clearly explains the image best, also where the target has objects; else None."""
    errors = _unexplained(*images)
    best, next_best = errors.flatten().topk(2, largest=False).values.tolist()
    shift = _position(errors)
    if best >= _CLEAR_RATIO * next_best or best > min(_mirror_errors(*images)):
        return None
    first, second = (_standardized(part) for part in _overlap(*images, shift))
    of_first, of_second = _overlap(*objects, shift)
    inside, residuals = of_first | of_second, (first - second).square()
    if inside.all() or not inside.any():
        return None
    is_whole = residuals[inside].mean() <= _MAX_LOCAL_RATIO * residuals[~inside].mean() + _EXACT
    return shift if is_whole else None


def _mirror_errors(first: Tensor, second: Tensor) -> Iterator[float]:
    """Yield the share of the variance that each flip and rotation leaves unexplained."""
    first, second = _standardized(first), _standardized(second)
    for moved in [*moves(first)][1:]:
        yield 1 - max(float((moved * second).mean()), 0.0) ** 2


def _unexplained(first: Tensor, second: Tensor) -> Tensor:
    """Return the share of the variance that a shift leaves unexplained, for each shift of less than half of the size.

    At row and column zero of the result is the largest shift up and to the left. Where either part is constant in the
    overlap, all of it is unexplained. Offsets and factors of the values do not count.
    """
    size = (2 * first.shape[-2], 2 * first.shape[-1])
    first, second = _standardized(first), _standardized(second)
    mask = torch.ones_like(first)
    of_mask, of_first, of_second, of_first_square, of_second_square = (
        torch.fft.rfft2(part, s=size) for part in (mask, first, second, first.square(), second.square())
    )

    def sums(left: Tensor, right: Tensor) -> Tensor:
        moved: Tensor = torch.fft.fftshift(torch.fft.irfft2(left.conj() * right, s=size))
        for axis, side in enumerate(first.shape):
            moved = moved.narrow(axis, side - (side - 1) // 2, 2 * ((side - 1) // 2) + 1)
        return moved

    count = sums(of_mask, of_mask)
    means = sums(of_first, of_mask) / count, sums(of_mask, of_second) / count
    variances = (
        sums(of_first_square, of_mask) / count - means[0].square(),
        sums(of_mask, of_second_square) / count - means[1].square(),
    )
    covariance = sums(of_first, of_second) / count - means[0] * means[1]
    has_structure = (variances[0] > _EXACT) & (variances[1] > _EXACT) & (covariance > 0)
    explained = covariance.square() / (variances[0] * variances[1]).clamp(min=_EXACT**2)
    return torch.where(has_structure, 1 - explained, 1.0).clamp(min=0)


def _position(errors: Tensor) -> Shift:
    """Return the shift with the least error."""
    row, column = divmod(int(errors.argmin()), errors.shape[1])
    return row - errors.shape[0] // 2, column - errors.shape[1] // 2


def _overlap(first: Tensor, second: Tensor, shift: Shift) -> Pair:
    """Return what both show if the content of the first is moved by a shift."""
    for axis, distance in enumerate(shift):
        length = first.shape[axis] - abs(distance)
        first = first.narrow(axis, max(-distance, 0), length)
        second = second.narrow(axis, max(distance, 0), length)
    return first, second


def _standardized(values: Tensor) -> Tensor:
    centered = values - values.mean()
    return centered / centered.square().mean().sqrt().clamp(min=1e-12)
