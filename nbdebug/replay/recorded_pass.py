"""Recorded passes of a loop, their random state and buffers, and the incidents frozen from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.utils.rnn import PackedSequence

from nbdebug.autograd.non_finite import NonFiniteOrigin
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine
from nbdebug.tensors.pytree import tree_map, tree_tensors
from nbdebug.tensors.sampling import max_absolute

_AutocastState = tuple[tuple[str, bool, torch.dtype], ...]  # autocast state of each device type
_MAX_BUFFER_BYTES = 1 << 20
Phase = Literal["loss", "gradient"]
_PLAIN_TYPES = (Tensor, nn.Parameter)  # other types may be distributed over processes
TensorCopies = list[tuple[Tensor, Tensor]]  # the user's tensor, and a copy of its values


@dataclass(slots=True)
class RecordedForward:
    """A call of the model: its arguments, random state and autocast state."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    random_state: dict[str, Tensor]
    autocast: _AutocastState
    versions: list[int] = field(default_factory=list)

    @property
    def is_modified(self) -> bool:
        """True if a tensor among the arguments was modified since the call."""
        return tensor_versions(self.args, self.kwargs) != self.versions

    def copy(self) -> RecordedForward:
        """Return a copy with its own argument tensors."""
        args, kwargs = tree_map((self.args, self.kwargs), _clone_leaf)
        return replace(self, args=args, kwargs=kwargs)


@dataclass(slots=True)
class RecordedBatch:
    """A batch from the loader, with its dataset indices if known, and the random state."""

    batch: Any
    random_state: dict[str, Tensor]
    indices: tuple[int, ...] | None = None

    def copy(self) -> RecordedBatch:
        """Return a copy with its own batch tensors."""
        return replace(self, batch=tree_map(self.batch, _clone_leaf))


@dataclass(slots=True)
class RecordedPass:
    """Everything before one backward pass: forward calls, the last drawn batch, targets of the loss, and the loss."""

    forwards: list[RecordedForward] = field(default_factory=list)
    last_batch: RecordedBatch | None = None
    targets: tuple[Any, ...] | None = None
    loss: float | None = None
    bytes: int = 0

    def copy(self) -> RecordedPass:
        """Return a copy with its own tensors."""
        last_batch = self.last_batch.copy() if self.last_batch else None
        targets = tree_map(self.targets, _clone_leaf) if self.targets is not None else None
        return RecordedPass([forward.copy() for forward in self.forwards], last_batch, targets, self.loss)

    def with_size(self) -> RecordedPass:
        """Set and return the pass with the memory size of its tensors."""
        arguments = [(tensor.args, tensor.kwargs) for tensor in self.forwards]
        self.bytes = sum(tensor.numel() * tensor.element_size() for tensor in tree_tensors((arguments, self.targets)))
        return self


def depends_on_context(calls: Sequence[RecordedForward], current_state: dict[str, Tensor]) -> bool:
    """Check whether some calls drew random numbers, so that ``current_state`` differs, or used autocast."""
    drew_random_numbers = bool(calls) and any(
        not torch.equal(state, current_state[device]) for device, state in calls[0].random_state.items()
    )
    return drew_random_numbers or any(call.autocast for call in calls)


def without_graph(tree: Any) -> Any:
    """Return the arguments by reference, without the graphs of their tensors."""
    if isinstance(tree, tuple) and not any(_may_have_graph(argument) for argument in tree):
        return tree
    return tree_map(
        tree,
        lambda argument: (
            argument.detach() if isinstance(argument, Tensor) and argument.grad_fn is not None else argument
        ),
    )


def _may_have_graph(argument: Any) -> bool:
    """Check whether an argument may have a graph."""
    return (
        argument.grad_fn is not None if isinstance(argument, Tensor) else isinstance(argument, (tuple, list, Mapping))
    )


def _clone_leaf(leaf: Any) -> Any:
    """Clone a tensor or a packed sequence; return anything else unchanged."""
    if isinstance(leaf, Tensor):
        clone = leaf.detach().clone()
        return clone.requires_grad_() if leaf.requires_grad and leaf.is_leaf else clone
    if isinstance(leaf, PackedSequence):
        return PackedSequence(leaf.data.detach().clone(), *leaf[1:])
    return leaf


