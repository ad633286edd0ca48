"""Samples and rows of both splits, and their schema."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence
from torch.utils.data import DataLoader, Subset, TensorDataset

from nbdebug.measurements.reading_limit import ReadingLimit
from nbdebug.measurements.registry import measurement, slow_measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.batch import named_inputs
from nbdebug.setup.loaders import get_reachable_indices, is_map_style, reads_tensor_dataset, uses_default_batching
from nbdebug.setup.time_limit import UserCodeTimeout, sample_time_limit
from nbdebug.setup.unpacking import guess_batch
from nbdebug.tensors.pytree import tree_leaves, tree_tensors
from nbdebug.tensors.row_search import get_row_hashes

_MAX_STORED_VALUES = 60_000_000
_DEFAULT_BATCH_SIZE = 64
_MAX_SECONDS_PER_SPLIT, _MIN_SAMPLES_PER_SPLIT = 0.25, 128
_MAX_READ_VALUES = 25_000_000
_MAX_CLASSES = 1000


@dataclass(frozen=True)
class SplitRows:
    """Samples of one split: named input tensors and targets, with the samples along the first axis.

    ``indices`` are the dataset indices of the rows; ``is_complete`` is True if the split was read to its end.
    """

    split: str
    inputs: dict[str, Tensor]
    targets: tuple[Any, ...]
    indices: Sequence[int]
    is_complete: bool = False


def samples_title(split: str, is_complete: bool) -> str:
    """Return the name of the samples of a split, which says so if only some of them were read."""
    return f"{split} samples" + ("" if is_complete else " that were read")


@measurement
def rows(setup: Setup, samples: list[SplitSamples], batches: list[Batch], val_batches: list[Batch]) -> list[SplitRows]:
    """Samples of both splits: those of a TensorDataset, else those read by index, else the first batches.

    Of a TensorDataset with more than 60 million values, 25 million are read, in random rows.
    """
    result: list[SplitRows] = []
    for split, loader, split_batches in (
        ("train", setup.train_loader, batches),
        ("val", setup.val_loader, val_batches),
    ):
        dataset_rows = _read_tensor_dataset(setup, split, loader.dataset) if uses_default_batching(loader) else None
        sample_rows = next(
            (_collate_samples(setup, split_samples) for split_samples in samples if split_samples.split == split), []
        )
        result += (
            [dataset_rows]
            if dataset_rows
            else sample_rows or [_rows_from_batch(split, batch) for batch in split_batches]
        )
    return result


def _read_tensor_dataset(setup: Setup, split: str, dataset: Any) -> SplitRows | None:
    """Return the rows of a TensorDataset (or a Subset of one) if no transform stands between it and the model."""
    indices = dataset.indices if isinstance(dataset, Subset) else None
    inner = dataset.dataset if isinstance(dataset, Subset) else dataset
    if type(inner) is not TensorDataset or setup.unpack is not None:
        return None
    order: Sequence[int] = range(len(inner)) if indices is None else list(indices)
    values_per_row = max(sum(t.numel() for t in inner.tensors) // max(len(inner), 1), 1)
    is_complete = len(order) * values_per_row <= _MAX_STORED_VALUES
    if not is_complete:
        order = sorted(random.Random(0).sample(order, max(_MAX_READ_VALUES // values_per_row, 1)))
    is_whole = indices is None and is_complete
    tensors = inner.tensors if is_whole else tuple(t[torch.as_tensor(order)] for t in inner.tensors)
    batch = guess_batch(tensors, setup.eager_model, setup.loss_fn)
    return SplitRows(split, named_inputs(batch), batch.targets, order, is_complete)


def _collate_samples(setup: Setup, samples: SplitSamples) -> list[SplitRows]:
    """Collate the samples read by index as the loader does; empty if they cannot be collated."""
    if samples.loader.batch_sampler is None:
        return []
    size, order = samples.loader.batch_size or _DEFAULT_BATCH_SIZE, sorted(samples.by_index)
    chunks = [tuple(order[start : start + size]) for start in range(0, len(order), size)]
    try:
        raw = [
            (samples.loader.collate_fn([samples.by_index[index] for index in indices]), indices) for indices in chunks
        ]
        batches = [_rows_from_batch(samples.split, setup.split_batch(batch, indices)) for batch, indices in raw]
    except Exception:
        return []
    return [replace(rows, is_complete=samples.is_complete) for rows in batches]


def _rows_from_batch(split: str, batch: Batch) -> SplitRows:
    """Return the samples of a batch; labels that the model takes by name, for its own loss, are targets."""
    args, kwargs = batch.unlabeled_inputs
    inputs = named_inputs(replace(batch, args=args, kwargs=kwargs) if args or kwargs else batch)
    labels = () if batch.target_or_label is None else (batch.target_or_label,)
    return SplitRows(split, inputs, batch.targets or labels, batch.indices or range(batch.size))


@dataclass
class SplitSamples:
    """Samples of one split by index, as the dataset returns them, and the exceptions raised instead.

    ``indices`` are the indices that the loader may draw, each once.
    """

    split: str
    loader: DataLoader[Any]
    indices: Sequence[int]
    by_index: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, Exception] = field(default_factory=dict)

    @property
    def is_complete(self) -> bool:
        """True if every sample was tried."""
        return len(self.by_index) + len(self.failures) == len(self.indices)


@slow_measurement
def samples(setup: Setup) -> list[SplitSamples]:
    """Samples of both splits by index, in random order with a fixed seed, for 0.25 s per split, or 128 samples.

    Rules on labels need some hundred samples.
    A TensorDataset is skipped unless its batches are unpacked by ``unpack``: its tensors are read directly.
    """
    loaders = {"train": setup.train_loader, "val": setup.val_loader}
    return [
        _read_samples(split, loader)
        for split, loader in loaders.items()
        if is_map_style(loader) and (setup.unpack is not None or not reads_tensor_dataset(loader))
    ]


def _read_samples(split: str, loader: DataLoader[Any]) -> SplitSamples:
    result = SplitSamples(split, loader, get_reachable_indices(loader))
    order, values = list(result.indices), 0
    limit = ReadingLimit(_MAX_SECONDS_PER_SPLIT, _MIN_SAMPLES_PER_SPLIT)
    random.Random(0).shuffle(order)
    for count, index in enumerate(order):
        if values > _MAX_READ_VALUES or limit.ends_after(count):
            break
        try:
            with sample_time_limit():
                result.by_index[index] = loader.dataset[index]
            values += sum(t.numel() for t in tree_tensors(result.by_index[index]))
        except Exception as error:
            result.failures[index] = error
        except UserCodeTimeout as error:
            result.failures[index] = TimeoutError(*error.args)
            break
    return result


@dataclass(frozen=True)
class SplitTable:
    """The samples of one split that could be read, each once, with tensors of equal shape concatenated.

    ``inputs`` and ``targets`` have the samples along the first axis, ``indices`` are their dataset indices;
    ``is_complete`` is True if these are all samples.
    """

    split: str
    inputs: tuple[Tensor, ...]
    targets: tuple[Tensor, ...]
    indices: Sequence[int]
    is_complete: bool

    def __len__(self) -> int:
        return len(self.indices)

    @cached_property
    def labels(self) -> Tensor | None:
        """The class of each sample, if there is one integer target with only a sample axis; else None."""
        target = self.targets[0] if len(self.targets) == 1 else None
        if target is None or (target.dim() == 2 and target.shape[1] != 1) or target.dim() not in (1, 2):
            return None
        flat = target.reshape(-1)
        is_categorical = len(flat.unique()) <= len(flat) / 2 and float(flat.max()) < max(len(flat), _MAX_CLASSES)  # type: ignore[no-untyped-call]
        return flat.long() if is_categorical and bool((flat == flat.round()).all()) else None

    @cached_property
    def _sorted_input_hashes(self) -> NDArray[np.int64]:
        """The hashes of the inputs in order; empty if the inputs have no values."""
        return np.sort(get_row_hashes(self.inputs))

    @cached_property
    def may_have_equal_inputs(self) -> bool:
        """Whether two samples may have bitwise equal inputs; this takes a quarter of the time of grouping them."""
        hashes = self._sorted_input_hashes
        return len(hashes) < len(self) or bool((hashes[1:] == hashes[:-1]).any())

    def may_share_inputs_with(self, other: SplitTable) -> bool:
        """Return False if no sample has inputs that are bitwise equal to those of a sample of another table."""
        own, others = self._sorted_input_hashes, other._sorted_input_hashes
        if len(own) < len(self) or len(others) < len(other) or not len(own):
            return True
        return bool((own[np.searchsorted(own, others).clip(max=len(own) - 1)] == others).any())

    def target_values(self) -> NDArray[np.float64] | None:
        """Return the class of each sample, or the only real value of its target; None for others and missing values."""
        target = self.labels if self.labels is not None or len(self.targets) != 1 else self.targets[0]
        if target is None or target.numel() != len(target):
            return None
        if self.labels is None and not target.is_floating_point():
            return None
        values: NDArray[np.float64] = target.reshape(-1).double().numpy()
        return values if np.isfinite(values).all() else None


@measurement
def tables(rows: list[SplitRows]) -> dict[str, SplitTable]:
    """One table for each split that could be read."""
    splits = {split: [part for part in rows if part.split == split] for split in ("train", "val")}
    return {split: concatenate_rows(split, parts) for split, parts in splits.items() if parts}


def concatenate_rows(split: str, parts: list[SplitRows]) -> SplitTable:
    """Concatenate the rows that have the most common shapes, without repeated samples."""
    all_shapes = [_get_sample_shapes(rows) for rows in parts]
    commonest = Counter(all_shapes).most_common(1)[0][0]
    matching = [rows for rows, sample_shapes in zip(parts, all_shapes, strict=True) if sample_shapes == commonest]
    indices = _get_dataset_indices(matching)
    positions = _get_first_positions(indices)
    inputs = [
        _select_rows([_get_per_sample_tensors(rows)[0][i] for rows in matching], positions)
        for i in range(len(commonest[0]))
    ]
    targets = [
        _select_rows([_get_per_sample_tensors(rows)[1][i] for rows in matching], positions)
        for i in range(len(commonest[1]))
    ]
    kept_indices = indices if len(positions) == len(indices) else [indices[i] for i in positions.tolist()]
    return SplitTable(
        split,
        tuple(inputs),
        tuple(targets),
        kept_indices,
        all(rows.is_complete for rows in parts) and matching == parts,
    )


def _get_first_positions(indices: Sequence[int]) -> Tensor:
    """Return the position of the first row of each sample."""
    if isinstance(indices, range):
        return torch.arange(len(indices))
    first_positions = {index: position for position, index in reversed(list(enumerate(indices)))}
    return torch.tensor(sorted(first_positions.values()))


def _get_dataset_indices(parts: list[SplitRows]) -> Sequence[int]:
    """Return the dataset index of each row; the reading order if the index is unknown."""
    if len(parts) == 1:
        return parts[0].indices
    indices = [index for rows in parts for index in rows.indices]
    is_unknown = any(isinstance(rows.indices, range) for rows in parts)
    return list(range(len(indices))) if is_unknown else indices


def _get_per_sample_tensors(part: SplitRows) -> tuple[list[Tensor], list[Tensor]]:
    """Return the input and target tensors that have one entry for each sample."""
    count = len(part.indices)
    inputs = [t for t in part.inputs.values() if t.layout == torch.strided and len(t) == count]
    return inputs, [t for t in tree_tensors(part.targets) if t.dim() and len(t) == count]


def _get_sample_shapes(part: SplitRows) -> tuple[tuple[torch.Size, ...], tuple[torch.Size, ...]]:
    inputs, targets = _get_per_sample_tensors(part)
    return tuple(t.shape[1:] for t in inputs), tuple(t.shape[1:] for t in targets)


def _select_rows(parts: list[Tensor], positions: Tensor) -> Tensor:
    joined = parts[0] if len(parts) == 1 else torch.cat(parts)
    return joined.detach().cpu() if len(positions) == len(joined) else joined.detach().cpu()[positions]


@dataclass(frozen=True)
class Schema:
    """Path, dtype, number of axes and shape of every leaf of a tree."""

    leaves: tuple[tuple[str, str, int, tuple[int, ...]], ...]

    def get_first_difference(self, other: Schema) -> str | None:
        """Return the most important difference to another schema; None if only sizes differ."""
        own, others = ({leaf[0]: leaf for leaf in tree.leaves} for tree in (self, other))
        if set(own) != set(others):
            unmatched = sorted(set(own) ^ set(others))
            return f"{unmatched[0] or 'the root'} is present in only one of them"
        for path, (_, kind, axes, _) in own.items():
            _, other_kind, other_axes, _ = others[path]
            if kind != other_kind:
                return f"{path or 'the tensor'} is {kind} in one and {other_kind} in the other"
            if axes != other_axes:
                return f"{path or 'the tensor'} has {axes} axes in one and {other_axes} in the other"
        return None

    def __str__(self) -> str:
        return ", ".join(f"{path}: {kind} {size}" if size else f"{path}: {kind}" for path, kind, _, size in self.leaves)


def get_schema(tree: Any) -> Schema:
    """Return the schema of a tree."""
    return Schema(tuple(_get_leaf_schema(".".join(map(str, path)), leaf) for path, leaf in tree_leaves(tree)))


def _get_leaf_schema(path: str, leaf: Any) -> tuple[str, str, int, tuple[int, ...]]:
    if isinstance(leaf, PackedSequence):
        return path, f"packed {_get_dtype_name(leaf.data)}", leaf.data.dim(), ()
    if isinstance(leaf, Tensor):
        return path, _get_dtype_name(leaf), leaf.dim(), tuple(leaf.shape)
    return path, type(leaf).__name__, 0, ()


def _get_dtype_name(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def get_most_common_schema(schemas: Mapping[int, Schema] | Sequence[Schema]) -> Schema:
    """Return the most common schema, not counting sizes."""
    all_schemas = list(schemas.values() if isinstance(schemas, Mapping) else schemas)
    counts = Counter(tuple(item[:3] for item in schema.leaves) for schema in all_schemas)
    form = counts.most_common(1)[0][0]
    return next(item for item in all_schemas if tuple(leaf[:3] for leaf in item.leaves) == form)
