"""Search for the change of an operand with which an operation runs, on the meta device."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from torch import Tensor, nn

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.evaluation import UNKNOWN, run_on_meta
from nbdebug.crashes.meta import as_meta
from nbdebug.crashes.number_literals import find_number_literal
from nbdebug.finding import Edit
from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.attribute_makers import attribute_maker
from nbdebug.source.edits import OPERATOR_SIGNS, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import assignment_targets, syntax_tree


def runs(function: Callable[..., Any], *args: Any, **kwargs: Any) -> bool:
    """Return whether a function of torch runs for meta tensors of some shapes."""
    return run_on_meta(function, list(args), kwargs) is not UNKNOWN


def apply_template(template: str, tensor: Tensor) -> Tensor | None:
    """Return a meta tensor with a change such as ``{}.unsqueeze(1)``; None if it is impossible."""
    try:
        return eval(template.format("tensor"), {"tensor": as_meta(tensor)})  # type: ignore[no-any-return]
    except Exception:
        return None


def first_running_change(
    function: Callable[..., Any], operands: Sequence[Any], candidates: Iterable[tuple[int, str]]
) -> tuple[int, str] | None:
    """Return the first position and template with which a function runs."""
    for position, template in candidates:
        if not isinstance(operands[position], Tensor):
            continue
        changed = apply_template(template, operands[position])
        if changed is not None and runs(function, *operands[:position], changed, *operands[position + 1 :]):
            return position, template
    return None


def wrap_operand(crash: Crash, node: ast.expr, template: str) -> tuple[Edit, ...]:
    """Return the edit that changes an operand in the user's expression."""
    if crash.own is None:
        return ()
    if isinstance(crash.node, ast.AugAssign) and node is crash.node.target:
        target, sign = crash.text(node), OPERATOR_SIGNS.get(type(crash.node.op))
        text = f"{target} = {template.format(target)} {sign} {crash.text(crash.node.value)}"
        return (replace_node(crash.own.file, crash.node, text),) if sign else ()
    return (wrap_node(crash.own.file, node, template),)


def owner_of_parameter(crash: Crash, parameter: Any) -> tuple[nn.Module, str, str] | None:
    """Return the module that holds a parameter, its attribute and its path in the model."""
    for module in reversed(crash.modules):
        for name, value in {**module._parameters, **module._buffers}.items():
            if value is parameter:
                path = crash.path(module)
                return module, name, f"{path}.{name}" if path else name
    return None


def resize_parameter(crash: Crash, parameter: Any, old: int, new: int) -> Edit | None:
    """Return the edit of the number in the assignment that creates a parameter or a buffer; None without a single one.

    The number is a literal there, else that of a variable, such as a default or an argument of the constructor.
    """
    for line, value in _parameter_assignments(crash, parameter):
        parts = [node for node in ast.walk(value) if isinstance(node, (ast.Constant, ast.Name, ast.Attribute))]
        literals = [(line.file, node) for node in parts if isinstance(node, ast.Constant)]
        variables = [
            find_number_literal(crash, line.file, node) for node in parts if not isinstance(node, ast.Constant)
        ]
        for candidates in (literals, [literal for literal in variables if literal is not None]):
            numbers = {
                (file, node.lineno, node.col_offset): node
                for file, node in candidates
                if node.value == old and type(node.value) is int
            }
            if len(numbers) == 1:
                (file, *_), number = next(iter(numbers.items()))
                return replace_node(file, number, str(new))
    return None


def _parameter_assignments(crash: Crash, tensor: Any) -> list[tuple[SourceLine, ast.expr]]:
    """Return the assignments that create a tensor, of an attribute of a module or of a variable."""
    owner = owner_of_parameter(crash, tensor)
    if owner is not None:
        lines = find_assignments(owner[0], owner[1])
        values = [(line, _value_on(line, owner[1])) for line in lines]
        maker = attribute_maker(owner[0], owner[1]) if not values else None
        statement = covering_statement(maker) if maker else None
        if maker and isinstance(statement, ast.Assign):  # the value is registered as a buffer
            values = [(maker, statement.value)]
        return [(line, value) for line, value in values if value is not None]
    names = {name for frame in crash.user_frames() for name, value in frame.variables.items() if value is tensor}
    assignments = []
    for file in crash_files(crash):
        tree = syntax_tree(file)
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Assign) and {getattr(t, "id", "") for t in assignment_targets(node)} & names:
                assignments.append((SourceLine(file, node.lineno), node.value))
    return assignments


def _value_on(line: SourceLine, attribute: str) -> ast.expr | None:
    tree = syntax_tree(line.file)
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.lineno == line.number:
            targets = assignment_targets(node)
            if any(getattr(target, "attr", "") == attribute for target in targets) and len(targets) == 1:
                return node.value
    return None