def tensor_versions(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[int]:
    """Return the version counter of each tensor argument; inference tensors have none."""
    values = [*args, *kwargs.values()] if kwargs else args
    return [value._version for value in values if isinstance(value, Tensor) and not value.is_inference()]


def random_state(device: str) -> dict[str, Tensor]:
    """Return the state of torch's generators on the CPU and on a device, without synchronization."""
    state = {"cpu": torch.default_generator.get_state()}
    if device == "mps":
        state[device] = torch.mps.get_rng_state()
    elif device.startswith("cuda"):
        state[device] = torch.cuda.get_rng_state(device)
    return state


def _set_random_state(state: dict[str, Tensor]) -> None:
    """Restore a state returned by ``random_state``."""
    for device, value in state.items():
        if device == "cpu":
            torch.set_rng_state(value)
        elif device == "mps":
            torch.mps.set_rng_state(value)
        else:
            torch.cuda.set_rng_state(value, device)


def autocast_state(device_types: Iterable[str]) -> _AutocastState:
    """Return the enabled autocast settings of some device types."""
    return tuple(
        [
            (device_type, True, torch.get_autocast_dtype(device_type))
            for device_type in device_types
            if torch.is_autocast_enabled(device_type)
        ]
    )


@contextmanager
def restored_context(state: dict[str, Tensor], autocast: _AutocastState) -> Iterator[None]:
    """Set a random state, and run the block under some autocast settings."""
    with ExitStack() as stack:
        for device_type, is_enabled, dtype in autocast:
            stack.enter_context(torch.autocast(device_type, dtype, enabled=is_enabled))
        _set_random_state(state)
        yield


class BufferCopies:
    """Copies of the buffers that change from pass to pass, updated when they change; large ones are skipped.

    Running statistics are skipped too: in train mode a normalization layer writes them without reading them.
    """

    def __init__(self, model: nn.Module) -> None:
        owners = (module for module in model.modules() if not isinstance(module, _NormBase))
        by_id = {id(buffer): buffer for owner in owners for buffer in owner.buffers(recurse=False)}
        copyable_buffers = [
            buffer for buffer in by_id.values() if not buffer.is_inference() and buffer.layout == torch.strided
        ]
        fits = sum(buffer.numel() * buffer.element_size() for buffer in copyable_buffers) <= _MAX_BUFFER_BYTES
        self.buffers = copyable_buffers if fits else []
        self.copies = {id(buffer): (buffer._version, buffer.clone()) for buffer in self.buffers}

    def update(self) -> None:
        """Copy the buffers that were modified since the last update."""
        for buffer in self.buffers:
            if self.copies[id(buffer)][0] != buffer._version:
                self.copies[id(buffer)] = (buffer._version, buffer.clone())

    def copy_before_pass(self, tensor: Tensor) -> Tensor | None:
        """Return the copy of a buffer; None if it has none."""
        entry = self.copies.get(id(tensor))
        return entry[1] if entry else None


@dataclass
class Incident:
    """A step whose loss or gradient was not finite.

    ``passes`` led to it, in order; ``weights`` are None if they were not copied. ``largest_weights`` holds the largest
    absolute weights before training and now, ``operation`` the one found in the graph of the loss, ``line`` that of the
    backward pass or the step. For the last ``loss_only_steps`` steps only the loss was recorded.
    """

    step: int
    phase: Phase
    loss: float | None
    passes: list[RecordedPass]
    weights: TensorCopies | None
    modes: list[tuple[nn.Module, bool]]
    largest_weights: tuple[float, float] = (math.nan, math.nan)
    operation: NonFiniteOrigin | None = None
    line: SourceLine | None = None
    notes: list[str] = field(default_factory=list)
    loss_only_steps: int = 0

    def restore(self) -> None:
        """Write the frozen weights and modes into the user's objects; must be called inside a Preserve."""
        with torch.no_grad():
            for tensor, value in self.weights or ():
                tensor.copy_(value)
        for module, training in self.modes:
            module.training = training


def state_tensors(setup: Setup) -> list[Tensor]:
    """Return every parameter and buffer of the model and of a loss module, without repetition."""
    owners = [setup.eager_model, *([setup.loss_fn] if isinstance(setup.loss_fn, nn.Module) else [])]
    tensors = [tensor for owner in owners for tensor in (*owner.parameters(), *owner.buffers())]
    return list({id(tensor): tensor for tensor in tensors}.values())


def module_modes(setup: Setup) -> list[tuple[nn.Module, bool]]:
    """Return every module with its train or eval mode."""
    return [
        (module, module.training)
        for module in setup.eager_model.modules()
        if not isinstance(module, torch.jit.ScriptModule)
    ]


def copy_tensors(tensors: Iterable[Tensor], buffers: BufferCopies) -> TensorCopies:
    """Return tensors with copies; for a buffer that the pass modified, the copy from before."""
    pairs = ((tensor, buffers.copy_before_pass(tensor)) for tensor in tensors)
    return [
        (tensor, tensor.detach().clone() if earlier_copy is None else earlier_copy.clone())
        for tensor, earlier_copy in pairs
    ]


def size_in_bytes(tensors: Sequence[Tensor]) -> int:
    """Return the size of some tensors in bytes."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def largest_absolute_value(tensors: Iterable[Tensor]) -> float:
    """Return the largest absolute value in some tensors."""
    values = [p for p in tensors if type(p) in _PLAIN_TYPES and p.layout == torch.strided and p.numel()]
    return max((float(max_absolute(value)) for value in values), default=0.0)
