"""Dataset index of every sample of a loader; fast reading of tensor datasets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset, default_collate

from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch, Setup
from nbdebug.setup.batch_splitter import BatchSplitter
from nbdebug.setup.loaders import PeekableLoader, loader_error
from nbdebug.setup.loaders import read_sample as sample

_Gather = Callable[[Any], list[Tensor]]
UNKNOWN_INDEX_CONSEQUENCE = (
    "so samples cannot be shown, tagged by index or made a subset. Pass index=, or a DataLoader of a dataset"
)
_IndexedBatches = Iterator[tuple[Batch, list[Any] | None]]


class _TensorBatchReader:
    """The batches of a loader over a TensorDataset, without a dataset call per sample."""

    def __init__(self, loader: DataLoader[Any], gather: _Gather) -> None:
        self.loader, self.gather, self.dataset = loader, gather, loader.dataset

    def __iter__(self) -> Iterator[Any]:
        assert self.loader.batch_sampler is not None
        for batch_indices in self.loader.batch_sampler:
            index_tensor = _as_index_tensor(batch_indices)
            yield self.collate(batch_indices) if index_tensor is None else self.gather(index_tensor)

    def collate(self, batch_indices: Sequence[Any]) -> Any:
        """Return a batch as the loader makes it, for items that are no list of indices."""
        return self.loader.collate_fn([self.dataset[index] for index in batch_indices])


def get_tensor_reader(loader: DataLoader[Any]) -> _TensorBatchReader | None:
    """Return a reader of the same batches; None for a loader that does more than stack samples of tensors."""
    is_plain = loader.num_workers == 0 and not loader.pin_memory and loader.collate_fn is default_collate
    if not is_plain or loader.batch_sampler is None or type(loader)._get_iterator is not DataLoader._get_iterator:
        return None
    gather = _get_gather_function(loader.dataset)
    return gather and _TensorBatchReader(loader, gather)


def _get_gather_function(dataset: Any) -> _Gather | None:
    """Return a function from indices to stacked samples; None except for TensorDataset and its subsets."""
    if type(dataset) is Subset and (gather_inner := _get_gather_function(dataset.dataset)):
        subset_indices = _as_index_tensor(dataset.indices)
        return None if subset_indices is None else lambda index: gather_inner(subset_indices[index])
    if type(dataset) is TensorDataset and all(type(t) is Tensor and t.layout == torch.strided for t in dataset.tensors):
        return lambda index: [tensor[index] for tensor in dataset.tensors]
    return None


def _as_index_tensor(batch_indices: Any) -> Tensor | None:
    """Return indices as a tensor; None for other selections."""
    try:
        indices = torch.as_tensor(batch_indices)
    except (TypeError, ValueError, RuntimeError):
        return None
    return indices if indices.dtype == torch.int64 and indices.dim() == 1 else None


def iterate_with_indices(setup: Setup, loader: Any) -> _IndexedBatches:
    """Yield the batches as the loader's own workers make them, with the dataset indices from its sampler."""
    split = BatchSplitter(setup)
    if why_indices_unknown(loader):
        yield from ((split(raw_batch), None) for raw_batch in _read_batches(loader, deque()))
        return
    with _SampleIndices(loader) as sample_indices:
        for raw_batch in _read_batches(get_tensor_reader(loader) or loader, sample_indices.pending):
            yield split(raw_batch), sample_indices.next()


def _read_batches(loader: Any, pending: deque[Any]) -> Iterator[Any]:
    """Yield the batches of a loader; if it raises, raise SetupError that names the sample or the batch.

    ``pending`` starts with the indices of the next batch, if known.
    """
    number = 0
    try:
        for raw_batch in loader:
            yield raw_batch
            number += 1
    except (SetupError, GeneratorExit):
        raise
    except Exception as error:
        for index in pending[0] if pending and isinstance(pending[0], list) else ():
            sample(loader.dataset, index)
        raise loader_error("loader", number, error) from error


def why_indices_unknown(loader: Any) -> str:
    """Return why the dataset indices of a loader are unknown; "" if they are known."""
    if isinstance(loader, PeekableLoader):
        return "the loader can be read only once"
    if not isinstance(loader, DataLoader):
        return f"a {type(loader).__name__} does not provide dataset indices"
    if isinstance(loader.dataset, IterableDataset):
        return "an iterable dataset has no indices"
    if type(loader).__iter__ is not DataLoader.__iter__:
        return f"{type(loader).__name__} overrides __iter__"
    if loader.num_workers and not getattr(loader, "in_order", True):
        return "in_order=False returns batches in the order in which workers finish them"
    return ""


class _SampleIndices:
    """A context that records the output of a loader's sampler until the batch arrives."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader, self.pending = loader, deque[Any]()
        self.name = "batch_sampler" if loader.batch_sampler is not None else "sampler"
        self.sampler: Any = getattr(loader, self.name)

    def __enter__(self) -> _SampleIndices:
        """Replace the sampler by a recording one; the loader forbids assignment, so its ``__dict__`` is changed."""
        vars(self.loader)[self.name] = _RecordingSampler(self.sampler, self.pending)
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the sampler."""
        vars(self.loader)[self.name] = self.sampler

    def next(self) -> list[Any] | None:
        """Return the indices of the next batch; None if the sampler returned a single item of unknown type."""
        batch_indices = self.pending.popleft()
        return batch_indices if isinstance(batch_indices, list) else None


class _RecordingSampler:
    """A sampler that records what it yields, and otherwise behaves as the user's own."""

    def __init__(self, sampler: Any, pending: deque[Any]) -> None:
        self.sampler, self.pending = sampler, pending

    def __iter__(self) -> Iterator[Any]:
        for batch_indices in self.sampler:
            self.pending.append(list(batch_indices) if hasattr(batch_indices, "__len__") else batch_indices)
            yield batch_indices

    def __len__(self) -> int:
        return len(self.sampler)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.sampler, name)
