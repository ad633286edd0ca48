"""The values that a variable may have at a place in the source: what the assignments before it assign."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from nbdebug.source.assignments import own_statements
from nbdebug.source.scopes import Expression, Scope
from nbdebug.source.search import SourceScope, assignment_targets, covers_line, enclosing_scope

Part = tuple[Expression, int | None]  # an expression, and the position of the value in it
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


def statements_before(expression: Expression) -> list[ast.stmt]:
    """Return the statements before an expression in its function, file or cell, without branches that do not run."""
    number, syntax = expression.node.lineno, enclosing_scope(expression.line)
    statements = sorted(own_statements(syntax) if syntax else (), key=lambda statement: statement.lineno)
    choices = [node for node in statements if isinstance(node, ast.If)]
    return [
        statement
        for statement in statements
        if (statement.end_lineno or statement.lineno) < number
        and expression.scope.runs(statement, choices)
        and not _excludes(choices, statement.lineno, number)
    ]


def _excludes(choices: list[ast.If], first: int, second: int) -> bool:
    """Check whether two lines are in different branches of a choice, so that only one of them runs."""
    branches = dict(_branches(choices, second))
    return any(branches.get(choice, block) != block for choice, block in _branches(choices, first))


def possible_assignments(variable: Expression, position: int | None) -> list[Part]:
    """Return what the assignments of a variable assign that may be its last before an expression, the last first."""
    syntax, name, parts = enclosing_scope(variable.line), getattr(variable.node, "id", ""), list[Part]()
    choices, number = unknown_choices(variable.scope, syntax) if syntax else [], variable.node.lineno
    own_branches = {*_branches(choices, number)}
    done: set[tuple[int, str]] = set()  # branches of which the last assignment is known
    for statement in reversed(statements_before(variable)):
        targets = assignment_targets(statement)
        written = [getattr(target, "value", target) for target in targets if not isinstance(target, ast.Attribute)]
        if not isinstance(statement, ast.Assign) or name not in [getattr(target, "id", "") for target in written]:
            continue
        branches = [branch for branch in _branches(choices, statement.lineno) if branch not in own_branches]
        if not done.isdisjoint(branches):
            continue
        value, own_position = assigned_part(statement, name)
        parts.append((Expression(variable.scope, value), position if own_position is None else own_position))
        if name not in own_assigned_names(statement):
            continue
        done.update(branches[-1:])
        if not branches or (len(branches) == 1 and {(branches[0][0], block) for block in ("body", "orelse")} <= done):
            break
    return parts


def _branches(choices: Sequence[ast.stmt], number: int) -> list[tuple[int, str]]:
    """Return the choices around a line, outermost first: their lines and branches."""
    return [
        (choice.lineno, block)
        for choice in choices
        for block in _BLOCKS
        if any(covers_line(part, number) for part in getattr(choice, block, []) if hasattr(part, "lineno"))
    ]


def unknown_choices(scope: Scope, syntax: SourceScope) -> list[ast.stmt]:
    """Return the choices of a function, outermost first, of which it is unknown which branch runs."""
    choices = [node for node in own_statements(syntax) if isinstance(node, (ast.If, ast.Try, ast.Match))]
    choices.sort(key=lambda choice: choice.lineno)
    return [c for c in choices if not isinstance(c, ast.If) or scope.truth(c.test) is None]


def assigned_part(statement: ast.Assign, name: str) -> tuple[ast.expr, int | None]:
    """Return the value of an assignment, and the position in it of what a variable gets."""
    for target in statement.targets:
        names = [getattr(part, "id", getattr(part, "attr", None)) for part in getattr(target, "elts", [])]
        if name in names:
            return statement.value, names.index(name)
    return statement.value, None


def own_assigned_names(statement: ast.stmt) -> set[str]:
    """Return the variables that a statement itself assigns."""
    return {target.id for target in assignment_targets(statement) if isinstance(target, ast.Name)}
