"""The user's expression that makes the iterator which a call receives after it has been used up."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from nbdebug.source.assignments import covering_statement, function_by_name
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_steps, returned_expressions
from nbdebug.source.scopes import Expression, file_scope
from nbdebug.source.search import (
    assignment_targets,
    call_arguments,
    call_name,
    covers_line,
    enclosing_scope,
    file_nodes,
    syntax_tree,
)

_MAX_STEPS = 12
_MAKERS = {"filter", "map", "iter", "zip", "chain", "from_iterable", "islice", "parameters"}


def iterator_maker(stack: Sequence[SourceLine], names: set[str]) -> Expression | None:
    """Return the expression that makes the iterator which a call of one of some functions receives first.

    ``stack`` are the user's lines at the call, innermost first. Follows variables, parameters to the callers on the
    stack, attributes, and the entries of dictionaries under a key that one place of the file sets. None if the way is
    not certain, or if the call makes its iterator itself, so that it is not used up.
    """
    values = (
        [argument for argument in _first_arguments(stack[0], names) if isinstance(argument, ast.expr)] if stack else []
    )
    if len(values) != 1 or _makes_iterator(stack[0].file, values[0]):
        return None
    depth, places = 0, [Expression(file_scope(stack[0].file), values[0])]
    for _ in range(_MAX_STEPS):
        makers = [step for place in places for step in _steps(place) if _makes_iterator(step.scope.file, step.node)]
        if makers:
            return makers[-1] if len({maker.span for maker in makers}) == 1 else None
        last = [*_steps(places[0])][-1]
        if len(places) == 1 and _is_parameter(last):
            depth += 1
            places = [*_passed(last, stack[depth])] if depth < len(stack) else []
        else:
            places = [item for place in places for item in _origins([*_steps(place)][-1])]
        if not places:
            return None
    return None


def _steps(place: Expression) -> Iterator[Expression]:
    """Yield the expressions on the way to what makes a value, up to the first call, which may make an iterator."""
    for step, position in part_steps(place, None, enters=lambda _: False):
        if position is not None:
            return
        yield step


def _origins(value: Expression) -> list[Expression]:
    """Return what an expression stands for: all that a call may return, or what is stored under its key or name."""
    if isinstance(value.node, ast.Call):
        return returned_expressions(value)
    key = value.node.attr if isinstance(value.node, ast.Attribute) else ""
    if isinstance(value.node, ast.Subscript):
        key = getattr(value.node.slice, "value", "")
    stored = [*_stored_values(value.scope.file, key)] if isinstance(key, str) and key else []
    return [Expression(value.scope, stored[0])] if len(stored) == 1 else []


def _stored_values(file: str, key: str) -> Iterator[ast.expr]:
    """Yield the values that a file stores in a dictionary or an attribute, or passes to a call, under a name."""
    for node in file_nodes(syntax_tree(file)):
        if isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (value for name, value in pairs if getattr(name, "value", None) == key)
        elif isinstance(node, ast.Call):
            yield from (keyword.value for keyword in node.keywords if keyword.arg == key)
        elif isinstance(node, ast.Assign):
            targets = [t for t in assignment_targets(node) if not isinstance(t, ast.Name)]
            is_stored = any(key in (getattr(t, "attr", ""), _item_key(t)) for t in targets)
            yield from [node.value] if is_stored and len(targets) == 1 else []


def _item_key(target: ast.expr) -> object:
    return getattr(target.slice, "value", None) if isinstance(target, ast.Subscript) else None


def _is_parameter(value: Expression) -> bool:
    scope = enclosing_scope(value.line)
    is_function = isinstance(scope, (ast.FunctionDef, ast.AsyncFunctionDef)) and isinstance(value.node, ast.Name)
    return is_function and value.node.id in _parameter_names(scope)  # type: ignore[attr-defined, arg-type]


def _parameter_names(function: ast.FunctionDef) -> list[str]:
    return [argument.arg for argument in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]


def _passed(parameter: Expression, caller: SourceLine) -> Iterator[Expression]:
    """Yield what the line of the caller passes for a parameter of a function."""
    function = enclosing_scope(parameter.line)
    if not isinstance(function, ast.FunctionDef) or not isinstance(parameter.node, ast.Name):
        return
    names = [name for name in _parameter_names(function) if name != "self"]
    if parameter.node.id not in names:
        return
    for call in _calls(caller, {function.name}):
        by_name = [keyword.value for keyword in call.keywords if keyword.arg == parameter.node.id]
        position = names.index(parameter.node.id)
        by_position = call.args[position : position + 1]
        yield from (Expression(file_scope(caller.file), value) for value in by_name or by_position)


def _first_arguments(line: SourceLine, names: set[str]) -> list[ast.expr]:
    return [arguments[0] for call in _calls(line, names) if (arguments := call_arguments(call))]


def _calls(line: SourceLine, names: set[str]) -> list[ast.Call]:
    """Return the calls of some functions on a line."""
    statement = covering_statement(line)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement else []
    return [call for call in calls if call_name(call) in names and covers_line(call, line.number)]


def _makes_iterator(file: str, node: ast.expr) -> bool:
    """Check whether an expression makes an iterator: a generator, a call that returns one, or one of its functions."""
    if isinstance(node, ast.GeneratorExp) or call_name(node) in _MAKERS:
        return True
    named = function_by_name(file, call_name(node)) if call_name(node) else None
    return named is not None and any(isinstance(part, (ast.Yield, ast.YieldFrom)) for part in ast.walk(named))
