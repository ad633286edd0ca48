"""What a user gives to be explained, as batches: the inputs of samples, and those they are compared with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from nbdebug.exceptions import SetupError
from nbdebug.setup import Batch
from nbdebug.setup.trees import leaves, tensors, transform
from nbdebug.setup.uncollated import refuse_pictures
from nbdebug.setup.unpack import parameters


def as_batch(given: Any, model: Any, name: str = "inputs") -> Batch:
    """A tensor, an array, a table, a tuple of inputs or a mapping of them as a batch.

    A mapping goes in by keyword where the model takes these names. Raises SetupError for what has no samples.
    """
    batch = given if isinstance(given, Batch) else split(as_tensors(given), model)
    inputs = tensors((batch.args, batch.kwargs))
    if any(isinstance(leaf, PackedSequence) for _, leaf in leaves((batch.args, batch.kwargs))):
        raise SetupError(f"{name} holds a PackedSequence; expected a padded tensor. Pad it, and pass forward= to pack.")
    if not inputs:
        refuse_pictures(given)
        raise SetupError(
            f"{name} is a {type(given).__name__} without tensors; expected a tensor, an array or a table. "
            "Pass rows of numbers, as in x[:100]."
        )
    if any(leaf.is_meta or leaf.layout != torch.strided for leaf in inputs):
        raise SetupError(f"{name} holds a sparse or meta tensor; expected numbers. Pass x.to_dense(), with its data.")
    if not inputs[0].dim() or not len(inputs[0]):
        raise SetupError(f"{name} has no samples; expected a tensor of samples first. Pass x[None] for a single one.")
    return batch


def split(given: Any, model: Any) -> Batch:
    """Inputs by position or by keyword."""
    if isinstance(given, (tuple, list)):
        return Batch(tuple(given))
    if isinstance(given, Mapping):
        names = parameters(model.forward if isinstance(model, nn.Module) else model)[2]
        by_name = all(isinstance(key, str) and key in names for key in given)
        return Batch((), dict(given)) if by_name else Batch((given,))
    return Batch((given,))


def as_tensors(given: Any) -> Any:
    """The same with arrays and tables as tensors; numbers that are no tensor become float32."""
    if hasattr(given, "to_numpy") and hasattr(given, "columns"):
        given = as_numbers(given)

    def one(leaf: Any) -> Any:
        if not isinstance(leaf, np.ndarray):
            return leaf
        return torch.from_numpy(np.ascontiguousarray(leaf, np.float32 if leaf.dtype == np.float64 else None))

    return transform(given, one)


def as_numbers(frame: Any) -> Any:
    """A table as an array; raises SetupError for columns that hold no numbers."""
    try:
        return frame.to_numpy(dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise SetupError(f"a table holds no numbers ({error}); expected columns of them. Encode the others.") from error


def count(batch: Batch) -> int:
    """The number of samples: the first axis of the first input."""
    return len(tensors((batch.args, batch.kwargs))[0])


def with_leaves(batch: Batch, changed: Mapping[int, Any]) -> Batch:
    """The batch with some leaves of its inputs, by number, exchanged."""
    place = iter(range(1_000_000))

    def change(leaf: Any) -> Any:
        return changed.get(next(place), leaf)

    args, kwargs = transform((batch.args, batch.kwargs), change)
    return Batch(args, kwargs)


def inputs_of(batch: Batch) -> list[tuple[str, Any]]:
    """Every leaf of the inputs with a name: the keyword, else "input" with its place."""
    found = list(leaves((batch.args, batch.kwargs)))
    several = sum(isinstance(leaf, Tensor) for _, leaf in found)
    return [(named(path, several), leaf) for path, leaf in found]


def named(path: tuple[Any, ...], several: int) -> str:
    """A name for the input at a path."""
    rest = [str(step) for step in path[1:]]
    if path and path[0] == 0 and len(rest) == 1:
        return "input" if several == 1 else f"input {rest[0]}"
    return ".".join(rest)


def same_form(inputs: Batch, background: Batch) -> None:
    """Refuses a background whose samples are of another shape than those of the inputs."""
    left, right = inputs_of(inputs), inputs_of(background)
    if len(left) != len(right):
        have, wanted = (sum(leaf != {} for _, leaf in one if not isinstance(leaf, Tensor)) for one in (right, left))
        have += sum(isinstance(leaf, Tensor) for _, leaf in right)
        wanted += sum(isinstance(leaf, Tensor) for _, leaf in left)
        raise SetupError(f"background has {have} inputs; expected {wanted}, as the samples. Pass these alone.")
    for (name, a), (_, b) in zip(left, right, strict=True):
        if isinstance(a, Tensor) and isinstance(b, Tensor) and a.shape[1:] != b.shape[1:]:
            said, wanted = tuple(b.shape[1:]), tuple(a.shape[1:])
            act = "Pass samples of that shape"
            if b.shape == a.shape[1:]:
                act = "Pass background[None] for a single one"
            elif a.shape == b.shape[1:]:
                act = "Pass x[None] to explain a single one"
            raise SetupError(f"background of {name} has samples of shape {said}; expected {wanted}. {act}.")


def of_same_dtype(inputs: Batch, background: Batch) -> Batch:
    """The background with the dtypes of the samples."""
    pairs = zip(inputs_of(inputs), inputs_of(background), strict=True)
    return with_leaves(
        background,
        {n: b.to(a.dtype) if isinstance(a, Tensor) and isinstance(b, Tensor) else b
         for n, ((_, a), (_, b)) in enumerate(pairs)},
    )  # fmt: skip
