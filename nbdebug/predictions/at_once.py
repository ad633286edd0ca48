"""Batches of tensors, read in one go each instead of sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset, TensorDataset, default_collate

Gather = Callable[[Any], list[Tensor]]


class AtOnce:
    """The batches that a loader gives of a TensorDataset, without a call of the data set for each sample."""

    def __init__(self, loader: DataLoader[Any], gather: Gather) -> None:
        self.loader, self.gather, self.dataset = loader, gather, loader.dataset

    def __iter__(self) -> Iterator[Any]:
        """A batch for each list of places that the loader's sampler gives."""
        assert self.loader.batch_sampler is not None
        for chosen in self.loader.batch_sampler:
            places = as_places(chosen)
            yield self.collated(chosen) if places is None else self.gather(places)

    def collated(self, chosen: Sequence[Any]) -> Any:
        """A batch as the loader itself makes it, for what is no list of places."""
        return self.loader.collate_fn([self.dataset[place] for place in chosen])


def at_once(loader: DataLoader[Any]) -> AtOnce | None:
    """A reader of the same batches; None for a loader that does anything else than to stack samples of tensors."""
    plain = loader.num_workers == 0 and not loader.pin_memory and loader.collate_fn is default_collate
    if not plain or loader.batch_sampler is None or type(loader)._get_iterator is not DataLoader._get_iterator:
        return None
    gather = gathering(loader.dataset)
    return gather and AtOnce(loader, gather)


def gathering(dataset: Any) -> Gather | None:
    """What gives the samples at some places, stacked; None for all but TensorDataset and subsets of one."""
    if type(dataset) is Subset and (inner := gathering(dataset.dataset)):
        places = as_places(dataset.indices)
        return None if places is None else lambda index: inner(places[index])
    if type(dataset) is TensorDataset and all(type(t) is Tensor and t.layout == torch.strided for t in dataset.tensors):
        return lambda index: [one[index] for one in dataset.tensors]
    return None


def as_places(chosen: Any) -> Tensor | None:
    """The numbers of some samples; None for what else may choose them."""
    try:
        places = torch.as_tensor(chosen)
    except (TypeError, ValueError, RuntimeError):
        return None
    return places if places.dtype == torch.int64 and places.dim() == 1 else None
