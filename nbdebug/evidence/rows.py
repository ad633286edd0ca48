"""The data themselves, as far as they can be read in moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    default_collate,
)

from nbdebug.evidence.ledger import measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.trees import leaves
from nbdebug.setup.unpack import guess

if TYPE_CHECKING:
    from nbdebug.evidence.samples import Samples

MOST_VALUES = 100_000_000
CHUNK = 64


@dataclass(frozen=True)
class Rows:
    """Samples of one split: named input tensors and targets with the samples along their first axis.

    ``indices`` says which sample of the data set a row is; ``whole`` whether the split was read to its end.
    """

    split: str
    inputs: dict[str, Tensor]
    targets: tuple[Any, ...]
    indices: Sequence[int]
    whole: bool = False


@measurement
def rows(setup: Setup, samples: list[Samples], batches: list[Batch], val_batches: list[Batch]) -> list[Rows]:
    """Samples of both splits: all of a TensorDataset, else those read by index, else those of the first batches."""
    found: list[Rows] = []
    for split, loader, seen in (("train", setup.train_loader, batches), ("val", setup.val_loader, val_batches)):
        whole = whole_split(setup, split, loader.dataset) if is_plain(loader) else None
        read = next((from_samples(setup, one) for one in samples if one.split == split), [])
        found += [whole] if whole else read or [from_batch(split, batch) for batch in seen]
    return found


def is_plain(loader: Any) -> bool:
    """Whether every sample of the data set goes into batches exactly as it is stored."""
    return (
        type(loader) is DataLoader
        and loader.collate_fn is default_collate
        and type(loader.batch_sampler) is BatchSampler
        and type(loader.sampler) in (SequentialSampler, RandomSampler)
    )


def is_stored(loader: Any) -> bool:
    """Whether a loader reads from a TensorDataset, or from a Subset of one, in a way of torch's own."""
    dataset = getattr(loader, "dataset", None)
    return is_plain(loader) and type(dataset.dataset if isinstance(dataset, Subset) else dataset) is TensorDataset


def whole_split(setup: Setup, split: str, dataset: Any) -> Rows | None:
    """The rows of a TensorDataset (or a Subset of one) when no transform stands between it and the model."""
    indices = dataset.indices if isinstance(dataset, Subset) else None
    inner = dataset.dataset if isinstance(dataset, Subset) else dataset
    if type(inner) is not TensorDataset or setup.unpack is not None:
        return None
    if sum(t.numel() for t in inner.tensors) > MOST_VALUES:
        return None
    tensors = inner.tensors if indices is None else tuple(t[torch.as_tensor(indices)] for t in inner.tensors)
    batch = guess(tensors, setup.eager, setup.loss_fn)
    order = range(len(tensors[0])) if indices is None else list(indices)
    return Rows(split, named_inputs(batch), batch.targets, order, whole=True)


def from_samples(setup: Setup, samples: Samples) -> list[Rows]:
    """The samples that were read by index, collated as the loader does it; none where they do not fit together."""
    if samples.loader.batch_sampler is None:
        return []
    size, order = samples.loader.batch_size or CHUNK, sorted(samples.read)
    parts = [tuple(order[start : start + size]) for start in range(0, len(order), size)]
    try:
        raw = [(samples.loader.collate_fn([samples.read[index] for index in part]), part) for part in parts]
        found = [from_batch(samples.split, setup.split(batch, part)) for batch, part in raw]
    except Exception:
        return []
    return [replace(one, whole=samples.whole) for one in found]


def from_batch(split: str, batch: Batch) -> Rows:
    """The rows of one batch."""
    return Rows(split, named_inputs(batch), batch.targets, batch.indices or range(batch.size))


def named_inputs(batch: Batch) -> dict[str, Tensor]:
    """The input tensors by argument name or position."""
    found = {".".join(map(str, path)): leaf for path, leaf in leaves(batch.inputs)}
    return {name: leaf for name, leaf in found.items() if isinstance(leaf, Tensor) and leaf.dim()}
