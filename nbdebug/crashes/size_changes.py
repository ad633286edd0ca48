"""Sizes in the statements that make an operand, replaced by the size of what it meets."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from torch import Tensor

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.evaluation import Evaluator
from nbdebug.crashes.explanation import CrashCause
from nbdebug.source.assignments import last_assignment, own_statements
from nbdebug.source.edits import replace_node
from nbdebug.source.search import assigned_names, call_name, enclosing_scope

_SIZED = {"expand", "repeat", "zeros", "ones", "randn", "rand", "full", "empty", "new_zeros"} | {
    *("new_ones", "new_full", "view", "reshape", "arange", "tile", "broadcast_to")
}


def changed_sizes(crash: Crash, explanation: CrashCause) -> Iterator[CrashCause]:
    """Yield an explanation with one size in the maker of an operand replaced by that of another operand.

    The size is an expression, such as a setting, with the value that does not fit; a variable that the other operand
    has got before gives the size that does.
    """
    tensors = [(node, value) for node, value in crash.tensors if isinstance(node, ast.Name)]
    for node, value in tensors:
        for partner, other in tensors:
            if partner is node or value.dim() != other.dim():
                continue
            for axis, (size, wanted) in enumerate(zip(value.shape, other.shape, strict=True)):
                if size != wanted:
                    yield from _replacements(crash, explanation, node, (partner, other), axis, size)


def _replacements(
    crash: Crash,
    explanation: CrashCause,
    node: ast.Name,
    partner: tuple[ast.Name, Tensor],
    axis: int,
    size: int,
) -> Iterator[CrashCause]:
    frame, name = crash.own, partner[0].id
    scope = enclosing_scope(frame.line) if frame is not None else None
    if frame is None or scope is None:
        return
    made = last_assignment(frame.line, node.id)
    known = last_assignment(frame.line, name)
    is_parameter = name in frame.code.co_varnames[: frame.code.co_argcount]
    if made is None or not (is_parameter if known is None else known.number < made.number):
        return
    statements = [s for s in own_statements(scope) if s.lineno == made.number and node.id in assigned_names(s)]
    evaluator = Evaluator(frame)
    for statement in statements:
        for call in (part for part in ast.walk(statement) if isinstance(part, ast.Call) and call_name(part) in _SIZED):
            sizes = [part for a in call.args for part in (a.elts if isinstance(a, (ast.Tuple, ast.List)) else [a])]
            for argument in sizes:
                if not isinstance(argument, ast.Constant) and evaluator.value(argument) == size:
                    wanted = f"{name}.shape[{axis}]"
                    text = ast.unparse(argument)
                    cause = f"{explanation.cause} {node.id} is made with {text} = {size} in line {statement.lineno}; "
                    cause += f"{wanted} is {partner[1].shape[axis]}, and fits."
                    edits = (replace_node(frame.file, argument, wanted),)
                    yield replace(explanation, cause=cause.strip(), fix="", edits=edits, modules={}, line=None)
