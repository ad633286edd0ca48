"""Find the lines that assign a value: the last assignment of the variable that holds it, and those of an attribute."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Container, Iterator
from types import CodeType, FrameType, FunctionType
from typing import Any

from nbdebug.source.location import SourceLine, get_running_line
from nbdebug.source.references import frame_variables, user_frames
from nbdebug.source.search import (
    SourceScope,
    assigned_names,
    assignment_targets,
    call_arguments,
    call_name,
    covers_line,
    enclosing_loops,
    enclosing_scope,
    file_nodes,
    function_node,
    read_names,
    syntax_tree,
    walk,
)

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def find_assignment(frame: FrameType | None, is_searched: Callable[[Any], bool]) -> SourceLine | None:
    """Return the last assignment of a value, before the running line of the user's function that holds it.

    The functions on the stack that ends in ``frame`` are searched, the innermost first.
    """
    for user_frame in user_frames(frame):
        line = get_running_line(user_frame)
        names = [name for name, value in frame_variables(user_frame).items() if is_searched(value)]
        lines = [assigned for name in names if (assigned := last_assignment(line, name))]
        if lines:
            return max(lines, key=lambda assigned: assigned.number)
    return None


def last_assignment(line: SourceLine, name: str, *, changes: bool = True) -> SourceLine | None:
    """Return the last assignment of a variable before a line, in the same function, file or cell.

    Without ``changes``, an assignment that only changes the variable, such as ``loss = loss / 2``, counts only if there
    is no other one.
    """
    last = _last_assigning_statement(line, name, changes=changes)
    return SourceLine(line.file, last.lineno, line.function) if last else None


def next_assignment(line: SourceLine, names: Container[str]) -> SourceLine | None:
    """Return the first assignment of some variables or attributes after a line, in the same function, file or cell."""
    scope = enclosing_scope(line)
    statements = sorted(own_statements(scope) if scope else (), key=lambda statement: statement.lineno)
    return next(
        (
            SourceLine(line.file, statement.lineno, line.function)
            for statement in statements
            if statement.lineno > line.number
            and any(ast.unparse(target) in names for target in assignment_targets(statement))
        ),
        None,
    )


def _last_assigning_statement(
    line: SourceLine, name: str, *, changes: bool = True, certain: bool = False
) -> ast.stmt | None:
    """Return the last statement that assigns a variable; if it must be ``certain``, None if a choice may skip it."""
    scope = enclosing_scope(line)
    statements = [
        statement
        for statement in (own_statements(scope) if scope else ())
        if statement.lineno < line.number and name in _assigned_names(statement)
    ]
    creating = [statement for statement in statements if changes or not _reads(statement, name)]
    last = max(creating or statements, key=lambda statement: statement.lineno, default=None)
    return None if certain and last and scope and _may_be_skipped(scope, last, line.number) else last


def _may_be_skipped(scope: SourceScope, statement: ast.stmt, number: int) -> bool:
    """Check whether a choice around a statement does not also contain a line."""
    choices = [node for node in own_statements(scope) if isinstance(node, (ast.If, ast.Try, ast.Match))]
    return any(covers_line(choice, statement.lineno) and not covers_line(choice, number) for choice in choices)


def own_statements(scope: SourceScope | ast.For) -> Iterator[ast.stmt]:
    """Yield the statements of a function, a loop, a file or a cell, without those of functions in it."""
    pending: list[ast.AST] = [*scope.body]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.stmt):
            yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            pending += ast.iter_child_nodes(node)


def _assigned_names(statement: ast.stmt) -> set[str]:
    """Return the variables that a statement itself assigns."""
    return {target.id for target in assignment_targets(statement) if isinstance(target, ast.Name)}


def _reads(statement: ast.stmt, name: str) -> bool:
    value = getattr(statement, "value", None)
    return isinstance(statement, ast.AugAssign) or (value is not None and name in read_names(value))


def find_assignments(owner: object, attribute: str) -> list[SourceLine]:
    """Return every line in the methods of an object's class and its base classes that sets ``self.attribute``."""
    return [
        line
        for method in effective_methods(type(owner))
        if attribute in method.__code__.co_names
        for line in _iterate_assignments(method, attribute)
    ]


def effective_methods(kind: type) -> Iterator[FunctionType]:
    """Yield the methods of a class and its bases, without those that a method hides which calls none of a base."""
    hidden: set[str] = set()
    base_names = {"super", *(base.__name__ for base in kind.__mro__[1:])}
    for cls in kind.__mro__:
        methods = {name: member for name, member in vars(cls).items() if isinstance(member, FunctionType)}
        yield from (method for name, method in methods.items() if name not in hidden)
        hidden |= {name for name, method in methods.items() if not base_names & {*method.__code__.co_names}}


