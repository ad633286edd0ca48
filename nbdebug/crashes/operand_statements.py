"""The statements of the user that make the operands of the operation that raised, nearest first."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.frames import CrashFrame
from nbdebug.source.assignments import find_function
from nbdebug.source.location import is_user_code
from nbdebug.source.search import assigned_names, enclosing_scope, read_names

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
    earlier = [node for node in _simple_statements(scope) if node.lineno < statement.lineno]
    for node in sorted(earlier, key=lambda node: -node.lineno):
        if assigned_names(node) & names:
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
                simple = sorted(_simple_statements(function), key=lambda node: -node.lineno)
                yield from ((code.co_filename, node) for node in simple)


def _simple_statements(scope: ast.AST) -> Iterator[ast.stmt]:
    """Yield the statements of a function or a file that contain no others, without those of functions in it."""
    for node in ast.iter_child_nodes(scope):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        if isinstance(node, ast.stmt) and not isinstance(node, _COMPOUND):
            yield node
        yield from _simple_statements(node)
