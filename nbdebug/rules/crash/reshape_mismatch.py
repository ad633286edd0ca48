"""X1006: a reshape does not fit the number of values."""

from __future__ import annotations

import ast
from math import prod
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import batch_size
from nbdebug.crashes.number_literals import find_number_literal
from nbdebug.crashes.repairs import runs
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node


@crash_rule("X1006")
def reshape_mismatch(crash: Crash) -> CrashCause | None:
    """A tensor is reshaped to a shape of another number of values, or viewed although it is not contiguous.

    ## What it does
    Reads the tensor and the sizes in the user's call, and names the size that does not fit.

    ## Why it matters
    The operation cannot run.

    ## How it is measured
    Exactly, by the number of values and the strides.

    ## How to fix
    Use ``reshape`` for a tensor that was transposed, the size of the batch instead of a fixed one, and its own sizes.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.Tensor.view.
    """
    call = crash.call
    if crash.operation not in ("view", "reshape", "unflatten") or call is None or crash.own is None:
        return None
    if not crash.tensors:
        return None
    node, tensor = crash.tensors[0]
    text = crash.text(node)
    if crash.operation == "view" and not tensor.is_contiguous() and "stride" in crash.message:
        message = f"{text} is {describe_tensor(tensor)}, and not contiguous, as after a transpose: view cannot run."
        assert isinstance(call.func, ast.Attribute)
        changed = f"{text}.reshape{crash.text(call)[len(crash.text(call.func)) :]}"
        cause = "view needs values that lie in memory in the order of the axes; reshape (or contiguous()) copies them."
        return CrashCause(message, cause, edits=(replace_node(crash.own.file, call, changed),))
    sizes = _sizes(crash, call)
    if not sizes or any(not isinstance(size, int) for _, size in sizes):
        return None
    shape = [size for _, size in sizes]
    known = prod(size for size in shape if size != -1)
    message = f"{text} is {describe_tensor(tensor)} with {tensor.numel()} values; {crash.operation} asks for "
    message += f"{shape}" + (f", a multiple of {known}." if -1 in shape else f", {known} values.")
    cause, edits = _repair(crash, sizes, tensor)
    return CrashCause(message, cause, "" if edits else f"Print {text}.shape and use its sizes.", edits)


def _sizes(crash: Crash, call: ast.Call) -> list[tuple[ast.expr, Any]]:
    """Return the sizes in the call with their expressions."""
    arguments = call.args if crash.value(call.func) is not torch.reshape else call.args[1:]
    if len(arguments) == 1 and isinstance(arguments[0], (ast.Tuple, ast.List)):
        arguments = arguments[0].elts
    return [(argument, crash.value(argument)) for argument in arguments]


def _repair(crash: Crash, sizes: list[tuple[ast.expr, Any]], tensor: Tensor) -> tuple[str, tuple[Edit, ...]]:
    assert crash.own is not None
    shape = [size for _, size in sizes]
    size = tensor.shape[0] if tensor.dim() else 1
    if shape[0] not in (-1, size) and runs(torch.reshape, tensor, [size, *shape[1:]]):
        owner = crash.text(crash.tensors[0][0])
        cause = f"The first size is {shape[0]}, and this batch has {size} samples: the last batch is smaller."
        return cause, (replace_node(crash.own.file, sizes[0][0], f"{owner}.shape[0]"),)
    samples = batch_size(crash) or size
    per_sample = tensor.numel() // max(samples, 1)
    if len(shape) == 2 and shape[0] in (-1, samples):
        cause = f"Each of the {samples} samples has {per_sample} values here, not {shape[1]}."
        return cause, (replace_node(crash.own.file, sizes[-1][0], str(per_sample)),)
    if len(shape) == 4 and shape[0] in (-1, samples) and shape[1] > 0 and per_sample % shape[1] == 0:
        area = per_sample // shape[1]
        side = round(area**0.5)
        if side * side == area:
            cause = f"Each sample has {per_sample} = {shape[1]} · {side} · {side} values here."
            edits = tuple(replace_node(crash.own.file, node, str(side)) for node, _ in sizes[2:])
            return cause, edits
    if divisor := _divisor(crash, sizes, tensor):
        return divisor
    wrong = next((value for value in shape if value > 0 and tensor.numel() % value), None)
    text = f" {wrong} does not divide {tensor.numel()}." if wrong else ""
    sizes_text = ", ".join(map(str, tensor.shape))
    return f"The sizes come from another shape than ({sizes_text}).{text}", ()


def _divisor(crash: Crash, sizes: list[tuple[ast.expr, Any]], tensor: Tensor) -> tuple[str, tuple[Edit, ...]] | None:
    """Explain a number of parts, such as heads or the side of a patch, that does not divide the axis it splits."""
    if crash.own is None:
        return None
    nodes = [n for size, _ in sizes for n in ast.walk(size) if isinstance(n, (ast.Name, ast.Attribute))]
    for node in nodes:
        parts = crash.value(node)
        axes = [size for size in tensor.shape[1:] if type(parts) is int and 1 < parts < size and size % parts]
        constant = find_number_literal(crash, crash.own.file, node) if axes else None
        if constant is None or constant[1].value != parts:
            continue
        fitting = [number for number in range(2, axes[-1]) if axes[-1] % number == 0]
        if fitting:
            nearest = min(fitting, key=lambda number: (abs(number - parts), number))
            cause = f"{crash.text(node)} is {parts}, which does not divide the axis of {axes[-1]}; {nearest} does."
            return cause, (replace_node(constant[0], constant[1], str(nearest)),)
    return None


class _Reshaping(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.head, self.width = nn.Linear(4, 3), width

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(x.view(-1, self.width)[:, :4])
        return out


def _reshaping(width: int) -> Setup:
    return minimal_setup(_Reshaping(width), *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Sixteen samples of four values, reshaped to rows of five."""
    return _reshaping(5)


def good() -> Setup:
    """Rows of four."""
    return _reshaping(4)
