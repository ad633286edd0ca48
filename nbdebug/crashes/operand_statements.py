"""The statements of the user that make the operands of the operation that raised, nearest first."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.frames import CrashFrame
from nbdebug.source.assignments import find_function, own_statements
from nbdebug.source.location import is_user_code
from nbdebug.source.search import SourceScope, assigned_names, enclosing_scope, read_names

_MAX_STATEMENTS = 24
_COMPOUND = (ast.For, ast.While, ast.If, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef, ast.AsyncFunctionDef)


def producing_statements(crash: Crash) -> list[tuple[str, ast.stmt]]:
    """Return the statements that raised and those that their values come from, with their files.

    First those of the user's frames, from the innermost outwards; then those of the methods of the model that ran
    before, the last first.
    """
    statements: dict[int, tuple[str, ast.stmt]] = {}
    for frame in crash.user_frames():
        for statement in _statements_of_frame(frame):
            statements.setdefault(id(statement), (frame.file, statement))
    for file, statement in _statements_of_methods(crash):
        statements.setdefault(id(statement), (file, statement))
    return list(statements.values())[:_MAX_STATEMENTS]


def _statements_of_frame(frame: CrashFrame) -> Iterator[ast.stmt]:
    """Yield the statement of a frame, and the earlier ones that assign what it reads."""
    statement, scope = frame.statement, enclosing_scope(frame.line)
    if statement is None or scope is None or isinstance(statement, _COMPOUND):
        return
    yield statement
    names = read_names(statement)
    for node in _simple_statements(scope):
        if node.lineno < statement.lineno and assigned_names(node) & names:
            names |= read_names(node)
            yield node


def _statements_of_methods(crash: Crash) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the statements of the methods of the user's modules, from the end of ``forward``."""
    kinds = dict.fromkeys(type(module) for module in (crash.root.modules() if crash.root is not None else ()))
    for kind in reversed(kinds):
        methods = [method for name, method in vars(kind).items() if name != "__init__" and inspect.isfunction(method)]
        for method in sorted(methods, key=lambda method: method.__name__ != "forward"):
            code = inspect.unwrap(method).__code__
            function = find_function(code) if is_user_code(code.co_filename) else None
            if isinstance(function, ast.FunctionDef):
                yield from ((code.co_filename, node) for node in _simple_statements(function))


def _simple_statements(scope: SourceScope) -> list[ast.stmt]:
    """Return the statements of a function or a file that contain no others, the last first."""
    simple = [node for node in own_statements(scope) if not isinstance(node, _COMPOUND)]
    return sorted(simple, key=lambda node: -node.lineno)
