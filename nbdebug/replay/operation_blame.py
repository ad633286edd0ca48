"""Finds the operation behind a NaN or Inf loss from tensors saved in its graph."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from nbdebug.autograd.graph import Node, build_graph
from nbdebug.autograd.non_finite import NonFiniteOrigin, get_finite_range, is_finite
from nbdebug.source.location import SourceLine
from nbdebug.source.search import matches_call, parse_expressions

_OPERATORS: dict[str, type[ast.operator]] = {
    "div": ast.Div,
    "reciprocal": ast.Div,
    "pow": ast.Pow,
    "mul": ast.Mult,
    "sub": ast.Sub,
    "add": ast.Add,
}
_WORD_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_INPUT_NAMES, _RESULT_NAMES = ("self", "other", "exponent", "target"), ("result", "output")


def find_operation(roots: Iterable[Tensor], backward_line: SourceLine | None) -> NonFiniteOrigin | None:
    """Return the first operation behind some losses that produced NaN or Inf, on a line before ``backward_line``.

    The graph must not have been freed. Returns None if it saves too little to tell.
    """
    nodes = [node for root in roots for node in build_graph(root.grad_fn, []).nodes]
    for node in sorted(nodes, key=_sequence_number):
        input_tensors = _saved_inputs(node)
        if not all(map(is_finite, input_tensors)):
            return None  # an operation without saved tensors produced it, or it is an input
        output = _operation_output(node)
        if output is None or is_finite(output):
            continue
        if not input_tensors and bool(output.isnan().any()) and not all(map(_has_finite_output, node.inputs)):
            return None  # NaN inputs produce NaN
        rows = (~output.isfinite()).flatten(1).any(1) if output.dim() > 1 else ~output.isfinite().reshape(-1)
        value_kind, name = "NaN" if bool(output.isnan().any()) else "Inf", _snake_case(node.name)
        positions = tuple(rows.nonzero().flatten().tolist())
        return NonFiniteOrigin(
            name,
            value_kind,
            *get_finite_range(input_tensors),
            tuple(output.shape),
            positions,
            None,
            _last_operation_line(name, backward_line),
        )
    return None


def _has_finite_output(node: Node) -> bool:
    """Check whether the output of an operation is known to be finite."""
    output = node.variable if node.variable is not None else _operation_output(node)
    return output is not None and is_finite(output)


def _saved_inputs(node: Node) -> list[Tensor]:
    """Return the saved inputs of an operation."""
    names = (name.removeprefix("_saved_") for name in dir(node.function) if name.startswith("_saved_"))
    saved_values = (node.get_saved(name) for name in names if not name.startswith(_RESULT_NAMES))
    return [value.detach() for value in saved_values if isinstance(value, Tensor) and value.is_floating_point()]


def _sequence_number(node: Node) -> int:
    """Return the position of an operation in the forward pass."""
    get_number = getattr(node.function, "_sequence_nr", None)
    return int(get_number()) if get_number is not None else 0


def _operation_output(node: Node) -> Tensor | None:
    """Return the output of an operation, saved or recomputed from saved inputs."""
    saved_output = node.get_saved("result")
    if isinstance(saved_output, Tensor):
        return saved_output.detach()
    function = getattr(torch, _snake_case(node.name), None) or getattr(F, _snake_case(node.name), None)
    arguments = [node.get_saved(name) for name in _INPUT_NAMES if node.get_saved(name) is not None]
    if node.name == "Div" and len(arguments) == 1:
        arguments = [1.0, *arguments]
    if not callable(function) or not any(isinstance(argument, Tensor) for argument in arguments):
        return None
    try:
        with torch.no_grad():
            output: Any = function(*arguments)
    except Exception:
        return None
    return output if isinstance(output, Tensor) and output.is_floating_point() else None


def _snake_case(name: str) -> str:
    """Convert the name of an operation to that of its function: ``LogSoftmax`` to ``log_softmax``."""
    return _WORD_BOUNDARY.sub("_", name).lower()


def _last_operation_line(name: str, backward_line: SourceLine | None) -> SourceLine | None:
    """Return the last line with an operation before the backward pass, in the same file or cell."""
    is_operation = _operation_predicate(name)
    line_numbers = (
        [
            node.lineno
            for node in parse_expressions(backward_line.file)
            if node.lineno <= backward_line.number and is_operation(node)
        ]
        if backward_line
        else []
    )
    return SourceLine(backward_line.file, max(line_numbers)) if backward_line and line_numbers else None


def _operation_predicate(name: str) -> Callable[[ast.AST], bool]:
    """Return a predicate for expressions that are this operation, as a call or an operator."""
    is_call, operator = matches_call(name), _OPERATORS.get(name)

    def is_operation(node: ast.AST) -> bool:
        return is_call(node) or (operator is not None and isinstance(node, ast.BinOp) and isinstance(node.op, operator))

    return is_operation
