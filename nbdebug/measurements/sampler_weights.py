"""The weights of a WeightedRandomSampler next to the classes of the samples."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, WeightedRandomSampler

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.random_batches import read_random_batches
from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import dataset_length, is_map_style

_MAX_ROWS, _MIN_ROWS, _MAX_VALUES, _SECONDS, _BATCH_SIZE = 5_000, 200, 25_000_000, 0.25, 64


@dataclass(frozen=True, eq=False)
class SamplerWeights:
    """All ``weights`` of the sampler of the training loader, for a dataset of ``samples``.

    ``labels`` are the classes of random samples of the dataset, whatever the sampler draws, and ``rows`` their indices;
    both are empty if there is no class for each sample.
    """

    weights: NDArray[np.float64]
    samples: int
    labels: NDArray[np.int64]
    rows: NDArray[np.int64]


@slow_measurement
def sampler_weights(setup: Setup) -> SamplerWeights:
    """The weights of the sampler of the training loader, and the classes of random samples, read for 0.25 s."""
    loader, samples = setup.train_loader, dataset_length(setup.train_loader)
    sampler = getattr(loader, "sampler", None)
    if not isinstance(sampler, WeightedRandomSampler) or samples is None or not is_map_style(loader):
        raise NotChecked("the training loader has no WeightedRandomSampler")
    weights = np.asarray(torch.as_tensor(sampler.weights), np.float64)
    plain = DataLoader(loader.dataset, loader.batch_size, shuffle=True, collate_fn=loader.collate_fn)
    batches = read_random_batches(
        replace(setup, train_loader=plain),
        "train",
        max_rows=_MAX_ROWS,
        batch_size=_BATCH_SIZE,
        max_values=_MAX_VALUES,
        limit=ReadingLimit(_SECONDS, _MIN_ROWS),
    )
    read = [(batch, classes) for batch in batches if (classes := _classes(batch)) is not None]
    labels = torch.cat([classes for _, classes in read]) if read else torch.zeros(0)
    rows = [index for batch, _ in read for index in batch.indices or ()]
    return SamplerWeights(weights, samples, labels.long().numpy(), np.array(rows, np.int64))


def _classes(batch: Batch) -> Tensor | None:
    """Return the class of each sample of a batch; None if it has another kind of targets, or no indices."""
    target = batch.target_or_label
    is_class = isinstance(target, Tensor) and target.numel() == batch.size and bool((target == target.round()).all())
    return target.detach().cpu().reshape(-1) if is_class and batch.indices else None