def _iterate_assignments(method: FunctionType, attribute: str) -> Iterator[SourceLine]:
    """Yield the lines of one method that set the attribute; none if its source is unavailable."""
    for node in walk(function_node(method)):
        if any(isinstance(target, ast.Attribute) and target.attr == attribute for target in assignment_targets(node)):
            yield SourceLine(method.__code__.co_filename, getattr(node, "lineno", 1), method.__name__)


def find_argument_assignment(line: SourceLine | None, name: str) -> SourceLine | None:
    """Return the last assignment of the variable that the call of a function on a line passes as its only argument."""
    statement = covering_statement(line) if line else None
    nodes = ast.walk(statement) if statement else ()
    calls = [node for node in nodes if isinstance(node, ast.Call) and call_name(node) == name]
    arguments = [argument for call in calls for argument in call_arguments(call)]
    if line is None or len(arguments) != 1 or not isinstance(arguments[0], ast.Name):
        return None
    assigned = _last_assigning_statement(line, arguments[0].id, certain=True)
    return SourceLine(line.file, assigned.lineno, line.function) if assigned else None


def loop_over_variable(line: SourceLine | None) -> SourceLine | None:
    """Return the innermost ``for`` around a statement whose variables the statement reads."""
    statement, scope = (covering_statement(line), enclosing_scope(line)) if line else (None, None)
    if line is None or statement is None or scope is None:
        return None
    names = read_names(statement)
    loops = [loop for loop in enclosing_loops(scope, line.number) if assigned_names(loop.target) & names]
    return SourceLine(line.file, loops[0].lineno, line.function) if loops else None


def find_function(code: CodeType) -> FunctionNode | None:
    """Return the syntax of a function; None if it is ambiguous, as for two lambdas on a line."""
    tree = syntax_tree(code.co_filename)
    functions = [
        node
        for node in file_nodes(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))
        and min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        == code.co_firstlineno
        and getattr(node, "name", "<lambda>") == code.co_name
    ]
    return functions[0] if len(functions) == 1 else None


def find_decorator(code: CodeType, names: Collection[str]) -> SourceLine:
    """Return the line of the decorator of a function with one of some names in it; else the function's first line."""
    syntax = find_function(code)
    decorators = getattr(syntax, "decorator_list", [])
    numbers = [node.lineno for node in decorators if any(name in ast.unparse(node) for name in names)]
    return SourceLine(code.co_filename, numbers[0] if numbers else code.co_firstlineno, code.co_name)


def returned_value(function: FunctionNode) -> ast.expr | None:
    """Return the expression that a function returns or yields; None if there are several."""
    if isinstance(function, ast.Lambda):
        return function.body
    nodes = [node for statement in _function_statements(function) for node in ast.iter_child_nodes(statement)]
    values = [statement.value for statement in _function_statements(function) if isinstance(statement, ast.Return)]
    values += [node.value for node in nodes if isinstance(node, ast.Yield)]
    return values[0] if len(values) == 1 else None


def _function_statements(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.stmt]:
    return [*own_statements(function)]


def certain_line(line: SourceLine, name: str) -> SourceLine | None:
    """Return the line that assigned a variable before a line, if no choice may have skipped it."""
    statement = _certain_assignment(line, name)
    return SourceLine(line.file, statement.lineno, line.function) if statement else None


def _certain_assignment(line: SourceLine, name: str) -> ast.stmt | None:
    """Return the last assignment of a variable before a line, or the only one of a global variable."""
    if statement := _last_assigning_statement(line, name, certain=True):
        return statement
    tree, scope = syntax_tree(line.file), enclosing_scope(line)
    if tree is None or scope is None or scope is tree or any(node.arg == name for node in _parameters(scope)):
        return None
    is_local = any(name in _assigned_names(statement) for statement in own_statements(scope))
    statements = [] if is_local else [node for node in own_statements(tree) if name in _assigned_names(node)]
    return statements[0] if len(statements) == 1 else None


def _parameters(function: ast.AST) -> list[ast.arg]:
    return [node for node in ast.walk(getattr(function, "args", function)) if isinstance(node, ast.arg)]


def returned_by_function(file: str, name: str) -> ast.expr | None:
    """Return what the only function of a file with a name returns."""
    function = function_by_name(file, name)
    return returned_value(function) if function else None


def function_by_name(file: str, name: str) -> ast.FunctionDef | None:
    """Return the only function of a file with a name."""
    tree = syntax_tree(file)
    functions = [node for node in file_nodes(tree) if isinstance(node, ast.FunctionDef)]
    named = [function for function in functions if function.name == name]
    return named[0] if len(named) == 1 else None


def covering_statement(line: SourceLine) -> ast.stmt | None:
    """Return the innermost statement around a line."""
    tree = syntax_tree(line.file)
    statements = [node for node in file_nodes(tree) if isinstance(node, ast.stmt)]
    covering = [statement for statement in statements if covers_line(statement, line.number)]
    return max(covering, key=lambda statement: (statement.lineno, -(statement.end_lineno or 0)), default=None)
