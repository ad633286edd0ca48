"""Reads a seeded random sample of a loader, chunk by chunk, collated as the loader does."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pad_packed_sequence

from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.measurements.dataset_rows import Schema, get_schema
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.loaders import dataset_length, get_visited_indices, is_map_style, peek_batches, reads_tensor_dataset
from nbdebug.setup.time_limit import MAX_SAMPLE_SECONDS, UserCodeTimeout, time_limit
from nbdebug.setup.unpacking import guess_batch
from nbdebug.tensors.pytree import to_device, tree_children, tree_tensors

_DEFAULT_BATCH_SIZE, _MAX_BATCH_SIZE, _TENSOR_ROWS = 64, 512, 16_384
_FIRST_ROWS = 2_000  # of a TensorDataset, which the reference learner reads
_MAX_STREAMED_BATCHES = 10_000_000
_MAX_LISTED = 20

_IMAGE_AXES = 3

Shape = tuple[int, ...]
LeafValues = Tensor | list[Tensor] | list[str] | list[Any]


@dataclass(frozen=True, eq=False)
class SampleChunk:
    """Samples that were read together.

    ``leaves`` maps role and name of each leaf to its values: a tensor with the samples along the first axis, or a list
    with an entry for each sample. ``batch`` holds them as the model receives them, None if they cannot be collated.
    """

    indices: tuple[int, ...] | None
    size: int
    leaves: dict[tuple[str, str], LeafValues]
    batch: Batch | None


@dataclass
class SplitReader:
    """Reads up to ``limit`` samples of a split in ``seconds``; None for no limit.

    A single sample that takes longer than ``seconds``, or 60 s, is recorded as one that raised.
    Samples that can be read by index are drawn at random with ``seed``; of other loaders, the first samples are read.
    Of a TensorDataset, ``rows_per_chunk`` samples are read at once.
    If ``is_fixed``, each sample is read with the same random numbers, so that copies stay equal after augmentation.
    ``failures`` are the samples that raised, by index. ``schemas`` counts the samples of each schema, by the first
    index that has it, and ``image_sizes`` lists the samples by the shapes of their images. ``uncollated`` is the reason
    why samples cannot be collated.
    """

    setup: Setup
    split: str
    loader: Any
    limit: int | None
    seconds: float | None
    seed: int
    is_fixed: bool = False
    rows_per_chunk: int = _TENSOR_ROWS
    failures: dict[int, str] = field(default_factory=dict)
    failure_count: int = 0
    schemas: dict[Schema, list[int]] = field(default_factory=dict)
    image_sizes: dict[tuple[Shape, ...], list[int]] = field(default_factory=dict)
    uncollated: str = ""
    end_reason: str = ""
    samples_read: int = 0
    is_complete: bool = False

    def __post_init__(self) -> None:
        self.order = self._draw_order()
        self.started = time.perf_counter()

    @property
    def is_indexed(self) -> bool:
        """True if the samples are read by index, in random order; False if an index stands for a whole batch."""
        return self.order is not None and self.loader.batch_sampler is not None

    @property
    def size(self) -> int | None:
        """The number of samples that the loader goes through; None if unknown."""
        if self.order is None:
            return dataset_length(self.loader)
        return self._visited if self.is_indexed else None

    def _draw_order(self) -> Sequence[int] | None:
        self._visited = 0
        if not is_map_style(self.loader):
            return None
        try:
            visited = get_visited_indices(self.loader)
        except NotChecked:
            return None
        self._visited = len(visited)
        chosen = np.random.default_rng(self.seed).permutation(len(visited))[: self.limit]
        order: list[int] = np.asarray(visited)[chosen].tolist()
        return order

    def chunks(self) -> Iterator[SampleChunk]:
        """Yield the samples until the limit, the time or the data end."""
        self.started = time.perf_counter()
        for chunk in self._indexed_chunks(self.order) if self.order is not None else self._streamed_chunks():
            self.samples_read += chunk.size
            yield chunk
            if self._is_out_of_time():
                break
        self.is_complete = not self.end_reason and (self.order is None or len(self.order) == self._visited)

    def _is_out_of_time(self) -> bool:
        """Return whether the time limit is exceeded, and record it."""
        is_over = self.seconds is not None and time.perf_counter() - self.started > self.seconds
        if is_over:
            self.end_reason = f"the time limit of {self.seconds:.3g} s"
        return is_over

    def _indexed_chunks(self, order: Sequence[int]) -> Iterator[SampleChunk]:
        if reads_tensor_dataset(self.loader):
            starts = [0, *range(_FIRST_ROWS, len(order), self.rows_per_chunk)]
            for start, end in pairwise([*starts, len(order)]):
                chunk = list(order[start:end])
                yield self._make_chunk(list(self.loader.dataset[chunk]), tuple(chunk), len(chunk))
            return
        is_batched = self.loader.batch_sampler is not None  # otherwise the dataset returns whole batches
        size = min(self.loader.batch_size or _DEFAULT_BATCH_SIZE, _MAX_BATCH_SIZE) if is_batched else 1
        for start in range(0, len(order), size):
            samples = dict(self._read_samples(order[start : start + size]))
            if samples:
                yield self._collate(list(samples.values()), tuple(samples))
            elif self._is_out_of_time():
                return

    def _read_samples(self, indices: Sequence[int]) -> Iterator[tuple[int, Any]]:
        """Yield the samples that can be read, and record those that raise or do not return."""
        for index in indices:
            if self.is_fixed:
                seed_all(self.seed)
            try:
                with time_limit(self.seconds or MAX_SAMPLE_SECONDS):
                    sample = self.loader.dataset[index]
            except (Exception, UserCodeTimeout) as error:
                self.failure_count += 1
                if len(self.failures) < _MAX_LISTED:
                    self.failures[index] = f"{type(error).__name__}: {error}"
                if self._is_out_of_time():
                    return
                continue
            leaves = get_schema(sample).leaves
            if images := tuple(shape for *_, axes, shape in leaves if axes == _IMAGE_AXES):
                self.image_sizes.setdefault(images, []).append(index)
            form = Schema(tuple((*leaf[:3], ()) for leaf in leaves))
            self.schemas.setdefault(form, [0, index])[0] += 1
            yield index, sample

    def _collate(self, samples: list[Any], indices: tuple[int, ...]) -> SampleChunk:
        if not self.uncollated:
            is_batched = self.loader.batch_sampler is not None
            try:
                raw = self.loader.collate_fn(samples if is_batched else samples[0])
                return self._make_chunk(raw, indices if is_batched else None, len(samples) if is_batched else None)
            except Exception as error:
                self.uncollated = f"{type(error).__name__}: {error}"
                if is_batched and (pair := self._find_uncollated_pair(samples)) is not None:
                    reason, other = pair
                    places = f"{indices[0]} and {indices[other]}"
                    self.uncollated = f"samples {places} do not fit together: {type(reason).__name__}: {reason}"
        return self._ragged_chunk(samples, indices)

    def _find_uncollated_pair(self, samples: list[Any]) -> tuple[Exception, int] | None:
        """Return the first sample that cannot be collated with the first one of a batch, and why; None without one."""
        for other in range(1, len(samples)):
            try:
                self.loader.collate_fn([samples[0], samples[other]])
            except Exception as error:
                return error, other
        return None

    def _ragged_chunk(self, samples: list[Any], indices: tuple[int, ...]) -> SampleChunk:
        """Return samples that cannot be collated, leaf by leaf."""
        batches = [guess_batch(sample, self.setup.eager_model, self.setup.loss_fn) for sample in samples]
        by_sample = [_name_leaves(batch, sample, 1) for batch, sample in zip(batches, samples, strict=True)]
        names = list(dict.fromkeys(name for leaves in by_sample for name in leaves))
        columns: dict[tuple[str, str], LeafValues] = {
            name: [leaves[name] for leaves in by_sample if name in leaves] for name in names
        }
        return SampleChunk(indices, len(samples), columns, None)

    def _streamed_chunks(self) -> Iterator[SampleChunk]:
        """Yield the batches of the loader as they come, until one raises or does not come in time."""
        batches = peek_batches(self.loader, _MAX_STREAMED_BATCHES, f"{self.split}_loader")
        for number in count():
            try:
                with time_limit(self.seconds or MAX_SAMPLE_SECONDS):
                    raw, indices = next(batches)
            except StopIteration:
                return
            except UserCodeTimeout as error:
                self.end_reason = f"the wait for a batch of the loader: {error}"
                return
            except SetupError as error:
                if not self.samples_read:
                    raise
                self.failure_count, self.end_reason = 1, "an error of the loader"
                self.failures[self.samples_read] = str(error.__cause__ or error)
                return
            chunk = self._make_chunk(raw, indices, None)
            form = Schema(tuple((path, kind, 0, ()) for path, kind in sorted(set(_batch_structure(raw, chunk.size)))))
            self.schemas.setdefault(form, [0, number])[0] += 1
            yield chunk
            if self.limit is not None and self.samples_read >= self.limit:
                self.end_reason = f"the limit of {self.limit:,} samples"
                return

    def _make_chunk(self, raw: Any, indices: tuple[int, ...] | None, size: int | None) -> SampleChunk:
        """Return a collated batch with its leaves; one that is not a batch of tensors is a chunk of raw leaves."""
        raw = to_device(raw, self.setup.model_device)
        try:
            batch = self.setup.split_batch(raw, indices)
        except SetupError:
            raise
        except Exception as error:
            raise SetupError(
                f"a batch of {self.split}_loader cannot be split into inputs and targets "
                f"({type(error).__name__}: {error}); expected both. Pass unpack= to Debugger."
            ) from error
        count = size or batch.size or _count_entries(raw)
        return SampleChunk(indices, count, _name_leaves(batch, raw, count), batch)


def _batch_structure(tree: Any, size: int, path: tuple[Any, ...] = ()) -> Iterator[tuple[str, str]]:
    """Yield path and number of axes of each tensor of a batch; lists with an entry for each sample count as one."""
    if isinstance(tree, (Tensor, PackedSequence)):
        axes = tree.data.dim()
        yield _leaf_name(path), f"tensor with {axes} {'axis' if axes == 1 else 'axes'}"
        return
    children = tree_children(tree)
    is_by_sample = bool(path) and isinstance(tree, (list, tuple)) and len(tree) == size
    are_columns = all(isinstance(child, Tensor) and child.dim() and len(child) == size for child in children.values())
    for key, child in children.items():
        yield from _batch_structure(child, size, (*path, "*" if is_by_sample and not are_columns else key))


def _count_entries(raw: Any) -> int:
    tensors = [tensor for tensor in tree_tensors(raw) if tensor.dim()]
    return len(tensors[0]) if tensors else 1


def _name_leaves(batch: Batch, raw: Any, count: int) -> dict[tuple[str, str], Any]:
    """Return the leaves by role and name: what the model receives, the targets, and the rest of the raw batch."""
    parts: dict[str, Any] = {"input": batch.inputs, "target": batch.target}
    result: dict[tuple[str, str], Any] = {}
    known = set[int]()
    for role, tree in parts.items():
        if tree is None:
            continue
        leaves = list(_walk_leaves(tree, (), count))
        known |= {id(leaf) for _, leaf in leaves}
        result |= {(role, _leaf_name(path)): _dense(leaf) for path, leaf in leaves}
    rest = ((path, leaf) for path, leaf in _walk_leaves(raw, (), count) if id(leaf) not in known)
    return result | {("other", _leaf_name(path)): _dense(leaf) for path, leaf in rest}


def _leaf_name(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))


def _walk_leaves(tree: Any, path: tuple[Any, ...], count: int) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield the leaves of a tree; a list with a text or number for each sample is one leaf."""
    children = tree_children(tree)
    is_column = isinstance(tree, (list, tuple)) and len(tree) == count and count > 1
    if not children or (is_column and all(isinstance(item, (str, int, float, bytes)) for item in tree)):
        yield path, tree
        return
    for key, value in children.items():
        yield from _walk_leaves(value, (*path, key), count)


def _dense(leaf: Any) -> Any:
    """Return a tensor that can be reduced: dense, real and on the CPU; other leaves as they are."""
    if isinstance(leaf, PackedSequence):
        padded, lengths = pad_packed_sequence(leaf, batch_first=True, padding_value=0)
        return [row[:length] for row, length in zip(padded.detach().cpu(), lengths.tolist(), strict=True)]
    if not isinstance(leaf, Tensor):
        return leaf
    leaf = leaf.detach()
    if leaf.is_nested:
        return [part.cpu() for part in leaf.unbind()]
    leaf = (leaf.to_dense() if leaf.layout != torch.strided else leaf).cpu()
    return torch.view_as_real(leaf) if leaf.is_complex() else leaf
