"""Changes of inputs, operands, layers and statements that may let a crashed operation run, for a trial to decide.

They are tried one at a time where a rule knows no fix that runs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from nbdebug.crashes.crash import Crash, describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.frames import CrashFrame
from nbdebug.crashes.inputs import outermost_place
from nbdebug.crashes.layer_sizes import change_layer, changed_outputs, input_option, map_options
from nbdebug.crashes.model_copies import find_model_call
from nbdebug.crashes.operand_statements import producing_statements
from nbdebug.crashes.repairs import apply_template, wrap_operand
from nbdebug.crashes.rewrites import rewrites
from nbdebug.source.edits import node_text, replace_node, wrap_node
from nbdebug.source.search import call_name
from nbdebug.tensors.pytree import tree_tensors

_MAX_OPERANDS = 4
_MAX_SIZES = 6


def changed_squeezes(crash: Crash, explanation: CrashCause) -> Iterator[CrashCause]:
    """Yield an explanation with a squeeze() that removes all axes of size 1 replaced by one that keeps the batch."""
    for file, statement in producing_statements(crash):
        for call in ast.walk(statement):
            subject = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
            if not isinstance(call, ast.Call) or call_name(call) != "squeeze" or subject is None:
                continue
            if call.args or call.keywords:
                continue
            for method in ("flatten(1)", "squeeze(-1)", "squeeze(1)"):
                cause = (
                    f"{explanation.cause} squeeze() removes every axis of size 1, also that of a batch of one sample: "
                )
                cause += f"{method} keeps the batch."
                edit = replace_node(file, call, f"{node_text(file, subject)}.{method}")
                yield replace(explanation, cause=cause.strip(), fix="", edits=(edit,), modules={}, line=None)


def changed_inputs(crash: Crash, explanation: CrashCause) -> Iterator[CrashCause]:
    """Yield an explanation with one input of the model changed where it is passed in, likely changes first."""
    call = find_model_call(crash)
    if call is None or call.frame is None:
        return
    for node, value in _arguments(call.frame, call.args):
        place = outermost_place(crash, node, start=call.frame)
        for template, difference in _axis_changes(value) if place is not None else ():
            frame, expression = place  # type: ignore[misc]
            cause = f"The input {ast.unparse(expression)} is {describe_tensor(value)}: {difference}."
            edits = (wrap_node(frame.file, expression, template),)
            yield replace(explanation, cause=cause, fix="", edits=edits, modules={}, line=None)


def changed_operands(crash: Crash, explanation: CrashCause) -> Iterator[CrashCause]:
    """Yield an explanation with one operand of the user's expression changed there, likely changes first."""
    tensors = crash.tensors[:_MAX_OPERANDS]
    for position, (node, value) in enumerate(tensors):
        others = [other for index, (_, other) in enumerate(tensors) if index != position]
        changes = [*_dtype_changes(value, others), *_expansions(value, others), *_axis_changes(value)]
        for template, difference in changes:
            if _loses_batch_axis(value, template, others):
                continue
            cause = f"{crash.text(node)} is {describe_tensor(value)}: {difference}."
            edits = wrap_operand(crash, node, template)
            yield replace(explanation, cause=cause, fix="", edits=edits, modules={}, line=None)


def changed_layers(crash: Crash, explanation: CrashCause) -> Iterator[CrashCause]:
    """Yield an explanation with one layer changed so that it makes maps of the size of another operand."""
    shapes = [tuple(value.shape) for value in _tensors_at_break(crash)]
    pairs = {
        (size, other)
        for first in shapes
        for second in shapes
        for size, other in zip(first[::-1], second[::-1], strict=False)
        if size != other
    }
    if (option := input_option(crash.layer)) is not None and isinstance(crash.layer_input, Tensor):
        pairs |= {(size, option[1]) for size in crash.layer_input.shape[1:]}
    for layer, name, value, change in changed_outputs(crash, pairs):
        path = crash.path(layer) or type(layer).__name__
        cause = f"{explanation.cause} With {name}={value}, the layer {path} makes that size.".strip()
        yield replace(explanation, cause=cause, fix="", edits=change.edits, modules=change.modules, line=None)


