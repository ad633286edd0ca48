"""The tiny batch: a few examples, created once and reused at every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from nbdebug.autograd.graph import build_graph
from nbdebug.exceptions import NotChecked, SetupError
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup, loaders, losses
from nbdebug.setup.losses import LossKind
from nbdebug.setup.task import LearningTask, infer_task
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tensors.pytree import tree_leaves, tree_map, tree_tensors
from nbdebug.training.model_copy import ensure_train_mode

_MAX_INSPECTED_BATCHES = 4


@dataclass(frozen=True)
class TinyBatchPass:
    """The tiny batch with model output and loss before any training."""

    batch: Batch
    output: Any
    loss: float
    size: int
    kind: LossKind
    task: LearningTask


def first_tiny_pass(setup: Setup, count: int) -> TinyBatchPass:
    """Build a batch of about ``count`` examples on which model and loss run, of more than one class if possible.

    Selects samples by index and collates them with the loader's own function if possible, else takes samples from the
    first batch, else uses the whole first batch. Raises SetupError with the exception of model or loss.
    """
    failure: Exception | None = None
    for batch in _candidate_batches(setup, count):
        try:
            return run_tiny_pass(setup, batch)
        except SetupError:
            raise
        except Exception as error:
            failure = error
    if failure is None:
        raise SetupError("train_loader gave no batch; expected at least one. Check len(dataset) and drop_last.")
    with UserCodeErrors(lambda: "in the first pass of the overfit test"):
        raise failure


def run_tiny_pass(setup: Setup, batch: Batch) -> TinyBatchPass:
    """Run one pass of a batch through model and loss, without changing the model."""
    with Preserve(*setup.mutable_objects), torch.enable_grad():
        ensure_train_mode(setup)
        output, loss = setup.output_and_loss(batch)
        output = tree_map(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
        kind = _find_loss_kind(setup, loss)
        return TinyBatchPass(
            batch, output, float(loss.detach()), batch.size or 1, kind, _resolve_task(setup, batch, output, kind)
        )


def _find_loss_kind(setup: Setup, loss: Tensor) -> LossKind:
    """Return the kind of the loss, by its name or by the nearest loss operation in its graph."""
    kind = losses.get_loss_kind(setup.loss_fn)
    if kind != "other":
        return kind
    names = (node.name for node in build_graph(loss.grad_fn, []).nodes)
    return next((losses.NODE_KINDS[name] for name in names if name in losses.NODE_KINDS), "other")


def _resolve_task(setup: Setup, batch: Batch, output: Any, kind: LossKind) -> LearningTask:
    """Return the user's task, else the inferred one."""
    return setup.task or infer_task(batch, output, kind)


def _candidate_batches(setup: Setup, count: int) -> Iterator[Batch]:
    """Yield candidate batches, the best one first."""
    batches: list[Batch] = []
    for batch in setup.batches(_MAX_INSPECTED_BATCHES):
        batches.append(batch)
        if sum(batch_in_pool.size for batch_in_pool in batches) >= count and len(set(_get_sample_labels(batches))) > 1:
            break
    if not batches:
        return
    yield from _batches_by_index(setup, batches, count)
    if batches[0].size > count:
        with suppress(NotChecked, RuntimeError, IndexError):
            yield batches[0].take_samples(_select_positions(_get_sample_labels(batches[:1]), count))
    yield batches[0]


def _batches_by_index(setup: Setup, batches: Sequence[Batch], count: int) -> Iterator[Batch]:
    """Yield the selected samples, collated as the loader does, if the loader has indices."""
    loader = setup.train_loader
    if not loaders.is_map_style(loader) or loader.batch_sampler is None:
        return
    indices = [index for batch in batches for index in batch.indices or ()]
    sample_labels = _get_sample_labels(batches)
    if len(sample_labels) != len(indices):
        return
    selected_indices = tuple(indices[position] for position in _select_positions(sample_labels, count))
    yield setup.split_batch(loaders.collate_samples(loader, selected_indices), selected_indices)


def _get_sample_labels(batches: Sequence[Batch]) -> list[Any]:
    """Return the class of each sample; a unique value if targets are not classes."""
    values: list[Any] = []
    for batch in batches:
        target = next(iter(tree_tensors(batch.targets)), None)
        start = len(values)
        if target is not None and target.shape == (batch.size,) and not target.is_floating_point():
            values += target.tolist()
        else:
            values += [(position,) for position in range(start, start + batch.size)]
    return values


def _select_positions(sample_labels: Sequence[Any], count: int) -> list[int]:
    """Return the first ``count`` positions; if these are all of one class, replace half by samples of other classes."""
    positions = list(range(min(count, len(sample_labels))))
    if len({sample_labels[position] for position in positions}) > 1:
        return positions
    others = list(
        islice(
            (position for position in range(len(sample_labels)) if sample_labels[position] != sample_labels[0]),
            len(positions) // 2,
        )
    )
    return positions[: len(positions) - len(others)] + others


def sample_axis(tensor: Tensor, size: int) -> int | None:
    """Return the axis of the samples: the first of the leading two with the length of the batch."""
    return next((axis for axis in (0, 1) if axis < tensor.dim() and tensor.shape[axis] == size), None)


def input_groups(batch: Batch, size: int) -> tuple[int, ...]:
    """Return a group number for each example, equal for identical inputs."""
    inputs: Any = (batch.args, batch.kwargs)
    sample_bytes = bytes_per_sample(inputs, size)
    if not sample_bytes or any(isinstance(leaf, PackedSequence) for _, leaf in tree_leaves(inputs)):
        return tuple(range(size))
    group_of_input: dict[tuple[bytes, ...], int] = {}
    keys = (tuple(tensor_bytes[position] for tensor_bytes in sample_bytes) for position in range(size))
    return tuple(group_of_input.setdefault(key, len(group_of_input)) for key in keys)


def bytes_per_sample(tree: Any, size: int) -> list[list[bytes]]:
    """Return the bytes of each sample in each tensor of a tree."""
    tensors_with_axis = [
        (tensor, sample_axis(tensor, size)) for tensor in tree_tensors(tree) if tensor.layout == torch.strided
    ]
    batch_first = [
        tensor.detach().movedim(axis, 0).contiguous().cpu() for tensor, axis in tensors_with_axis if axis is not None
    ]
    byte_rows = (tensor.reshape(size, -1).view(torch.uint8).numpy() for tensor in batch_first)
    return [[row.tobytes() for row in tensor_rows] for tensor_rows in byte_rows]


def contradictory_pairs(groups: Sequence[int], batch: Batch) -> tuple[tuple[int, int], ...]:
    """Return pairs of examples with identical inputs and different targets."""
    targets = bytes_per_sample(batch.targets, len(groups))
    first_position: dict[int, int] = {}
    pairs = []
    for position, group in enumerate(groups):
        earlier = first_position.setdefault(group, position)
        if any(target_bytes[position] != target_bytes[earlier] for target_bytes in targets):
            pairs.append((earlier, position))
    return tuple(pairs)
