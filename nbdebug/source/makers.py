"""Follow a value to the line that makes it: through the attributes and methods of an object and through functions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import FunctionType

from nbdebug.source.assignments import (
    certain_line,
    covering_statement,
    find_function,
    returned_by_function,
    returned_value,
)
from nbdebug.source.location import SourceLine, is_library_code
from nbdebug.source.search import assignment_targets, call_name, find_assignments, paired_targets

_MAX_STEPS = 8
_REGISTERING_CALLS = {"register_buffer", "register_parameter"}


def attribute_maker(owner: object, attribute: str) -> SourceLine | None:
    """Return the line that makes what an object stores in an attribute; None if its class sets it on several lines."""
    lines = {line for line in find_assignments(owner, attribute) if not is_library_code(line.file)}
    if len(lines) == 1:
        line = lines.pop()
        return made_line(line, owner, attribute)
    registrations = [*_registrations(owner, attribute)] if not lines else []
    return _followed(*registrations[0], owner) if len(registrations) == 1 else None


def made_line(line: SourceLine, owner: object = None, attribute: str = "") -> SourceLine:
    """Return the line of the expression that makes the value which an assignment stores.

    Follows variables, functions of the same file and methods of ``owner`` that return the value; ``attribute`` tells
    which of several targets is meant.
    """
    statement = covering_statement(line)
    value = getattr(statement, "value", None)
    for target, part in _pairs(statement) if isinstance(statement, ast.Assign) else ():
        if attribute and getattr(target, "attr", "") == attribute:
            value = part
    has_parts = isinstance(statement, ast.Assign) and len(assignment_targets(statement)) > 1 and not attribute
    return _followed(line, value, owner) if isinstance(value, ast.expr) and not has_parts else line


def _pairs(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in statement.targets:
        yield from paired_targets(target, statement.value)


def _followed(line: SourceLine, value: ast.expr, owner: object) -> SourceLine:
    """Return the line that makes a value: what is returned by the function or method that it calls."""
    for _ in range(_MAX_STEPS):
        line = SourceLine(line.file, value.lineno, line.function)
        following = _returned(line, value, owner) if isinstance(value, ast.Call) else _assigned(line, value)
        if following is None:
            return line
        line, value = following
    return line


def _returned(line: SourceLine, call: ast.Call, owner: object) -> tuple[SourceLine, ast.expr] | None:
    """Return what a call of a function of the same file, or of a method of ``owner``, returns, and its line."""
    if isinstance(call.func, ast.Name):
        value = returned_by_function(line.file, call.func.id)
        return (SourceLine(line.file, value.lineno, call.func.id), value) if value is not None else None
    if not isinstance(call.func, ast.Attribute) or getattr(call.func.value, "id", "") != "self":
        return None
    method = getattr(type(owner), call.func.attr, None)
    code = getattr(method, "__code__", None) if isinstance(method, FunctionType) else None
    syntax = find_function(code) if code is not None and not is_library_code(code.co_filename) else None
    value = returned_value(syntax) if syntax else None
    return (SourceLine(code.co_filename, value.lineno, code.co_name), value) if code and value is not None else None


def _assigned(line: SourceLine, value: ast.expr) -> tuple[SourceLine, ast.expr] | None:
    """Return the value of the last assignment of a variable, and its line, if it is certain."""
    assigned = certain_line(line, value.id) if isinstance(value, ast.Name) else None
    statement = covering_statement(assigned) if assigned else None
    if assigned is None or not isinstance(statement, ast.Assign) or not isinstance(value, ast.Name):
        return None
    parts = [part for target, part in _pairs(statement) if getattr(target, "id", "") == value.id]
    is_whole = len(parts) == 1 and (parts[0] is not statement.value or len(assignment_targets(statement)) == 1)
    return (assigned, parts[0]) if is_whole else (assigned, ast.Constant(None, lineno=assigned.number))


def _registrations(owner: object, name: str) -> Iterator[tuple[SourceLine, ast.expr]]:
    """Yield the values that the methods of the user's classes of an object register under a name, with their lines."""
    methods = [m for kind in type(owner).__mro__ for m in vars(kind).values() if isinstance(m, FunctionType)]
    for method in methods:
        code = method.__code__
        is_registering = not is_library_code(code.co_filename) and not _REGISTERING_CALLS.isdisjoint(code.co_names)
        syntax = find_function(code) if is_registering else None
        for node in ast.walk(syntax) if syntax else ():
            arguments = node.args if isinstance(node, ast.Call) and call_name(node) in _REGISTERING_CALLS else []
            if len(arguments) > 1 and getattr(arguments[0], "value", None) == name:
                yield SourceLine(code.co_filename, arguments[1].lineno, code.co_name), arguments[1]
