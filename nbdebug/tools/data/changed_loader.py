"""Batches of the training data without some samples, or with other labels for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, SequentialSampler

from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import is_map_style


def check_loader(loader: Any) -> None:
    """Raise SetupError for a loader whose samples cannot be read by index in random or sequential order."""
    if not is_map_style(loader) or loader.batch_sampler is None:
        raise SetupError(
            "train_loader has no samples with an index; expected a map-style dataset in batches. Use a DataLoader."
        )
    samplers = type(loader.batch_sampler), type(loader.sampler)
    if samplers[0] is not BatchSampler or samplers[1] not in (RandomSampler, SequentialSampler):
        name = samplers[1].__name__ if samplers[0] is BatchSampler else samplers[0].__name__
        raise SetupError(
            f"train_loader has a {name}; expected random or sequential order, since its weights would no longer fit. "
            "Use shuffle=True."
        )


class ChangedBatches(Iterator[Batch]):
    """An endless stream of the batches of a loader without the ``removed`` samples, and with ``labels`` for some.

    The order is that of the loader: random with ``seed``, or sequential. Raises SetupError if the labels cannot be
    replaced, because the target is not one class for each sample.
    """

    def __init__(self, setup: Setup, removed: frozenset[int], labels: Mapping[int, int], seed: int) -> None:
        self.setup, self.labels = setup, labels
        loader: DataLoader[Any] = setup.train_loader
        self.loader = loader
        self.kept = [index for index in range(len(loader.dataset)) if index not in removed]  # type: ignore[arg-type]
        self.generator = torch.Generator().manual_seed(seed)
        self.batches = self._iterate()

    def __next__(self) -> Batch:
        return next(self.batches)

    def _iterate(self) -> Iterator[Batch]:
        size = self.loader.batch_size or 1
        while True:
            order = self._order()
            starts = range(0, len(order), size)
            whole = [order[start : start + size] for start in starts if start + size <= len(order)]
            rest = order[len(whole) * size :]
            # A batch of one sample cannot be normalized.
            for indices in [*whole, *([rest] if len(rest) > 1 and not (self.loader.drop_last and whole) else [])]:
                yield self._read(indices)

    def _order(self) -> list[int]:
        if isinstance(self.loader.sampler, SequentialSampler):
            return self.kept
        return [self.kept[row] for row in torch.randperm(len(self.kept), generator=self.generator).tolist()]

    def _read(self, indices: Sequence[int]) -> Batch:
        raw = self.loader.collate_fn([self.loader.dataset[index] for index in indices])
        batch = self.setup.split_batch(raw, tuple(indices))
        changed = {row: self.labels[index] for row, index in enumerate(indices) if index in self.labels}
        return _relabel(batch, changed) if changed else batch


def _relabel(batch: Batch, labels: Mapping[int, int]) -> Batch:
    """Return a batch with other classes for some of its rows."""
    target = batch.target
    if not isinstance(target, Tensor) or target.numel() != batch.size:
        raise SetupError("the target is not one class for each sample; expected one. Use action='remove'.")
    flat = target.detach().clone().reshape(-1)
    flat[list(labels)] = torch.tensor(list(labels.values()), dtype=flat.dtype, device=flat.device)
    return replace(batch, targets=(flat.reshape(target.shape),))
