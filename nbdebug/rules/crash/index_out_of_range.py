"""X1013: an index or an axis is outside a tensor."""

from __future__ import annotations

import ast
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.candidate_changes import changed_squeezes
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import assigned_value, wrap_at_source
from nbdebug.crashes.number_literals import find_number_literal
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node, wrap_node

_INDEXING = ("gather", "scatter", "scatter_", "index_select", "take", "index_add_", "select", "index", "one_hot")


@crash_rule("X1013")
def index_out_of_range(crash: Crash) -> CrashCause | list[CrashCause] | None:
    """An index is outside the tensor, is not an integer, or names an axis that the tensor does not have.

    ## What it does
    Reads the tensor and the index in the user's code: its dtype first, then its largest and smallest value, or the
    number of axes.

    ## Why it matters
    The operation cannot run. On a GPU, a device-side assertion ends the process.

    ## How it is measured
    Exactly, by the values.

    ## How to fix
    Convert indices to integers with ``.long()``, count them from 0, and name an axis that exists.

    ## When to ignore
    Never: there is no such element.

    ## References
    Documentation of torch.gather and of tensor indexing.
    """
    if crash.own is None:
        return None
    if crash.operation == "one_hot" or crash.has_torch_function("one_hot"):
        return _one_hot(crash)
    if crash.operation not in _INDEXING:
        return _axis_or_squeeze(crash)
    return _float_index(crash) or _outside(crash) or _axis_or_squeeze(crash)


def _axis_or_squeeze(crash: Crash) -> list[CrashCause] | None:
    """Explain an axis that there is not: a squeeze() has removed it, or the number of the axis is wrong."""
    explanation = _axis(crash) if "Dimension out of range" in crash.message else None
    return [*changed_squeezes(crash, explanation), explanation] if explanation is not None else None


def _indices(crash: Crash) -> list[tuple[ast.expr, Tensor]]:
    """Return the tensors that index another one."""
    tensors = crash.tensors
    if isinstance(crash.node, ast.Subscript):
        keys = crash.node.slice.elts if isinstance(crash.node.slice, ast.Tuple) else [crash.node.slice]
        values = [(key, crash.value(key)) for key in keys]
        return [(key, value) for key, value in values if isinstance(value, Tensor)]
    return tensors[1:2]


def _float_index(crash: Crash) -> CrashCause | None:
    for node in _slice_bounds(crash):
        if isinstance(value := crash.value(node), float):
            text = crash.text(node)
            made = assigned_value(crash, node)
            message = f"The slice bound {text} is the floating-point number {value:g}; slices take integers."
            edit = wrap_node(crash.own.file, made if made is not None else node, "int({})")  # type: ignore[union-attr]
            return CrashCause(message, f"Make an integer of it: int({text}).", edits=(edit,))
    for node, value in _indices(crash):
        if value.is_floating_point():
            text = crash.text(node)
            message = f"The index {text} of {crash.operation} is {describe_tensor(value)}; indices are int64 (long)."
            cause = f"{text} holds floating-point numbers."
            return CrashCause(message, cause, edits=wrap_at_source(crash, node, "{}.long()"))
    if crash.operation in ("gather", "scatter", "scatter_", "index_select") and "int64" in crash.message:
        for node, value in _indices(crash)[:1]:
            message = f"The index {crash.text(node)} of {crash.operation} is {describe_tensor(value)}; it takes int64."
            return CrashCause(message, "The index has another dtype.", edits=wrap_at_source(crash, node, "{}.long()"))
    return None


def _slice_bounds(crash: Crash) -> list[ast.expr]:
    """Return the bounds of the slices in the user's expression."""
    key = crash.node.slice if isinstance(crash.node, ast.Subscript) else None
    slices = [part for part in ast.walk(key) if isinstance(part, ast.Slice)] if key is not None else []
    return [bound for part in slices for bound in (part.lower, part.upper, part.step) if bound is not None]


def _outside(crash: Crash) -> CrashCause | None:
    tensors = crash.tensors
    if not tensors:
        return None
    owner_node, owner = tensors[0]
    for position, (node, value) in enumerate(_indices(crash)):
        if not value.numel() or value.is_meta:
            continue
        if value.dtype.is_floating_point or value.dtype.is_complex:
            continue
        if str(value.dtype) in ("torch.bool", "torch.uint8"):
            return _mask(crash, owner_node, owner, node, value)
        axis = _indexed_axis(crash, position)
        size = owner.shape[axis] if -owner.dim() <= axis < owner.dim() else None
        low, high = int(value.min()), int(value.max())
        if size is not None and (high >= size or low < -size):
            text, source = crash.text(node), crash.text(owner_node)
            message = f"{source} is {describe_tensor(owner)}: axis {axis} has {size} entries, 0…{size - 1}; the index "
            message += f"{text} runs from {low} to {high}."
            from_one = high == size and low >= 1
            edits = wrap_at_source(crash, node, "{} - 1") if from_one else ()
            cause = "The index counts from 1." if from_one else f"The tensor needs {high + 1} entries on this axis."
            fix = "" if edits else f"# make axis {axis} of {source} {high + 1} long, or renumber {text}"
            evidence = {"indices": (low, high), "valid": (0, size - 1)}
            return CrashCause(message, cause, fix, edits, evidence=evidence)
    return _number(crash, owner_node, owner)


