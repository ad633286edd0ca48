"""Samples of a loader as one batch, at random where the data set can be read by index."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from hashlib import blake2s
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.attribution.given import as_batch, inputs_of
from nbdebug.attribution.rows import forms, joined, numbers_of, parts, per_sample
from nbdebug.evidence.samples import visited
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import batches, is_indexed, take, wrapped

SAMPLES, LEAST, VALUES = 500, 32, 2**21  # numbers of the input that are held at once, where nobody asks for more
MOST_BATCHES = 100_000


@dataclass(frozen=True)
class Drawn:
    """Samples in random order where ``keys``, their places in the data set, are known, else the first ones."""

    batch: Batch
    keys: NDArray[np.int64] | None
    whole: bool

    def __len__(self) -> int:
        return self.batch.size

    def take(self, rows: list[int]) -> Drawn:
        """Some of them."""
        keys = None if self.keys is None else self.keys[rows]
        return Drawn(replace(self.batch, raw=None, indices=None).take(rows), keys, False)


def draw(setup: Setup, loader: Any, samples: int | None, name: str = "loader") -> Drawn:
    """So many samples, by default 500 or fewer of large ones; raises SetupError for a loader that gives none."""
    order = places(loader)
    if order is not None and len(order):
        random.Random(0).shuffle(order)
        most = samples or usual(setup.split(take(loader, order[:1])))
        chosen = order[:most]
        batch = setup.split(take(loader, chosen))
        return Drawn(replace(batch, raw=None), np.array(chosen, np.int64), len(chosen) == len(order))
    return first(setup, loader, samples, name)


def places(loader: Any) -> list[int] | None:
    """The places in the data set that a loader goes through; None where they cannot be read one by one."""
    if not is_indexed(loader) or loader.batch_sampler is None:
        return None
    try:
        return list(visited(loader))
    except NotChecked:
        return None


def first(setup: Setup, loader: Any, samples: int | None, name: str) -> Drawn:
    """The first samples, of batches that are built alike."""
    found: list[Batch] = []
    rows, whole = 0, False
    for raw, _ in batches(wrapped(loader, name), MOST_BATCHES, name):
        one = replace(setup.split(raw), raw=None, indices=None)
        as_batch(one, setup.eager, f"a batch of {name}")
        if found and forms(one) != forms(found[0]):
            continue
        found.append(one)
        rows, most = rows + one.size, samples or usual(found[0])
        if rows >= most:
            break
    else:
        whole = True
    drawn = Drawn(joined(found), None, whole)
    return drawn if len(drawn) <= most else drawn.take(list(range(most)))


def usual(batch: Batch) -> int:
    """How many samples are taken where nobody says it."""
    return int(min(SAMPLES, max(LEAST, VALUES // max(numbers_of(batch), 1))))


def finite(drawn: Drawn) -> tuple[Drawn, str]:
    """The samples whose numbers are finite, and what was left out; raises SetupError where none is left."""
    size = len(drawn)
    good = np.ones(size, bool)
    for leaf in parts(drawn.batch):
        if per_sample(leaf, size) and leaf.is_floating_point():
            good &= torch.isfinite(leaf.reshape(size, -1)).all(1).cpu().numpy()
    if good.all():
        return drawn, ""
    if not good.any():
        raise SetupError(f"inputs or targets of all {size} samples hold NaN or Inf; expected numbers. Fill them.")
    left = size - int(good.sum())
    return drawn.take(np.flatnonzero(good).tolist()), f"{left} of {size} samples with NaN or Inf were left out"


def fingerprint(batch: Batch) -> str:
    """What tells one background from another."""
    found = blake2s(digest_size=8)
    for _, leaf in inputs_of(batch):
        if isinstance(leaf, Tensor):
            found.update(leaf.detach().cpu().contiguous().numpy().tobytes())
    return found.hexdigest()
