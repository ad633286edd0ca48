"""How a loop splits its batches: which parts it passes to the model, and which part its loss is computed from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.loop_monitor.step_trace import TracedStep
from nbdebug.setup import Batch, Setup
from nbdebug.setup.unpacking import count_targets
from nbdebug.tensors.pytree import tree_get, tree_leaves, tree_map, tree_tensors

_Path = tuple[Any, ...]
_CONSTANT_TYPES = (bool, str, type(None))


class _UnknownPartError(Exception):
    """An argument of the model is no part of the batch."""


class _Part:
    """A tensor of a raw batch, with the type and the shape of a row in which the loop passes it on.

    It is a leaf of a tree, so it is no dataclass, which would be a branch.
    """

    def __init__(self, path: _Path, dtype: torch.dtype, row_shape: torch.Size | None = None) -> None:
        self.path, self.dtype, self.row_shape = path, dtype, row_shape

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Part) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.path, self.dtype, self.row_shape))

    def select(self, raw: Any) -> Tensor:
        """Return this part of another raw batch."""
        tensor = tree_get(raw, self.path)
        if not isinstance(tensor, Tensor):
            raise TypeError("the part is no tensor")
        tensor = tensor.to(self.dtype)
        return tensor if self.row_shape is None else tensor.reshape(len(tensor), *self.row_shape)


class LearnedUnpack:
    """Splits a raw batch into the arguments of the model and the targets as the first step of a loop did."""

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any], targets: tuple[Any, ...]) -> None:
        self._args, self._kwargs, self._targets = args, kwargs, targets

    def __call__(self, raw: Any) -> Batch:
        """Return the parts of a raw batch; raises SetupError if the batch has other parts than the first."""
        parts = self._args, self._kwargs, self._targets
        try:
            args, kwargs, targets = tree_map(parts, lambda leaf: leaf.select(raw) if isinstance(leaf, _Part) else leaf)
        except (KeyError, TypeError, RuntimeError):
            raise SetupError(
                "a batch has other parts than the first batch of your loop; expected the same. "
                "Pass unpack=, which returns (inputs, target)."
            ) from None
        return Batch(args, kwargs, targets)

    def is_like(self, other: LearnedUnpack) -> bool:
        """Return whether both select the same parts; a name tells as much of an argument as its position."""
        if self._targets != other._targets:
            return False
        if bool(self._kwargs) == bool(other._kwargs):
            return (self._args, self._kwargs) == (other._args, other._kwargs)
        return self._input_parts == other._input_parts

    @property
    def _input_parts(self) -> set[_Part]:
        return {leaf for _, leaf in tree_leaves((self._args, self._kwargs)) if isinstance(leaf, _Part)}


def learn_unpack(setup: Setup, step: TracedStep) -> LearnedUnpack | None:
    """Return how the first step of a loop splits a batch, if that differs from the guess of the setup and is clear.

    None if the user has said how, if the loop calls the model several times, or if it makes the arguments of the model
    from the batch by more than another type or another shape of each row.
    """
    is_given = any(option is not None for option in (setup.unpack, setup.forward, setup.step_fn))
    raw = step.batch.raw
    if is_given or raw is None or step.passes != 1 or setup.passes_communicate:
        return None
    guess = setup.split_batch(raw)
    parts = {path: leaf for path, leaf in tree_leaves(raw) if isinstance(leaf, Tensor)}
    try:
        guessed = _find_arguments(parts, (guess.args, guess.kwargs, guess.targets))
        args, kwargs = _find_arguments(parts, (step.batch.args, step.batch.kwargs))
    except _UnknownPartError:
        return None
    target = _find_target(setup, step, parts, guess)
    learned = LearnedUnpack(args, kwargs, guessed[2] if target is None else (target,))
    return None if learned.is_like(LearnedUnpack(*guessed)) else learned


def _find_arguments(parts: Mapping[_Path, Tensor], tree: Any) -> Any:
    return tree_map(tree, lambda leaf: _find_argument(parts, leaf))


def _find_argument(parts: Mapping[_Path, Tensor], argument: Any) -> Any:
    """Return the part of the batch that an argument is, or a constant; raise _UnknownPartError for any other."""
    if isinstance(argument, _CONSTANT_TYPES) or _is_empty(argument):
        return argument
    part = _find_part(parts, argument) if isinstance(argument, Tensor) else None
    if part is None:
        raise _UnknownPartError
    return part


def _is_empty(argument: Any) -> bool:
    return isinstance(argument, (tuple, list, dict)) and not argument


def _find_part(parts: Mapping[_Path, Tensor], tensor: Tensor) -> _Part | None:
    """Return the part that a tensor is: the same object or memory, else equal values in another type or row shape.

    Equal values tell nothing if all of them are the same, as in a mask of ones.
    """
    for path, part in parts.items():
        if part is tensor or _share_memory(part, tensor):
            return _Part(path, tensor.dtype)
    for path, part in parts.items():
        if _have_equal_rows(part, tensor):
            return _Part(path, tensor.dtype, None if part.shape == tensor.shape else tensor.shape[1:])
    return None


def _share_memory(part: Tensor, tensor: Tensor) -> bool:
    same_form = part.shape == tensor.shape and part.dtype == tensor.dtype and part.device == tensor.device
    if not same_form or part.layout is not torch.strided or tensor.layout is not torch.strided or part.is_nested:
        return False
    return part.numel() > 0 and part.stride() == tensor.stride() and part.data_ptr() == tensor.data_ptr()


def _have_equal_rows(part: Tensor, tensor: Tensor) -> bool:
    """Return whether two tensors hold the same rows, of which not all values are equal."""
    if not part.dim() or not tensor.dim() or len(part) != len(tensor) or part.numel() != tensor.numel():
        return False
    if any(t.is_complex() or t.is_nested or t.layout is not torch.strided for t in (part, tensor)):
        return False
    values, others = part.detach().to(tensor.device, tensor.dtype).flatten(), tensor.detach().flatten()
    return values.numel() > 1 and torch.equal(values, others) and bool((values != values[0]).any())


def _find_target(setup: Setup, step: TracedStep, parts: Mapping[_Path, Tensor], guess: Batch) -> _Part | None:
    """Return the only part of the batch that the loss is computed from; None if it is guessed too, or not clear."""
    if setup.loss_fn is None:
        return None
    read = {part.path: part for tensor in _loss_inputs(step) if (part := _find_part(parts, tensor)) is not None}
    guessed = {part.path for t in tree_tensors(guess.targets) if (part := _find_part(parts, t)) is not None}
    if read.keys() & guessed or len(read) != 1 or count_targets(setup.loss_fn) != 1:
        return None
    (part,) = read.values()
    return _Part(part.path, parts[part.path].dtype)  # the loss converts it


def _loss_inputs(step: TracedStep) -> Iterator[Tensor]:
    """Yield the tensors without a graph that the calls behind the loss start from."""
    needed = {id(step.loss)}
    made = {id(tensor) for call in step.loss_calls for tensor in call.outputs}
    for call in reversed(step.loss_calls):
        if any(id(tensor) in needed for tensor in call.outputs):
            needed |= {id(tensor) for tensor in call.inputs}
            yield from (t for t in call.inputs if id(t) not in made and not t.requires_grad)
