"""A fingerprint of a dataset that does not depend on the order of its samples."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from torch.utils.data import DataLoader, IterableDataset

from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import PeekableLoader
from nbdebug.tensors.hashing import hash_value
from nbdebug.tensors.pytree import describe_tensors

_MODULUS = 2**64
_SEED = 0
_CHECKED = 4  # samples that are read twice, to see whether they are the same each time


@dataclass(frozen=True)
class _DataFingerprint:
    """The sum of the hashes of the samples that were read, their number, and that of all samples, if it is known.

    Another order gives the same sum if all samples were read; a part of a large set is taken at equal distances.
    ``is_stable`` is False if a sample differs when it is read again with equal seeds.
    """

    digest: str
    read: int
    samples: int | None
    structure: str
    is_stable: bool

    @property
    def text(self) -> str:
        """The fingerprint in one line."""
        share = (
            "all" if self.read == self.samples else f"{self.read:,} of {self.samples if self.samples else 'unknown'}"
        )
        return f"{self.digest} ({share} samples, {self.structure})" if self.is_stable else f"changes ({self.structure})"


def fingerprint_data(source: Any, limit: int, seconds: float) -> _DataFingerprint:
    """Return the fingerprint of a loader or a dataset from up to ``limit`` samples; its state is restored.

    Each sample is read with equal seeds, so that an augmentation with global generators does not change it.
    """
    dataset = source.dataset if isinstance(source, DataLoader) else source
    with Preserve(loaders=(source,)):
        if (
            isinstance(dataset, IterableDataset)
            or not hasattr(dataset, "__getitem__")
            or not hasattr(dataset, "__len__")
        ):
            batches = source.peek() if isinstance(source, PeekableLoader) else source
            return _fingerprint(islice(_with_seeds(batches), limit), None, seconds, True)
        count = len(dataset)
        indices = range(count) if count <= limit else [number * count // limit for number in range(limit)]
        is_stable = all(_read(dataset, index) == _read(dataset, index) for index in list(indices)[:_CHECKED])
        samples = (_seeded(dataset, index) for index in indices)
        return _fingerprint(samples, count, seconds, is_stable)


def _fingerprint(samples: Iterable[Any], count: int | None, seconds: float, is_stable: bool) -> _DataFingerprint:
    total, read, structure, started = 0, 0, "", time.perf_counter()
    for sample in samples:
        total = (total + hash_value(sample)) % _MODULUS
        structure = structure or describe_tensors(sample)
        read += 1
        if time.perf_counter() - started > seconds:
            break
    return _DataFingerprint(f"{total:016x}", read, count, structure, is_stable)


def _seeded(dataset: Any, index: int) -> Any:
    seed_all(_SEED)
    return dataset[index]


def _read(dataset: Any, index: int) -> int:
    return hash_value(_seeded(dataset, index))


def _with_seeds(batches: Iterable[Any]) -> Iterator[Any]:
    seed_all(_SEED)
    yield from batches
