"""What a loader does with its samples: their order, the batches, the workers, and the weights of the sampler."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, WeightedRandomSampler

from nbdebug.formatting import join_names
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.setup.class_names import class_name
from nbdebug.setup.loaders import dataset_length, epoch_batch_sizes, find_ordering_sampler, unwrap_loader

_MIN_ORDERED = 20
_Shares = dict[int, float]


@dataclass(frozen=True)
class LoaderFacts:
    """The facts of the loader of a split, each with its name."""

    split: str
    facts: tuple[tuple[str, str], ...]

    def to_text(self) -> str:
        """Return all facts in one line."""
        return "; ".join(f"{name} {text}" for name, text in self.facts)


def describe_loader(split: str, loader: Any, table: SplitTable | None, class_names: Sequence[str]) -> LoaderFacts:
    """Return the facts of a loader; ``table`` holds its samples that were read, for the classes."""
    loader = unwrap_loader(loader)
    if not isinstance(loader, DataLoader):
        return LoaderFacts(split, (("loader", type(loader).__name__),))
    return LoaderFacts(split, tuple(_facts(loader, table, class_names)))


def _facts(loader: DataLoader[Any], table: SplitTable | None, names: Sequence[str]) -> Iterator[tuple[str, str]]:
    yield "order", _describe_order(loader)
    labels = None if table is None else table.labels
    if table is not None and labels is not None and find_ordering_sampler(loader) is None:
        order = np.arange(len(table)) if isinstance(loader.dataset, IterableDataset) else np.asarray(table.indices)
        sortedness = _measure_class_order(labels[torch.as_tensor(np.argsort(order, kind="stable"))])
        if sortedness is not None:
            yield "order by class", f"{sortedness:.0%} (0% if shuffled, 100% if sorted)"
    yield from _batch_facts(loader)
    yield from _worker_facts(loader)
    sampler = loader.sampler
    if isinstance(sampler, WeightedRandomSampler):
        replacement = "with" if sampler.replacement else "without"
        yield "weighted sampler", f"{sampler.num_samples:,} draws {replacement} replacement"
        if table is not None and labels is not None and (shares := _drawn_shares(sampler, table.indices, labels)):
            texts = [f"{class_name(names, label)} {share:.1%}" for label, share in shares.items()]
            yield "drawn classes", join_names(texts, 10)


def _describe_order(loader: DataLoader[Any]) -> str:
    """Return what decides the order of the samples."""
    sampler = find_ordering_sampler(loader)
    if isinstance(loader.dataset, IterableDataset):
        return "that of the stream"
    if sampler is None:
        return "that of the dataset"
    if type(sampler) is RandomSampler:
        return "shuffled, with replacement" if sampler.replacement else "shuffled"
    return f"that of {type(sampler).__name__}"


def _batch_facts(loader: DataLoader[Any]) -> Iterator[tuple[str, str]]:
    """Yield the size of the batches, and what becomes of an incomplete last one."""
    if loader.batch_sampler is None:
        yield "batch size", "that of the dataset, which returns whole batches"
        return
    if loader.batch_size is None:
        yield "batch size", f"that of {type(loader.batch_sampler).__name__}"
        return
    yield "batch size", f"{loader.batch_size:,}"
    yield "drop_last", str(bool(loader.drop_last))
    sizes = epoch_batch_sizes(loader)
    if sizes or type(loader.batch_sampler) is BatchSampler:
        drawn = getattr(loader.sampler, "num_samples", None)
        total = drawn if isinstance(drawn, int) else dataset_length(loader)
        left_out = (total or 0) - sum(sizes) if loader.drop_last else 0
        dropped = (
            f", and {left_out:,} {'samples are' if left_out > 1 else 'sample is'} left out" if left_out > 0 else ""
        )
        last = f"the last of {sizes[-1]:,}" if sizes else "none is complete"
        yield "batches", f"{len(sizes):,}, {last}{dropped}"


def _worker_facts(loader: DataLoader[Any]) -> Iterator[tuple[str, str]]:
    """Yield the number of worker processes, and what seeds them."""
    yield "workers", f"{loader.num_workers:,}"
    if loader.num_workers:
        function, generator = loader.worker_init_fn, loader.generator
        source = "the global generator" if generator is None else f"its generator (seed {generator.initial_seed()})"
        name = getattr(function, "__name__", type(function).__name__)
        yield "worker seeds", f"from {source}" + ("" if function is None else f", and by {name}()")


def _measure_class_order(labels: Tensor) -> float | None:
    """Return how much more often neighbors have the same class than in a random order, from 0 to 1; None for few."""
    if len(labels) < _MIN_ORDERED:
        return None
    shares = np.unique(labels.numpy(), return_counts=True)[1] / len(labels)
    by_chance = float((shares**2).sum())
    if by_chance == 1:
        return None
    same = float((labels[1:] == labels[:-1]).float().mean())
    most = 1 - (len(shares) - 1) / (len(labels) - 1)  # of sorted classes
    return min(max((same - by_chance) / max(most - by_chance, 1e-12), 0.0), 1.0)


def _drawn_shares(sampler: WeightedRandomSampler, indices: Sequence[int], labels: Tensor) -> _Shares:
    """Return the expected share of each class among the draws, from the samples that were read.

    The samples read are random ones of those that one epoch draws, so that each counts by the inverse probability that
    an epoch draws it at least once. Draws without replacement are shared as the samples are.
    """
    weights, rows = np.asarray(torch.as_tensor(sampler.weights), np.float64), np.asarray(indices)
    if not len(rows) or rows.max() >= len(weights) or weights.sum() <= 0:
        return {}
    counts: NDArray[np.float64] = np.ones(len(rows))
    if sampler.replacement:
        chances = weights[rows] / weights.sum()
        is_drawn = -np.expm1(sampler.num_samples * np.log1p(-np.minimum(chances, 1 - 1e-12)))
        counts = np.divide(chances, is_drawn, out=np.zeros(len(rows)), where=is_drawn > 0)
    classes = labels.numpy()
    return {int(label): float(counts[classes == label].sum() / counts.sum()) for label in np.unique(classes)}
