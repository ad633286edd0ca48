"""X1004: two tensors of an elementwise operation have unlike shapes."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.branches import find_layer_change, find_projection
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import Change
from nbdebug.crashes.repairs import (
    apply_template,
    first_running_change,
    owner_of_parameter,
    resize_parameter,
    wrap_operand,
)
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(torch, name)
    for name in ("add", "sub", "mul", "div", "pow", "where", "maximum", "minimum", "eq", "lt", "gt", "logical_and")
} | {
    "add_": torch.add,
    "mul_": torch.mul,
    "sub_": torch.sub,
    "div_": torch.div,
    "masked_fill_": torch.mul,
    "masked_fill": torch.mul,
}
_CHANGES = (
    "{}.unsqueeze(-1)",
    "{}.unsqueeze(1)",
    "{}.squeeze(-1)",
    "{}.transpose(-2, -1)",
    "{}[:, None, None]",
    "{}.unsqueeze(-1).unsqueeze(-1)",
)


@crash_rule("X1004")
def broadcast_mismatch(crash: Crash) -> CrashCause | None:
    """The shapes of two tensors that are added, multiplied or compared do not fit.

    ## What it does
    Reads both operands in the user's code, names the axis on which they differ, and looks for the change with which
    the operation runs: an axis of one operand, a slice of a table, the padding or stride of a layer in one branch, or
    a projection of a residual path.

    ## Why it matters
    The operation cannot run.

    ## How it is measured
    Exactly, by the shapes. Changes of layers are tried on a copy of the model without values.

    ## How to fix
    Give both branches the same number of channels and the same size, or align the axes.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    The broadcasting semantics of PyTorch. He et al., Deep Residual Learning for Image Recognition (2016).
    """
    function = _FUNCTIONS.get(crash.operation)
    if function is None and isinstance(crash.node, ast.Compare):
        function = torch.eq
    if isinstance(crash.own.statement if crash.own else None, ast.Assign) and isinstance(crash.node, ast.Subscript):
        return _assigned_part(crash)
    if function is None or crash.torch_frames or ("match" not in crash.message and "shape" not in crash.message):
        return None
    operands = crash.operands[-2:] if crash.operation == "where" else crash.operands[:2]
    if len(operands) < 2:
        return None
    (first, left), (second, right) = operands
    texts = [crash.text(first), crash.text(second)]
    if not isinstance(left, Tensor) or not isinstance(right, Tensor):
        message = f"The shapes of {texts[0]} and {texts[1]} do not fit: {crash.message.rstrip('.')}."
        return CrashCause(message, "", "# print the shapes of both before this line")
    axis = _axis(left, right)
    if axis is None and "output with shape" in crash.message:
        return _in_place(crash, texts, left, right)
    if axis is None:
        return None
    message = f"{texts[0]} is {describe_tensor(left)}, and {texts[1]} is {describe_tensor(right)}: axis {axis} differs."
    cause, change, fix = _repair(crash, function, operands)
    evidence = {texts[0]: describe_tensor(left), texts[1]: describe_tensor(right)}
    return CrashCause(message, cause, "" if change.edits else fix, change.edits, change.modules, evidence=evidence)


def _in_place(crash: Crash, texts: list[str], left: Tensor, right: Tensor) -> CrashCause:
    """Explain an in-place operation whose result is larger than what it changes."""
    size = [*torch.broadcast_shapes(left.shape, right.shape)]  # type: ignore[no-untyped-call]
    message = (
        f"{texts[0]} is {describe_tensor(left)}, and the result with {texts[1]}, {describe_tensor(right)}, is {size}."
    )
    cause = "An in-place operation cannot enlarge its tensor; one operand has another number of channels or samples."
    node = crash.node
    edits: tuple[Edit, ...] = ()
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and crash.own is not None:
        name = node.func.attr.rstrip("_")
        text = f"{texts[0]}.{name}{crash.text(node)[len(crash.text(node.func)) :]}"
        edits = (replace_node(crash.own.file, node, text),)
    elif isinstance(node, ast.AugAssign):
        edits = wrap_operand(crash, node.target, "{}")
    return CrashCause(message, cause, "" if edits else "# give both the same number of channels", edits)


def _assigned_part(crash: Crash) -> CrashCause | None:
    """Explain a value that does not fit the part of a tensor that it is assigned to."""
    statement = crash.own.statement if crash.own else None
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Subscript):
        return None
    target, part, value = statement.targets[0], crash.value(statement.targets[0]), crash.value(statement.value)
    owner = crash.value(target.value)
    if not all(isinstance(item, Tensor) for item in (part, value, owner)) or _axis(part, value) is None:
        return None
    texts = [crash.text(target), crash.text(statement.value)]
    message = (
        f"{texts[0]} is {describe_tensor(part)}, and {texts[1]}, which it should hold, is {describe_tensor(value)}."
    )
    cause = f"{crash.text(target.value)} is {describe_tensor(owner)}: it has less room on this axis."
    return CrashCause(message, cause, f"# make {crash.text(target.value)} larger, or take a part of {texts[1]}")


def _axis(left: Tensor, right: Tensor) -> int | None:
    """Return the last axis, counted from the end, on which two shapes differ; None if they can be broadcast."""
    for axis in range(1, min(left.dim(), right.dim()) + 1):
        sizes = {left.shape[-axis], right.shape[-axis]} - {1}
        if len(sizes) > 1:
            return -axis
    return None


def _repair(crash: Crash, function: Callable[..., Any], operands: list[Any]) -> tuple[str, Change, str]:
    (first, left), (second, right) = operands
    fix = "# give both the same shape"
    for node, value, other in ((second, right, left), (first, left, right)):
        if channels := _values_of_channels(crash, node, value, other):
            return channels
        if table := _square_table(crash, node, value, other) or _slice_of_table(crash, node, value, other):
            return table
    if left.dim() == right.dim() and left.dim() > 2:
        projection = find_projection(crash, operands)
        found = find_layer_change(crash, keeps_chosen_strides=projection is not None) or projection
        if found:
            return found[0], found[1], fix
    order = [(p, t) for t in _CHANGES for p in ((1, 0) if right.dim() <= left.dim() else (0, 1))]
    change = first_running_change(function, (left, right), order)
    if change is not None and crash.operation != "where":
        position, template = change
        node, value = operands[position]
        shape = describe_tensor(apply_template(template, value))
        text = template.format(crash.text(node))
        return (
            f"The axes are not aligned; {text} is {shape}, and fits.",
            Change(wrap_operand(crash, node, template)),
            fix,
        )
    return "The two come from branches that make unlike shapes.", Change(), fix


def _values_of_channels(crash: Crash, node: ast.expr, value: Tensor, other: Tensor) -> tuple[str, Change, str] | None:
    """Explain one value for each channel, which broadcasting aligns with the last axis instead."""
    channels = other.dim() - 3
    if value.dim() != 1 or channels not in (0, 1) or len(value) != other.shape[channels] or crash.own is None:
        return None
    template = "{}[:, None, None]"
    names = [n for n in ast.walk(crash.own.statement or node) if isinstance(n, (ast.Name, ast.Attribute))]
    alike = [n for n in names if isinstance(v := crash.value(n), Tensor) and v.shape == value.shape]
    edits = [edit for n in alike for edit in wrap_operand(crash, n, template)] or [*wrap_operand(crash, node, template)]
    text = crash.text(node)
    cause = (
        f"{text} has one value for each channel, axis {channels} of {[*other.shape]}, and the last axes are aligned; "
        f"{template.format(text)} has the axes that are missing."
    )
    return cause, Change(tuple(dict.fromkeys(edits))), "# give it two more axes"


def _square_table(crash: Crash, node: ast.expr, table: Tensor, other: Tensor) -> tuple[str, Change, str] | None:
    """Explain a mask or a table of pairs of positions that is larger than the sequence."""
    held = node.operand if isinstance(node, ast.UnaryOp) else node
    buffer = crash.value(held)
    is_table = any(buffer is part for module in crash.modules for part in (*module.buffers(), *module.parameters()))
    partner = next((n for n, _ in crash.operands[:2] if n is not node), None)
    if not is_table or table.dim() < 2 or other.dim() < 2 or crash.own is None or partner is None:
        return None
    axes = [a for a in (-2, -1) if 1 < table.shape[a] != other.shape[a]]
    if len(axes) != 2 or any(table.shape[a] < other.shape[a] for a in axes):
        return None
    text, length, wanted = crash.text(held), table.shape[-1], other.shape[-1]
    fix = f"{text}[:{wanted}, :{wanted}]"
    if isinstance(partner, (ast.Name, ast.Attribute)):
        ends = ", ".join(f": {crash.text(partner)}.shape[{a}]" for a in axes)
        sliced = f"{text}[{'..., ' * (table.dim() > 2)}{ends}]"
        cause = f"{text} was made for {length} positions, longer than this batch of {wanted}: cut (slice) it."
        return cause, Change((replace_node(crash.own.file, held, sliced),)), fix
    return f"{text} has {length} positions, and the batch {wanted}: take a part.", Change(), fix


def _slice_of_table(crash: Crash, node: ast.expr, table: Tensor, other: Tensor) -> tuple[str, Change, str] | None:
    """Explain a table of positions that is longer or shorter than the sequence."""
    if (short := _slice_of_short_table(crash, node, table, other)) is not None:
        return short
    is_table = isinstance(table, nn.Parameter) or any(
        table is buffer for module in crash.modules for buffer in module.buffers(recurse=False)
    )
    # A variable of the module that a function reads is made once; one of a batch is local.
    is_local = crash.own is None or (isinstance(node, ast.Name) and node.id in crash.own.variables)
    is_table = is_table or (isinstance(node, ast.Name) and not is_local)
    differing = [a for a in range(1, min(table.dim(), other.dim()) + 1) if table.shape[-a] not in (1, other.shape[-a])]
    if not is_table or len(differing) != 1 or crash.own is None:
        return None
    axis, position = -differing[0], table.dim() - differing[0]
    length, wanted = table.shape[axis], other.shape[axis]
    text = crash.text(node)
    if length > wanted:
        partner = next(n for n, value in crash.operands[:2] if n is not node)
        sliced = f"{text}[{':, ' * position}: {crash.text(partner)}.shape[{other.dim() + axis}]]"
        cause = f"{text} has {length} rows on axis {position}, and the sequence has {wanted}: take as many."
        if isinstance(partner, (ast.Name, ast.Attribute)):
            return cause, Change((replace_node(crash.own.file, node, sliced),)), f"{text}[:{wanted}]"
        return cause, Change(), f"{text}[:{wanted}]"
    edit = resize_parameter(crash, table, length, wanted)
    cause = f"{text} has only {length} rows on axis {position}, and the sequence has {wanted}."
    return cause, Change((edit,) if edit else ()), f"# create {text} with at least {wanted} rows"


def _slice_of_short_table(crash: Crash, node: ast.expr, part: Tensor, other: Tensor) -> tuple[str, Change, str] | None:
    """Explain the first rows of a table of positions that has fewer of them than the sequence."""
    held = node.value if isinstance(node, ast.Subscript) else None
    table = crash.value(held) if held is not None else None
    if held is None or not isinstance(table, Tensor) or owner_of_parameter(crash, table) is None:
        return None
    axes = [a for a in range(-min(part.dim(), other.dim()), 0) if 1 < part.shape[a] < other.shape[a]]
    if table.shape != part.shape or len(axes) != 1:
        return None  # the slice leaves out what the table has
    length, wanted, text = part.shape[axes[0]], other.shape[axes[0]], crash.text(held)
    edit = resize_parameter(crash, table, length, wanted)
    cause = f"{text} has only {length} positions, and the sequence has {wanted}."
    return cause, Change((edit,) if edit else ()), f"# create {text} with at least {wanted} positions"


class _Residual(nn.Module):
    def __init__(self, padding: int) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv1d(1, 1, 3, padding=padding), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        maps = x.unsqueeze(1)
        out: Tensor = self.head((maps + self.conv(maps)).squeeze(1))
        return out


def _residual(padding: int) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return minimal_setup(_Residual(padding), *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """A residual path around a convolution that shortens its input."""
    return _residual(0)


def good() -> Setup:
    """A residual path around a convolution that keeps the length."""
    return _residual(1)
