"""Reads batches and samples of a loader without consuming it."""

from __future__ import annotations

import dis
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from operator import index as as_index
from types import FunctionType
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    Subset,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
)

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.setup.time_limit import UserCodeTimeout, get_batch_seconds, sample_time_limit, time_limit
from nbdebug.setup.unpacking import collate_error
from nbdebug.validation import describe_type

MAX_SAMPLER_INDICES = 1_000_000
_WORKER_SECONDS = 0.5  # within which the system reports the end of a process
_IndexedBatch = tuple[Any, tuple[int, ...] | None]


class PeekableLoader:
    """A one-shot iterable some of whose batches were read ahead; iterates over those first, then over the rest."""

    def __init__(self, source: Iterable[Any]) -> None:
        self.source, self.epoch_sizes = source, list[int]()
        self.buffered_batches: list[Any] = []
        self.remaining = iter(source)

    def peek(self) -> Iterator[Any]:
        """Yield the next batches without consuming them."""
        for position in count():
            if position == len(self.buffered_batches):
                try:
                    self.buffered_batches.append(next(self.remaining))
                except StopIteration:
                    return
            yield self.buffered_batches[position]

    def __iter__(self) -> Iterator[Any]:
        """Yield every batch once: the buffered ones, then the rest; ``epoch_sizes`` counts those until the end."""
        size = 0
        while self.buffered_batches:
            size += 1
            yield self.buffered_batches.pop(0)
        for batch in self.remaining:
            size += 1
            yield batch
        self.epoch_sizes.append(size)


def _is_one_shot(loader: Any) -> bool:
    """Check whether reading a loader consumes it: an iterator, or an object or a stream dataset that holds one."""
    dataset = getattr(loader, "dataset", None)
    streams = [dataset] if isinstance(dataset, IterableDataset) else []
    if any(hasattr(source, "__next__") for source in (loader, *streams)):
        return True
    holders = streams if isinstance(loader, DataLoader) else [loader, *streams]  # a DataLoader renews its own
    return any(held_iterators(holder) for holder in holders)


def held_iterators(source: Any) -> list[str]:
    """Return the attributes that are iterators and that no method but ``__init__`` replaces, as a new epoch would."""
    names = [name for name, value in getattr(source, "__dict__", {}).items() if hasattr(type(value), "__next__")]
    return [name for name in names if name not in _stored_attributes(type(source))]


def _stored_attributes(owner: type) -> set[str]:
    """Return the names of the attributes that methods of a class store after its creation."""
    methods = [method for base in owner.__mro__ for name, method in vars(base).items() if name != "__init__"]
    instructions = (dis.get_instructions(method) for method in methods if isinstance(method, FunctionType))
    return {step.argval for steps in instructions for step in steps if step.opname == "STORE_ATTR"}


def is_uncollated(loader: Any) -> bool:
    """Check for a loader that passes on what its dataset returns, so that no axis is known to count samples."""
    return isinstance(loader, DataLoader) and loader.batch_sampler is None and loader.batch_size is None


def unwrap_loader(loader: Any) -> Any:
    """Return the DataLoader inside one that Accelerate has prepared, which has the same samples in the same order."""
    inner = getattr(loader, "base_dataloader", None)
    return inner if isinstance(inner, DataLoader) else loader


def make_peekable(loader: Any, name: str) -> Any:
    """Return the unwrapped loader, peekable if reading consumes it; raises SetupError if it is not iterable."""
    loader = unwrap_loader(loader)
    if loader is None or isinstance(loader, PeekableLoader):
        return loader
    is_dataset = isinstance(loader, Dataset) and not isinstance(loader, IterableDataset)
    if is_dataset or (not hasattr(loader, "__iter__") and not hasattr(loader, "__getitem__")):
        raise SetupError(
            f"{name} is {describe_type(loader)}; expected a DataLoader or any iterable of batches. "
            f"Pass torch.utils.data.DataLoader(dataset, batch_size=...)."
        )
    return PeekableLoader(loader) if _is_one_shot(loader) else loader


def is_shuffled(loader: Any) -> bool:
    """Check whether a loader draws its samples in random order, by the sampler of torch."""
    return isinstance(getattr(loader, "sampler", None), RandomSampler)


def is_map_style(loader: Any) -> bool:
    """Check whether batches can be created from the dataset by index, without the loader's workers."""
    return (
        isinstance(loader, DataLoader)
        and type(loader).__iter__ is DataLoader.__iter__
        and not isinstance(loader.dataset, IterableDataset)
    )


