"""Sample a loader, at random if its dataset can be indexed."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2s
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.inference.inputs import (
    ModelInputs,
    as_inputs,
    batch_leaves,
    concatenate_batches,
    has_row_per_sample,
    sample_shapes,
)
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import collate_samples, get_visited_indices, is_map_style, make_peekable, peek_batches

_DEFAULT_SAMPLES, _MIN_SAMPLES, _MAX_VALUES = (
    500,
    32,
    2**21,
)  # default samples, minimum samples, and maximum input values
_MAX_BATCHES = 100_000
_BACKGROUND_SAMPLES = 100  # background samples taken from the training loader


@dataclass(frozen=True)
class SampledBatch:
    """Samples in random order if their dataset indices (``keys``) are known, else the first ones."""

    batch: Batch
    keys: NDArray[np.int64] | None
    is_complete: bool

    def __len__(self) -> int:
        return self.batch.size

    @cached_property
    def inputs(self) -> ModelInputs:
        """The inputs of the samples."""
        return ModelInputs.of(self.batch)

    def take(self, rows: list[int]) -> SampledBatch:
        """Select samples."""
        keys = None if self.keys is None else self.keys[rows]
        return SampledBatch(replace(self.batch, raw=None, indices=None).take_samples(rows), keys, False)


def sample_loader(setup: Setup, loader: Any, samples: int | None, name: str = "loader") -> SampledBatch:
    """Return samples, by default 500, or fewer for large inputs; raise SetupError for an empty loader."""
    order = _dataset_indices(loader)
    if order is not None and len(order):
        random.Random(0).shuffle(order)
        limit = samples or _default_sample_count(setup.split_batch(collate_samples(loader, order[:1])))
        indices = order[:limit]
        batch = setup.split_batch(collate_samples(loader, indices))
        return SampledBatch(replace(batch, raw=None), np.array(indices, np.int64), len(indices) == len(order))
    return _take_first_samples(setup, loader, samples, name)


def _dataset_indices(loader: Any) -> list[int] | None:
    """Return the dataset indices that a loader visits; None if samples cannot be read by index."""
    if not is_map_style(loader) or loader.batch_sampler is None:
        return None
    try:
        return list(get_visited_indices(loader))
    except NotChecked:
        return None


def _take_first_samples(setup: Setup, loader: Any, samples: int | None, name: str) -> SampledBatch:
    """Return the first samples, of batches with the same format."""
    collected: list[Batch] = []
    row_count, is_complete = 0, False
    for raw, _ in peek_batches(make_peekable(loader, name), _MAX_BATCHES, name):
        split_batch = replace(setup.split_batch(raw), raw=None, indices=None)
        as_inputs(split_batch, setup.eager_model, f"a batch of {name}")
        if collected and sample_shapes(split_batch) != sample_shapes(collected[0]):
            continue
        collected.append(split_batch)
        row_count, limit = row_count + split_batch.size, samples or _default_sample_count(collected[0])
        if row_count >= limit:
            break
    else:
        is_complete = True
    sampled = SampledBatch(concatenate_batches(collected), None, is_complete)
    return sampled if len(sampled) <= limit else sampled.take(list(range(limit)))


def _default_sample_count(batch: Batch) -> int:
    """Return the default number of samples."""
    return int(min(_DEFAULT_SAMPLES, max(_MIN_SAMPLES, _MAX_VALUES // max(ModelInputs.of(batch).values_per_sample, 1))))


def drop_non_finite(sampled: SampledBatch) -> tuple[SampledBatch, str]:
    """Drop samples with NaN or Inf, and return a note; raise SetupError if none is left."""
    size = len(sampled)
    is_finite = np.ones(size, bool)
    for leaf in batch_leaves(sampled.batch):
        if has_row_per_sample(leaf, size) and leaf.is_floating_point():
            is_finite &= torch.isfinite(leaf.reshape(size, -1)).all(1).cpu().numpy()
    if is_finite.all():
        return sampled, ""
    if not is_finite.any():
        raise SetupError(f"inputs or targets of all {size} samples contain NaN or Inf; expected numbers. Fill them.")
    dropped = size - int(is_finite.sum())
    return sampled.take(
        np.flatnonzero(is_finite).tolist()
    ), f"{dropped} of {size} samples contain NaN or Inf and are left out"


def hash_inputs(inputs: ModelInputs) -> str:
    """Return a hash that identifies a background."""
    digest = blake2s(digest_size=8)
    for _, tensor in inputs.named_tensors:
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()


def first_training_samples(setup: Setup, limit: int = _BACKGROUND_SAMPLES) -> ModelInputs | None:
    """Return the inputs of the first training samples, without consuming the loader; None if there are none."""
    batches: list[Batch] = []
    sample_count = 0
    with Preserve(*setup.mutable_objects, loaders=(setup.train_loader,)):
        for batch in setup.batches(limit, "train"):
            inputs = ModelInputs.of(batch)
            samples = inputs.take(torch.arange(min(inputs.size, limit - sample_count)))
            if batches and sample_shapes(samples.batch) != sample_shapes(batches[0]):
                continue
            batches.append(samples.batch)
            sample_count += samples.size
            if sample_count >= limit:
                break
    return ModelInputs.of(concatenate_batches(batches)) if batches else None
