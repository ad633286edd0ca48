"""The expressions that a function of the user's returns or yields, in the branches that run."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.source.assignments import FunctionNode
from nbdebug.source.scopes import Expression, Scope

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def all_returned(scope: Scope, syntax: FunctionNode) -> list[Expression]:
    """Return the expressions that a function returns or yields in the branches that run."""
    if isinstance(syntax, ast.Lambda):
        return [Expression(scope, syntax.body)]
    values = [value for statement in running_statements(scope, syntax.body) for value in _returned_values(statement)]
    return [Expression(scope, value) for value in values]


def running_statements(scope: Scope, body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a block, and of those in it, without branches that do not run."""
    for statement in body:
        truth = scope.truth(statement.test) if isinstance(statement, ast.If) else None
        yield statement
        if isinstance(statement, ast.If) and truth is not None:
            branch = [*running_statements(scope, statement.body if truth else statement.orelse)]
            yield from branch
            if branch and isinstance(branch[-1], ast.Return):
                return
            continue
        for block in _BLOCKS if not isinstance(statement, _DEFINITIONS) else ():
            yield from running_statements(scope, getattr(statement, block, []))
        if isinstance(statement, ast.Return):
            return


def _returned_values(statement: ast.stmt) -> Iterator[ast.expr]:
    if isinstance(statement, ast.Return):
        yield from filter(None, [statement.value])
    else:
        yields = (ast.Yield, ast.YieldFrom)
        yield from (n.value for n in ast.iter_child_nodes(statement) if isinstance(n, yields) and n.value)
