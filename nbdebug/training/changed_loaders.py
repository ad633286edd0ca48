"""Loaders made of the user's: another batch size, order or dataset, without some samples, or with other labels."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler, Subset

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.setup.loaders import is_map_style
from nbdebug.tensors.pytree import tree_map


def rebuild_loader(loader: DataLoader[Any], **options: Any) -> DataLoader[Any]:
    """Return a loader of the same samples and batches with other options, which reads in this process.

    The order is that of the loader, unless ``shuffle`` or ``sampler`` is among the options.
    """
    kept = {
        "dataset": loader.dataset,
        "batch_size": loader.batch_size,
        "collate_fn": loader.collate_fn,
        "drop_last": loader.drop_last,
        "generator": torch.Generator() if loader.generator is not None else None,
    }
    is_random = isinstance(loader.sampler, RandomSampler)
    same_order = {"shuffle": True} if is_random else {"sampler": loader.sampler}
    order: dict[str, Any] = {} if {"shuffle", "sampler"} & set(options) else same_order
    return DataLoader(**{**kept, **order, **options})


def check_order(loader: Any) -> None:
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


def keep_samples(loader: DataLoader[Any], indices: Sequence[int], **options: Any) -> DataLoader[Any]:
    """Return a loader of the samples at ``indices`` only, in random order unless that of the loader is sequential."""
    shuffle = not isinstance(loader.sampler, SequentialSampler)
    return rebuild_loader(loader, **{"dataset": Subset(loader.dataset, list(indices)), "shuffle": shuffle, **options})


def remove_samples(loader: DataLoader[Any], removed: Collection[int]) -> DataLoader[Any]:
    """Return a loader without the samples at the indices ``removed``."""
    return keep_samples(loader, [index for index in range(len(loader.dataset)) if index not in removed])  # type: ignore[arg-type]


def relabel_samples(setup: Setup, labels: Mapping[int, int]) -> DataLoader[Any]:
    """Return the training loader with other classes for the samples at some indices.

    It raises SetupError when it yields a batch whose target is not one class per sample, or is no part of the batch.
    """
    loader: DataLoader[Any] = setup.train_loader
    collate: Callable[[Any], Any] = loader.collate_fn

    def collate_relabeled(pairs: Sequence[tuple[int, Any]]) -> Any:
        raw = collate([sample for _, sample in pairs])
        rows = {row: labels[index] for row, (index, _) in enumerate(pairs) if index in labels}
        return _relabel(setup, raw, rows) if rows else raw

    return rebuild_loader(loader, dataset=_IndexedDataset(loader.dataset), collate_fn=collate_relabeled)


class _IndexedDataset(Dataset[Any]):
    """The samples of a dataset, each after its index."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __getitem__(self, index: int) -> tuple[int, Any]:
        return index, self.dataset[index]

    def __len__(self) -> int:
        return len(self.dataset)


def _relabel(setup: Setup, raw: Any, labels: Mapping[int, int]) -> Any:
    """Return a raw batch with other classes for some of its rows."""
    batch = setup.split_batch(raw)
    target = batch.target.cpu() if isinstance(batch.target, Tensor) else torch.zeros(0)
    changed: list[Tensor] = []

    def change(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor) or leaf.shape != target.shape or not bool((leaf.cpu() == target).all()):
            return leaf
        flat = leaf.clone().reshape(-1)
        flat[list(labels)] = torch.tensor(list(labels.values()), dtype=flat.dtype, device=flat.device)
        changed.append(flat.reshape(leaf.shape))
        return changed[-1]

    relabeled = tree_map(raw, change) if target.numel() == batch.size else raw
    if not changed:
        raise SetupError("the target is not one class for each sample; expected one. Use action='remove'.")
    return relabeled
