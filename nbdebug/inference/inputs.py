"""The inputs of a batch, flattened once: select and replace their rows, convert user inputs, concatenate batches."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch
from nbdebug.setup.unpacking import call_signature, check_no_pil_images
from nbdebug.tensors.pytree import tree_leaves, tree_map, tree_tensors
from nbdebug.validation import describe_type


@dataclass(frozen=True)
class ModelInputs:
    """The inputs of a batch, flattened once: the names and the values of its leaves, in order.

    A name is the keyword, else "input" with its position. ``size`` is the number of samples: the first axis of the
    first tensor. ``batch`` has no targets.
    """

    batch: Batch
    names: tuple[str, ...]
    leaves: tuple[Any, ...]
    size: int

    @classmethod
    def of(cls, batch: Batch) -> ModelInputs:
        """Flatten the inputs of a batch."""
        paths, leaves = zip(*tree_leaves((batch.args, batch.kwargs)), strict=True)
        tensor_count = sum(isinstance(leaf, Tensor) for leaf in leaves)
        names = tuple(_input_name(path, tensor_count) for path in paths)
        return cls(Batch(batch.args, batch.kwargs), names, leaves, _count_samples(leaves))

    @cached_property
    def named_tensors(self) -> list[tuple[str, Tensor]]:
        """The name and value of each tensor."""
        return [(name, leaf) for name, leaf in zip(self.names, self.leaves, strict=True) if isinstance(leaf, Tensor)]

    @cached_property
    def sample_leaves(self) -> list[tuple[int, str, Tensor]]:
        """The index, name and value of each leaf with one row per sample."""
        return [
            (index, name, leaf)
            for index, (name, leaf) in enumerate(zip(self.names, self.leaves, strict=True))
            if has_row_per_sample(leaf, self.size)
        ]

    @property
    def values_per_sample(self) -> int:
        """The number of input values per sample."""
        return sum(leaf[0].numel() for leaf in self.leaves if has_sample_axis(leaf))

    def with_leaves(self, replacements: Mapping[int, Any]) -> ModelInputs:
        """Replace some leaves, by index."""
        leaves = tuple(replacements.get(index, leaf) for index, leaf in enumerate(self.leaves))
        remaining = iter(leaves)
        args, kwargs = tree_map((self.batch.args, self.batch.kwargs), lambda _: next(remaining))
        return ModelInputs(Batch(args, kwargs), self.names, leaves, _count_samples(leaves))

    def take(self, rows: Tensor) -> ModelInputs:
        """Select samples, as copies; leaves without a row per sample stay as they are."""
        return self.with_leaves(
            {index: leaf.detach().index_select(0, rows.to(leaf.device)) for index, _, leaf in self.sample_leaves}
        )

    def copy(self) -> ModelInputs:
        """Copy all samples, so that no model can modify the originals."""
        return self.take(torch.arange(self.size))


def _count_samples(leaves: Sequence[Any]) -> int:
    first = next(iter(tree_tensors(leaves)), None)
    return len(first) if first is not None and first.dim() else 0


def as_inputs(user_inputs: Any, model: Any, name: str = "inputs") -> ModelInputs:
    """Convert a tensor, array, table, tuple, mapping or batch to the inputs of a model.

    A mapping is passed by keyword if the model takes these names. Raises SetupError for inputs without samples.
    """
    if isinstance(user_inputs, ModelInputs):
        inputs = user_inputs
    else:
        batch = user_inputs if isinstance(user_inputs, Batch) else _inputs_to_batch(as_tensors(user_inputs), model)
        inputs = ModelInputs.of(batch)
    if any(isinstance(leaf, PackedSequence) for leaf in inputs.leaves):
        raise SetupError(f"{name} holds a PackedSequence; expected a padded tensor. Pad it, and pass forward= to pack.")
    if not inputs.named_tensors:
        check_no_pil_images(user_inputs)
        raise SetupError(
            f"{name} is {describe_type(user_inputs)} without tensors; expected a tensor, an array or a table. "
            "Pass an array of samples, as in x[:100]."
        )
    if any(leaf.is_meta or leaf.layout != torch.strided for _, leaf in inputs.named_tensors):
        raise SetupError(f"{name} holds a sparse or meta tensor; expected a dense tensor with data. Pass x.to_dense().")
    if not inputs.size:
        raise SetupError(f"{name} has no samples; expected at least one. Pass x[None] for a single sample.")
    return inputs


def _inputs_to_batch(user_inputs: Any, model: Any) -> Batch:
    """Pass inputs by position or by keyword."""
    if isinstance(user_inputs, (tuple, list)):
        return Batch(tuple(user_inputs))
    if isinstance(user_inputs, Mapping):
        names = call_signature(model.forward if isinstance(model, nn.Module) else model)[2]
        matches_keywords = all(isinstance(key, str) and key in names for key in user_inputs)
        return Batch((), dict(user_inputs)) if matches_keywords else Batch((user_inputs,))
    return Batch((user_inputs,))


def as_tensors(user_inputs: Any) -> Any:
    """Convert arrays and tables to tensors; float64 becomes float32."""
    if hasattr(user_inputs, "to_numpy") and hasattr(user_inputs, "columns"):
        user_inputs = _table_to_array(user_inputs)

    def convert(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        return torch.from_numpy(np.ascontiguousarray(leaf, np.float32 if leaf.dtype == np.float64 else None))

    return tree_map(user_inputs, convert)


def _table_to_array(frame: Any) -> Any:
    try:
        return frame.to_numpy(dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise SetupError(f"a table has non-numeric columns ({error}); expected numbers. Encode the others.") from error


def _input_name(path: tuple[Any, ...], tensor_count: int) -> str:
    """Name the input at a path."""
    steps = [str(step) for step in path[1:]]
    if path and path[0] == 0 and len(steps) == 1:
        return "input" if tensor_count == 1 else f"input {steps[0]}"
    return ".".join(steps)


def check_same_shapes(inputs: ModelInputs, background: ModelInputs) -> None:
    """Raise SetupError for a background whose samples have another shape than the inputs."""
    if len(inputs.leaves) != len(background.leaves):
        actual, expected = (
            sum(isinstance(leaf, Tensor) or leaf != {} for leaf in side.leaves) for side in (background, inputs)
        )
        raise SetupError(f"background has {actual} inputs; expected {expected}, like the samples. Pass only these.")
    for name, a, b in zip(inputs.names, inputs.leaves, background.leaves, strict=True):
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape[1:] != b.shape[1:]:
            shape, expected = tuple(b.shape[1:]), tuple(a.shape[1:])
            advice = "Pass samples of that shape"
            if b.shape == a.shape[1:]:
                advice = "Pass background[None] for a single sample"
            elif a.shape == b.shape[1:]:
                advice = "Pass x[None] to explain a single sample"
            raise SetupError(f"background of {name} has samples of shape {shape}; expected {expected}. {advice}.")


def has_sample_axis(leaf: Any) -> TypeGuard[Tensor]:
    """Check for a tensor with a first axis, which may be the sample axis."""
    return isinstance(leaf, Tensor) and leaf.dim() > 0


def has_row_per_sample(leaf: Any, size: int) -> TypeGuard[Tensor]:
    """Check for one row per sample."""
    return has_sample_axis(leaf) and len(leaf) == size


def batch_leaves(batch: Batch) -> Iterator[Any]:
    """Iterate over the leaves of inputs and targets."""
    return (leaf for _, leaf in tree_leaves((batch.args, batch.kwargs, batch.targets)))


def sample_shapes(batch: Batch) -> list[Any]:
    """Return the shape of each leaf of inputs and targets for one sample; None for leaves that are not tensors."""
    return [tuple(leaf.shape[1:]) if isinstance(leaf, Tensor) else None for leaf in batch_leaves(batch)]


def concatenate_batches(batches: Sequence[Batch]) -> Batch:
    """Concatenate batches of the same format; leaves without a row per sample come from the first batch."""
    sizes = [ModelInputs.of(batch).size for batch in batches]
    columns = zip(*map(batch_leaves, batches), strict=True)
    joined_leaves = iter(
        [torch.cat(item) if all(map(has_row_per_sample, item, sizes)) else item[0] for item in columns]
    )
    args, kwargs, targets = tree_map(
        (batches[0].args, batches[0].kwargs, batches[0].targets), lambda _: next(joined_leaves)
    )
    return Batch(args, kwargs, targets)