def _mask(crash: Crash, owner_node: ast.expr, owner: Tensor, node: ast.expr, value: Tensor) -> CrashCause | None:
    axes = [a for a in range(min(owner.dim(), value.dim())) if owner.shape[a] != value.shape[a]]
    if not axes and value.dim() <= owner.dim():
        return None
    text, source = crash.text(node), crash.text(owner_node)
    message = f"The mask {text} is {describe_tensor(value)}, and {source} is {describe_tensor(owner)}."
    edits: tuple[Edit, ...] = ()
    cause = "A mask has the shape of the first axes of what it selects from."
    if len(axes) == 1 and value.shape[axes[0]] > owner.shape[axes[0]] and crash.own is not None:
        axis, extra = axes[0], value.shape[axes[0]] - owner.shape[axes[0]]
        cause += f" Axis {axis} of the mask has {extra} entries more: {value.shape[axis]} and {owner.shape[axis]}."
        edits = (replace_node(crash.own.file, node, f"{text}[{':, ' * axis}{extra}:]"),)
    return CrashCause(message, cause, "" if edits else f"# give {text} the shape {[*owner.shape]}", edits)


def _indexed_axis(crash: Crash, position: int) -> int:
    if isinstance(crash.node, ast.Subscript):
        keys = crash.node.slice.elts if isinstance(crash.node.slice, ast.Tuple) else [crash.node.slice]
        tensor_keys = [i for i, key in enumerate(keys) if isinstance(crash.value(key), Tensor)]
        return tensor_keys[position]
    numbers = [value for _, value in crash.operands if isinstance(value, int) and not isinstance(value, bool)]
    return numbers[0] if numbers else 0


def _number(crash: Crash, owner_node: ast.expr, owner: Tensor) -> CrashCause | None:
    """Explain a plain number that indexes a tensor."""
    if not isinstance(crash.node, ast.Subscript):
        return None
    keys = crash.node.slice.elts if isinstance(crash.node.slice, ast.Tuple) else [crash.node.slice]
    if len(keys) > owner.dim():
        message = (
            f"{crash.text(owner_node)} is {describe_tensor(owner)}, with {owner.dim()} axes; {len(keys)} are indexed."
        )
        return CrashCause(message, "The tensor has fewer axes than the index.", "# print its shape before this line")
    for axis, key in enumerate(keys):
        value = crash.value(key)
        if isinstance(value, int) and not -owner.shape[axis] <= value < owner.shape[axis]:
            size, text = owner.shape[axis], crash.text(owner_node)
            message = f"{text} is {describe_tensor(owner)}: axis {axis} has {size} entries, 0…{size - 1}, not {value}."
            fix, evidence = f"Use an index from 0 to {size - 1}.", {"index": value, "valid": (0, size - 1)}
            if value != size or crash.own is None:
                return CrashCause(message, "Indices start at 0.", fix, evidence=evidence)
            shifted = str(size - 1) if isinstance(key, ast.Constant) else f"{crash.text(key)} - 1"
            edit = replace_node(crash.own.file, key, shifted)
            return CrashCause(message, "Indices start at 0.", edits=(edit,), evidence=evidence)
        if isinstance(value, float) and crash.own is not None:
            message = f"{crash.text(owner_node)} is indexed with the number {value}; indices are integers."
            return CrashCause(
                message,
                f"{crash.text(key)} is a float, as a division with / gives.",
                edits=(replace_node(crash.own.file, key, f"int({crash.text(key)})"),),
            )
    return None


def _axis(crash: Crash) -> CrashCause | None:
    """Explain an axis that a tensor does not have."""
    owner = next(iter(crash.tensors), None)
    if owner is None:
        return None
    node, value = owner
    axes = [(n, v) for n, v in crash.operands if type(v) is int and not -value.dim() <= v < max(value.dim(), 1)]
    if not axes or crash.own is None:
        return None
    axis_node, axis = axes[0]
    message = f"{crash.text(node)} is {describe_tensor(value)}: it has {value.dim()} axes, so there is no axis {axis}."
    edits = (replace_node(crash.own.file, axis_node, "-1"),) if value.dim() else ()
    return CrashCause(message, "The tensor has fewer axes than expected.", "# print its shape before", edits)


def _one_hot(crash: Crash) -> CrashCause | None:
    tensors = crash.tensors
    number = next((v for _, v in crash.operands if type(v) is int), None)
    number_node = next((n for n, v in crash.operands if type(v) is int), None)
    if not tensors or crash.own is None or not tensors[0][1].numel():
        return None
    node, value = tensors[0]
    text = crash.text(node)
    if value.is_floating_point() or str(value.dtype) != "torch.int64":
        message = f"one_hot takes int64 (long) class indices; {text} is {describe_tensor(value)}."
        return CrashCause(message, "The classes have another dtype.", edits=wrap_at_source(crash, node, "{}.long()"))
    low, high = int(value.min()), int(value.max())
    message = f"one_hot with num_classes={number} takes 0…{(number or 0) - 1}; {text} runs from {low} to {high}."
    if low < 0 or number is None or number_node is None:
        return CrashCause(message, "A negative value is no class.", f"{text}.clamp(min=0)")
    if low >= 1 and high == number:
        return CrashCause(message, "The classes count from 1.", edits=wrap_at_source(crash, node, "{} - 1"))
    constant = find_number_literal(crash, crash.own.file, number_node)
    file, wrong = constant if constant is not None else (crash.own.file, number_node)
    edit = replace_node(file, wrong, str(high + 1))
    return CrashCause(message, f"num_classes must be {high + 1}.", edits=(edit,))


class _Picking(nn.Module):
    def __init__(self, column: int) -> None:
        super().__init__()
        self.net, self.column = network(3), column

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.net(x) + x[:, self.column].unsqueeze(1)
        return out


def _picking(column: int) -> Setup:
    setup: Any = minimal_setup(_Picking(column), *points(), nn.CrossEntropyLoss())
    return setup  # type: ignore[no-any-return]


def bad() -> Setup:
    """The fifth of four columns."""
    return _picking(4)


def good() -> Setup:
    """The fourth of four columns."""
    return _picking(3)
