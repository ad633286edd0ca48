"""What of a sample is taken away as one: each feature or token by itself, pictures and series by patches."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from nbdebug.attribution.parts import Part

GRID = 8  # patches along the longest side


def is_map(part: Part) -> bool:
    """Whether a part is pictures or series of real numbers."""
    return part.values.dim() >= 3 and part.values.is_floating_point()


def side_of(shape: Sequence[int]) -> int:
    """The side of a patch of a picture or series (channels, places …): an eighth of the longest one."""
    return max(1, -(-max(shape[1:]) // GRID))


def patches(shape: Sequence[int], size: int | None = None) -> Tensor:
    """The number of the patch that each place is in; channels, the first axis, are together."""
    side = size or side_of(shape)
    ids = torch.zeros(tuple(shape), dtype=torch.long)
    for axis, length in enumerate(shape[1:], 1):
        place = torch.arange(length) // side
        ids = ids * (-(-length // side)) + place.reshape(-1, *[1] * (len(shape) - axis - 1))
    return ids


def pieces_of(parts: Sequence[Part], size: int | None = None) -> tuple[list[Tensor], int]:
    """Which piece each number of a sample belongs to, a tensor a part, and how many pieces there are."""
    found: list[Tensor] = []
    count = 0
    for part in parts:
        shape = part.values.shape[1:]
        ids = patches(shape, size) if is_map(part) else torch.arange(shape.numel()).reshape(shape)
        found.append(ids + count)
        count += int(ids.max()) + 1
    return found, count