def peek_batches(loader: Any, limit: int, name: str) -> Iterator[tuple[Any, tuple[int, ...] | None]]:
    """Yield up to ``limit`` batches with their dataset indices, without consuming the loader.

    Raises SetupError that names the sample if the dataset raises, and if the loader is empty.
    """
    batch_number = 0
    try:
        batches = islice(_unconsumed_batches(loader), limit)
        while (indexed_batch := _next_batch(batches, is_map_style(loader))) is not None:
            yield indexed_batch
            batch_number += 1
    except (SetupError, GeneratorExit):
        raise
    except Exception as error:
        raise loader_error(name, batch_number, error) from error
    if not batch_number and limit:
        raise SetupError(
            f"{name} is empty; expected at least one batch. Check len(dataset), drop_last and the sampler."
        )


def loader_error(name: str, number: int, error: Exception) -> SetupError:
    """Return the error of a loader that failed in a batch, with the signal that killed a worker, if one did."""
    reason = _worker_failure(error)
    return SetupError(
        f"{name} raised {type(reason).__name__} in batch {number}: {str(reason).rstrip(' .')}; expected a batch. "
        f"Run next(iter({name})) to see it alone."
    )


def _worker_failure(error: Exception) -> Exception:
    """Return what torch says of a killed worker, in place of the broken connection that the worker leaves.

    torch raises it from a signal handler, at any place, and soon after the connection breaks. Waiting for it here also
    keeps it from interrupting the code that restores the user's objects.
    """
    if isinstance(error, (EOFError, ConnectionError)):
        try:
            time.sleep(_WORKER_SECONDS)
        except RuntimeError as failure:
            return failure
    return error


def _next_batch(batches: Iterator[_IndexedBatch], has_samples: bool) -> _IndexedBatch | None:
    """Return the next batch, None at the end; a stream can have a time limit for a batch, instead of for a sample."""
    seconds = None if has_samples else get_batch_seconds()
    if seconds is None:
        return next(batches, None)
    try:
        with time_limit(seconds):
            return next(batches, None)
    except UserCodeTimeout as error:
        raise SetupError(
            f"a batch of the loader is missing after {seconds:.3g} s: {error}; expected a batch. Raise seconds=, or "
            "read the stream without waiting."
        ) from error


def _unconsumed_batches(loader: Any) -> Iterator[_IndexedBatch]:
    """Yield batches from a buffer, by dataset index, or from a plain iterable, depending on the loader."""
    if isinstance(loader, PeekableLoader):
        yield from ((batch, None) for batch in loader.peek())
    elif is_map_style(loader):
        yield from _indexed_batches(loader)
    elif isinstance(loader, DataLoader) and type(loader).__iter__ is DataLoader.__iter__:
        worker_free_loader = DataLoader(
            loader.dataset, loader.batch_size, collate_fn=loader.collate_fn, drop_last=loader.drop_last
        )
        yield from ((batch, None) for batch in worker_free_loader)
    else:
        yield from ((batch, None) for batch in loader)


def _indexed_batches(loader: DataLoader[Any]) -> Iterator[tuple[Any, tuple[int, ...] | None]]:
    """Yield batches created by index in this process, in the order of the loader's own sampler."""
    sampler = loader.batch_sampler if loader.batch_sampler is not None else loader.sampler
    reads_tensors = reads_tensor_dataset(loader)
    for sampled_indices in sampler:
        indices = tuple(sampled_indices) if isinstance(sampled_indices, (list, tuple)) else (sampled_indices,)
        if reads_tensors:
            yield read_tensor_rows(loader.dataset, indices), indices
            continue
        samples = [read_sample(loader.dataset, index) for index in indices]
        yield loader.collate_fn(samples if loader.batch_sampler is not None else samples[0]), indices


def read_sample(dataset: Any, index: Any) -> Any:
    """Return a sample; raises SetupError that names it if the dataset raises or does not return in time."""
    try:
        with sample_time_limit():
            return dataset[index]
    except (Exception, UserCodeTimeout) as error:
        raise SetupError(
            f"sample {index} of the dataset raised {type(error).__name__}: {error}; expected a sample. "
            f"Run dataset[{index}] to reproduce it."
        ) from error


def collate_samples(loader: Any, indices: Iterable[int]) -> Any:
    """Return the samples at ``indices`` as a batch, collated by the loader's ``collate_fn``."""
    samples = [read_sample(loader.dataset, index) for index in indices]
    try:
        return loader.collate_fn(samples)
    except Exception as error:
        raise collate_error(samples, error) from error


def uses_default_batching(loader: Any) -> bool:
    """Return whether every dataset sample goes into batches exactly as stored."""
    return (
        type(loader) is DataLoader
        and loader.collate_fn is default_collate
        and type(loader.batch_sampler) is BatchSampler
        and type(loader.sampler) in (SequentialSampler, RandomSampler)
    )


