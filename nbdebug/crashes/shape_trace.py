"""The shapes from the batch to the operation that raised, module by module."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from nbdebug.crashes.crash import Crash, describe_tensor
from nbdebug.crashes.meta import copy_model
from nbdebug.crashes.model_copies import ModelCall, find_model_call
from nbdebug.tensors.pytree import tree_tensors

_MAX_TENSORS, _MAX_ROWS = 4, 200


@dataclass(frozen=True)
class TraceRow:
    """One call of a module: its inputs and outputs; ``status`` is "ran", "raised" or, around that one, "cut off"."""

    path: str
    kind: str
    inputs: str
    outputs: str
    status: str


def trace_shapes(crash: Crash) -> tuple[TraceRow, ...]:
    """Return the calls of the model's parts in order, up to the one that raised; empty if they are unknown.

    They come from one forward pass of a copy on the meta device, which computes no values; if the copy does not raise
    as the model did, from the frames.
    """
    try:
        call = find_model_call(crash)
        rows = _trace_copy(call, crash) if call is not None else []
        return tuple(rows or _trace_frames(crash))[-_MAX_ROWS:]
    except Exception:
        return ()


def _trace_copy(call: ModelCall, crash: Crash) -> list[TraceRow]:
    model = copy_model(call.model)
    paths = {module: path for path, module in model.named_modules()}
    open_rows: list[int] = []
    rows: list[TraceRow] = []

    def enter(module: nn.Module, args: Any, kwargs: Any) -> None:
        open_rows.append(len(rows))
        rows.append(TraceRow(paths[module], type(module).__name__, _describe((args, kwargs)), "", "cut off"))

    def leave(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        index = open_rows.pop()
        row = rows[index]
        rows[index] = TraceRow(row.path, row.kind, row.inputs, _describe(output), "ran")

    for module in paths:
        module.register_forward_pre_hook(enter, with_kwargs=True)
        module.register_forward_hook(leave, with_kwargs=True)
    try:
        call.run(model)
    except Exception as error:
        if type(error) is not type(crash.error) or not open_rows:
            return []
        row = rows[open_rows[-1]]
        rows[open_rows[-1]] = TraceRow(row.path, row.kind, row.inputs, "", "raised")
        return rows
    # Values decide whether the pass raises: an index out of range, or the loss.
    return rows if crash.layer is None or crash.path(crash.layer) is None else []


def _trace_frames(crash: Crash) -> list[TraceRow]:
    """Return the modules on the stack with their arguments."""
    rows: list[TraceRow] = []
    for frame in crash.frames:
        owner = frame.variables.get("self")
        if frame.function == "_call_impl" and isinstance(owner, nn.Module):
            inputs = _describe((frame.variables.get("args"), frame.variables.get("kwargs")))
            rows.append(TraceRow(crash.path(owner) or "", type(owner).__name__, inputs, "", "cut off"))
    return [*rows[:-1], *(TraceRow(row.path, row.kind, row.inputs, "", "raised") for row in rows[-1:])]


def _describe(tree: Any) -> str:
    tensors = tree_tensors(tree)
    texts = [describe_tensor(tensor) for tensor in tensors[:_MAX_TENSORS]]
    return ", ".join(texts) + (f", +{len(tensors) - _MAX_TENSORS}" if len(tensors) > _MAX_TENSORS else "")
