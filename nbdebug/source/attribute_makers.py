"""The lines that make what objects store in their attributes."""

from __future__ import annotations

import ast
from collections.abc import Container, Iterator

from nbdebug.source.assigned_attributes import assigned_attribute
from nbdebug.source.assignments import covering_statement, effective_methods, find_assignments, find_function
from nbdebug.source.location import SourceLine, is_library_code
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression, Scope, file_scope, function_scope, user_function
from nbdebug.source.search import assignment_targets, call_name, covers_line, paired_targets

_REGISTERING_CALLS = {"register_buffer", "register_parameter"}


def called_attribute_line(line: SourceLine | None, class_names: Container[str]) -> SourceLine | None:
    """Return the line that creates the object of some classes which a line calls as an attribute of ``self``."""
    statement = covering_statement(line) if line else None
    functions = [node.func for node in ast.walk(statement) if isinstance(node, ast.Call)] if statement else []
    names = {f.attr for f in functions if isinstance(f, ast.Attribute) and getattr(f.value, "id", "") == "self"}
    if line is None or not names:
        return None
    here = Expression(file_scope(line.file), ast.Constant(None, lineno=line.number))
    parts = [assigned_attribute(here, name) for name in names]
    lines = {part[0].line for part in parts if part and call_name(part[0].node) in class_names}
    return lines.pop() if len(lines) == 1 else None


def attribute_maker(owner: object, attribute: str) -> SourceLine | None:
    """Return the line that makes what an object stores in an attribute; None if its class sets it on several lines."""
    lines = {line for line in find_assignments(owner, attribute) if not is_library_code(line.file)}
    if len(lines) == 1:
        return made_line(lines.pop(), owner, attribute)
    registered = [*_registrations(owner, attribute)] if not lines else []
    return part_producer(registered[0], None).line if len(registered) == 1 else None


def made_line(line: SourceLine, owner: object = None, attribute: str = "") -> SourceLine:
    """Return the line of the expression that makes the value which an assignment stores, or that of the assignment."""
    made = made_expression(line, owner, attribute)
    return made.line if made else line


def made_expression(line: SourceLine, owner: object = None, attribute: str = "") -> Expression | None:
    """Return the expression that makes the value which an assignment stores; None if it is not certain.

    Follows variables, functions of the same file and methods of ``owner`` that return the value; ``attribute`` tells
    which of several targets is meant.
    """
    statement = covering_statement(line)
    value = getattr(statement, "value", None)
    for target, part in _pairs(statement) if isinstance(statement, ast.Assign) else ():
        if attribute and getattr(target, "attr", "") == attribute:
            value = part
    has_parts = isinstance(statement, ast.Assign) and len(assignment_targets(statement)) > 1 and not attribute
    if not isinstance(value, ast.expr) or has_parts:
        return None
    return part_producer(Expression(scope_around(line, owner), value), None)


def computes_from(made: Expression, names: Container[str]) -> bool:
    """Check whether an expression calls some functions, also in its variables and in functions of the user's."""
    parts = [part for part in ast.walk(made.node) if isinstance(part, (ast.Call, ast.Name))]
    read = [part for part in parts if isinstance(part, ast.Call) or isinstance(part.ctx, ast.Load)]
    makers = [part_producer(Expression(made.scope, part), None).node for part in read]
    return any(call_name(node) in names for maker in [*parts, *makers] for node in ast.walk(maker))


def assigned_value(line: SourceLine, attribute: str) -> tuple[ast.expr, int | None] | None:
    """Return what the statement on a line assigns to an attribute, and the position of the value in it."""
    statement = covering_statement(line)
    if isinstance(statement, ast.Assign):
        names = [getattr(target, "attr", "") for target in assignment_targets(statement)]
        for target, part in _pairs(statement):
            if getattr(target, "attr", "") == attribute:
                return part, names.index(attribute) if part is statement.value and len(names) > 1 else None
    value = getattr(statement, "value", None)
    return (value, None) if isinstance(value, ast.expr) else None


def scope_around(line: SourceLine, owner: object) -> Scope:
    """Return the scope of a line of a method of an object."""
    for method in effective_methods(type(owner)):
        code = method.__code__
        syntax = find_function(code) if code.co_filename == line.file else None
        if isinstance(syntax, ast.FunctionDef) and covers_line(syntax, line.number):
            return function_scope(method, owner)
    return file_scope(line.file)


def _pairs(statement: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    for target in statement.targets:
        yield from paired_targets(target, statement.value)


def _registrations(owner: object, name: str) -> Iterator[Expression]:
    """Yield the values that the methods of the user's classes of an object register under a name."""
    for kind in type(owner).__mro__:
        for method in vars(kind).values():
            is_registering = user_function(method) and not _REGISTERING_CALLS.isdisjoint(method.__code__.co_names)
            syntax = find_function(method.__code__) if is_registering else None
            for node in ast.walk(syntax) if syntax else ():
                arguments = node.args if isinstance(node, ast.Call) and call_name(node) in _REGISTERING_CALLS else []
                if len(arguments) > 1 and getattr(arguments[0], "value", None) == name:
                    yield Expression(function_scope(method, owner), arguments[1])