def reads_tensor_dataset(loader: Any) -> bool:
    """Return whether a loader with torch's own batching reads a TensorDataset or a Subset of one."""
    dataset = getattr(loader, "dataset", None)
    return (
        uses_default_batching(loader)
        and type(dataset.dataset if isinstance(dataset, Subset) else dataset) is TensorDataset
    )


def read_tensor_rows(dataset: Any, indices: Sequence[int]) -> list[Tensor]:
    """Return rows of a TensorDataset, or of a Subset of one, at once, as default collation returns them."""
    return [rows.contiguous() for rows in dataset[list(indices)]]  # an index of a transposed tensor keeps its strides


class _TensorRows(Dataset[Any]):
    """The rows of a TensorDataset, which a loader reads a batch at a time."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __getitems__(self, indices: list[int]) -> list[Tensor]:
        return read_tensor_rows(self._dataset, indices)


def read_tensors_at_once(loader: Any) -> Any:
    """Return a loader of the same batches from the same random numbers that reads the rows of tensors at once.

    Return any other loader, and one with workers or pinned memory, as it is.
    """
    if not reads_tensor_dataset(loader) or loader.num_workers or loader.pin_memory:
        return loader
    rows, generator = _TensorRows(loader.dataset), loader.generator
    return DataLoader(rows, batch_sampler=loader.batch_sampler, collate_fn=_as_read, generator=generator)


def _as_read(batch: list[Tensor]) -> list[Tensor]:
    return batch


def find_ordering_sampler(loader: Any) -> Any:
    """Return the sampler that decides the order of a loader; None if it is the order of the dataset."""
    batch_sampler, sampler = getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)
    decisive = batch_sampler if batch_sampler is not None and type(batch_sampler) is not BatchSampler else sampler
    in_order = decisive is None or isinstance(decisive, SequentialSampler)
    return None if in_order or isinstance(loader.dataset, IterableDataset) else decisive


def get_visited_indices(loader: DataLoader[Any]) -> Sequence[int]:
    """Return the indices that a loader goes through, each once; raise NotChecked if they are not integers."""
    is_plain = type(loader.batch_sampler) is BatchSampler and type(loader.sampler) in (SequentialSampler, RandomSampler)
    if is_plain:
        return range(len(loader.dataset))  # type: ignore[arg-type]
    try:
        return list(dict.fromkeys(map(as_index, islice(iterate_sampler_indices(loader), MAX_SAMPLER_INDICES))))
    except TypeError as error:
        raise NotChecked(f"the sampler yields indices that are not integers: {error}") from error


def get_reachable_indices(loader: DataLoader[Any]) -> Sequence[int]:
    """Return the indices that a loader may draw, each once: those of one epoch, or all with a positive weight.

    What a weighted sampler draws in one epoch has other class frequencies than the dataset.
    """
    weights = torch.as_tensor(getattr(loader.sampler, "weights", ()))
    is_weighted = type(loader.sampler) is WeightedRandomSampler and type(loader.batch_sampler) is BatchSampler
    if is_weighted and len(weights) == dataset_length(loader):
        return [*map(int, weights.nonzero())]
    return get_visited_indices(loader)


def iterate_sampler_indices(loader: DataLoader[Any]) -> Iterator[Any]:
    """Yield every index from the samplers of a loader."""
    if loader.batch_sampler is None:
        yield from loader.sampler
        return
    for batch_indices in loader.batch_sampler:
        yield from batch_indices


def dataset_length(loader: Any) -> int | None:
    """Return the number of samples of a loader; None if unknown."""
    return _length(getattr(loader, "dataset", None))


def batch_count(loader: Any) -> int | None:
    """Return the number of batches of a loader; None if unknown, as over most iterable datasets."""
    return _length(loader)


def _length(sized: Any) -> int | None:
    """Return a length; None if it has none, or raises, as that of a stream may."""
    try:
        return len(sized)
    except (AttributeError, TypeError, NotImplementedError):
        return None


def epoch_batch_sizes(loader: Any) -> list[int]:
    """Return the batch sizes of a loader with torch's own sampler; an empty list if they are unknown."""
    if not isinstance(loader, DataLoader) or type(loader.batch_sampler) is not BatchSampler:
        return []
    try:
        rows, size = len(loader.sampler), loader.batch_sampler.batch_size  # type: ignore[arg-type]
    except TypeError:
        return []
    whole, rest = divmod(rows, size)
    return [size] * whole + ([rest] if rest and not loader.drop_last else [])
