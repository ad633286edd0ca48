"""Calls that arrange, convert or select the values of a tensor, and how to repeat them on another tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall
from nbdebug.tensors.pytree import tree_tensors

_SELECTIONS = frozenset({"getitem", "select", "narrow", "split", "tensor_split", "chunk", "unbind"})
_LAYOUT_CALLS = _SELECTIONS | {
    *("view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "movedim", "swapaxes"),
    *("contiguous", "float", "double", "long", "to", "type", "clone"),
}


@dataclass(frozen=True)
class LayoutChange:
    """One call on a tensor; ``position`` is that of the tensor among several that it returns."""

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    position: int

    @property
    def is_selection(self) -> bool:
        """True if the call leaves values out."""
        return self.name in _SELECTIONS

    def apply(self, tensor: Tensor) -> Tensor:
        """Return the result of the call for another tensor."""
        result = getattr(tensor, "__getitem__" if self.name == "getitem" else self.name)(*self.args, **self.kwargs)
        return tree_tensors(result)[self.position]


def find_changes(calls: Sequence[TorchCall], start: Tensor, end: Tensor) -> list[LayoutChange] | None:
    """Return the layout calls that lead from one tensor to another; None if other calls do."""
    changes: list[LayoutChange] = []
    while end is not start:
        call = _maker(calls, end)
        if call is None or call.name not in _LAYOUT_CALLS or len(call.inputs) != 1 or call.inputs[0] is end:
            return None
        position = next(k for k, tensor in enumerate(call.outputs) if tensor is end)
        changes.append(LayoutChange(call.name, tuple(call.args[1:]), dict(call.kwargs), position))
        end = call.inputs[0]
    return changes[::-1]


def find_whole(calls: Sequence[TorchCall], end: Tensor) -> Tensor:
    """Return the first tensor of which another one is an arrangement or a conversion that leaves no value out."""
    while (call := _maker(calls, end)) is not None and _keeps_values(call, end):
        end = call.inputs[0]
    return end


def _maker(calls: Sequence[TorchCall], tensor: Tensor) -> TorchCall | None:
    return next((call for call in calls if any(output is tensor for output in call.outputs)), None)


def _keeps_values(call: TorchCall, result: Tensor) -> bool:
    is_layout = call.name in _LAYOUT_CALLS and len(call.inputs) == 1 and call.inputs[0] is not result
    return is_layout and call.inputs[0].numel() == result.numel()


def find_part(calls: Sequence[TorchCall], output: Tensor, operand: Tensor) -> tuple[LayoutChange, ...]:
    """Return the calls that select an operand with a row for each sample from an output; none for the whole output.

    A single channel of a sequence has a score for each position, so its classes are positions, and it is no part.
    """
    changes = find_changes(calls, output, operand) or []
    has_rows = output.dim() and operand.dim() and len(output) == len(operand)
    has_rows = has_rows and (output.dim() == 2 or operand.dim() == output.dim())
    return tuple(changes) if has_rows and any(change.is_selection for change in changes) else ()


def apply_changes(tensor: Tensor, changes: Sequence[LayoutChange]) -> Tensor:
    """Return a tensor after some calls."""
    for change in changes:
        tensor = change.apply(tensor)
    return tensor