def changed_maps(crash: Crash, explanation: CrashCause) -> Iterator[CrashCause]:
    """Yield an explanation with the padding or another option of one layer changed, which sets the size of its maps."""
    if crash.root is None or not any(value.dim() > 2 for value in _tensors_at_break(crash)):
        return
    for layer, name, value in map_options(crash.root):
        change = change_layer(crash, layer, name, value)
        if change is not None:
            path = crash.path(layer) or type(layer).__name__
            cause = f"{explanation.cause} With {name}={value}, the layer {path} makes maps that fit.".strip()
            yield replace(explanation, cause=cause, fix="", edits=change.edits, modules=change.modules, line=None)


def changed_statements(crash: Crash, explanation: CrashCause) -> Iterator[CrashCause]:
    """Yield an explanation with one call changed, in the statement that raised or in one that makes its values."""
    numbers = dict.fromkeys(size for value in _tensors_at_break(crash) for size in value.shape[1:] if size > 1)
    sizes = [*numbers][:_MAX_SIZES]
    for file, statement in producing_statements(crash):
        for edit, text in rewrites(file, statement, sizes):
            cause = f"{explanation.cause} With {' '.join(text.split())}, the shapes fit.".strip()
            yield replace(explanation, cause=cause, fix="", edits=(edit,), modules={}, line=None)


def _tensors_at_break(crash: Crash) -> list[Tensor]:
    """Return the tensors that met at the operation that raised."""
    tensors = [*tree_tensors(crash.layer_input), *(value for _, value in crash.tensors)]
    for name in ("input", "target", "weight"):
        tensors += [value] if isinstance(value := crash.local(name), Tensor) else []
    return tensors


def _loses_batch_axis(value: Tensor, template: str, others: list[Tensor]) -> bool:
    """Return whether a change removes or adds a first axis, whose size the operands share."""
    if "transpose" in template or value.dim() == 0 or all(other.shape[:1] != value.shape[:1] for other in others):
        return False
    changed = apply_template(template, value)
    return changed is None or changed.shape[:1] != value.shape[:1]


def _arguments(frame: CrashFrame, values: tuple[object, ...]) -> Iterator[tuple[ast.expr, Tensor]]:
    node = frame.node
    if not isinstance(node, ast.Call) or any(isinstance(argument, ast.Starred) for argument in node.args):
        return
    for argument, value in zip(node.args, values, strict=False):
        if isinstance(value, Tensor):
            yield argument, value


def _axis_changes(value: Tensor) -> Iterator[tuple[str, str]]:
    """Yield templates that change the axes of a tensor, with what each supposes of it."""
    axes = value.dim()
    yield "{}.unsqueeze(0)", "it has no batch axis"
    if axes >= 2:
        yield "{}.unsqueeze(1)", "it has no channel axis"
    if axes >= 3:
        yield "{}.movedim(-1, 1)", "its channels are on the last axis"
        yield "{}.transpose(1, 2)", "its axes 1 and 2 are exchanged"
    if axes >= 2:
        yield "{}.transpose(0, 1)", "its axes 0 and 1 are exchanged"
    if axes >= 3:
        yield "{}.flatten(1)", "its axes from 1 on are not flattened"
        yield "{}.flatten(0, 1)", "its axes 0 and 1 are not flattened"
    for axis in range(axes):
        if value.shape[axis] == 1:
            yield f"{{}}.squeeze({axis})", f"its axis {axis}, of size 1, is one too many"
    if axes:
        yield "{}.unsqueeze(-1)", "it has one axis too few at the end"


def _dtype_changes(value: Tensor, others: list[Tensor]) -> Iterator[tuple[str, str]]:
    for dtype in dict.fromkeys(other.dtype for other in others if other.dtype != value.dtype):
        if dtype.is_floating_point or not value.dtype.is_floating_point:
            yield f"{{}}.to({dtype})", f"the other is {str(dtype).removeprefix('torch.')}"
    if value.dtype.is_floating_point:
        yield "{}.long()", "integers are needed"
    else:
        yield "{}.float()", "floating-point numbers are needed"
        if value.dtype is not torch.bool:
            yield "{}.bool()", "a mask is needed"


def _expansions(value: Tensor, others: list[Tensor]) -> Iterator[tuple[str, str]]:
    """Yield the expansion of axes of size 1 to the sizes of another operand."""
    for other in others:
        if value.dim() != other.dim():
            continue
        for axis, (size, wanted) in enumerate(zip(value.shape, other.shape, strict=True)):
            if size == 1 and wanted > 1:
                sizes = ", ".join(str(wanted) if index == axis else "-1" for index in range(value.dim()))
                yield f"{{}}.expand({sizes})", f"its axis {axis} has size 1, and the other's {wanted}"
