"""Samples that were read several times with other random numbers, and whether these are variants of stored ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from nbdebug.tensors.pytree import tree_leaves

MIN_RELATED_SAMPLES = 16
_MIN_SIGMAS, _MIN_SPREAD = 4.0, 0.1
_NUMERIC = (Tensor, np.ndarray, np.generic, int, float)


@dataclass(frozen=True)
class ReadSample:
    """The real values of a sample, and its class, if any."""

    values: Tensor
    classes: tuple[int, ...]


def as_sample(sample: Any) -> ReadSample | None:
    """Return the real values and the classes of a sample; None if it has no real values."""
    parts, classes = list[Tensor](), list[int]()
    for array in sample_arrays(sample):
        if array.dtype.kind == "f" or array.dtype == np.uint8:
            parts.append(torch.from_numpy(array.astype(np.float64)).flatten())
        elif array.size == 1:
            classes.append(int(array.reshape(())))
    return ReadSample(torch.cat(parts), tuple(classes)) if parts else None


def sample_arrays(sample: Any) -> list[np.ndarray[Any, Any]]:
    """Return the numbers of a sample, with one array for each tensor, array, image or number."""
    leaves = [leaf for _, leaf in tree_leaves(sample) if isinstance(leaf, _NUMERIC) or _is_picture(leaf)]
    return [array for leaf in leaves if (array := np.asarray(leaf)).dtype.kind in "fiub"]


def _is_picture(leaf: Any) -> bool:
    return hasattr(leaf, "__array_interface__")


def are_variants(pair: tuple[ReadSample, ReadSample]) -> bool:
    """Check whether two reads may be those of one sample, with other values."""
    first, second = pair
    is_comparable = first.classes == second.classes and first.values.shape == second.values.shape
    return is_comparable and not torch.equal(first.values, second.values)


def are_related(readings: Sequence[Sequence[ReadSample]]) -> bool:
    """Check whether the samples of an index are closer to each other than to those of the same class.

    The readings are divided into halves. The mean of a sample over several readings blurs what its augmentation moves.
    """
    classes = [sample.classes for sample in readings[0]]
    if len({sample.values.shape for sample in readings[0]}) > 1:
        return False
    values = torch.stack([torch.stack([sample.values for sample in samples]) for samples in readings])
    distances = torch.cdist(values[::2].mean(0), values[1::2].mean(0))
    peers = torch.tensor([[one == other for other in classes] for one in classes]).fill_diagonal_(False)
    is_closer = (distances.diag()[:, None] < distances) & peers
    has_peers = peers.any(1)
    shares = (is_closer.sum(1) / peers.sum(1).clamp(min=1))[has_peers].double()
    if len(shares) < MIN_RELATED_SAMPLES:
        return False
    error = max(float(shares.std()), _MIN_SPREAD) / len(shares) ** 0.5
    return bool(float(shares.mean()) - 0.5 > _MIN_SIGMAS * error)
