"""Which of several returns of the user's function gives inputs and targets that are the same."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from nbdebug.setup.part_sources import find_part
from nbdebug.setup.setup import Setup
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_producer, part_steps, returned_expressions
from nbdebug.source.scopes import Expression
from nbdebug.source.variable_values import Part


@dataclass(frozen=True)
class _CopyingReturn:
    """The line of a function that returns one value as inputs and as targets, and the line that calls the function."""

    line: SourceLine
    call: SourceLine


def find_copying_return(setup: Setup, position: int) -> _CopyingReturn | None:
    """Return the only return that gives the training inputs at a position and the targets as the same expression.

    Which of several returns of a function ran is not known from the source; that the values are equal tells it.
    """
    try:
        parts = [find_part(setup, setup.train_loader, index) for index in (position, -1)]
        ends = [_end(part) for part in parts if part]
        return _copying_return(*ends) if len(ends) == len(parts) else None
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def _end(part: Part) -> Part:
    """Return the expression where the search for the maker of a part ends, past selections of rows."""
    for _ in range(3):
        *_, part = part_steps(*part, passes_conversions=True)
        node = part[0].node
        if not isinstance(node, ast.Subscript) or not isinstance(node.slice, (ast.Slice, ast.Name)):
            break
        part = Expression(part[0].scope, node.value), None
    return part


def _copying_return(inputs: Part, targets: Part) -> _CopyingReturn | None:
    (call, first), (other, second) = inputs, targets
    if call.span != other.span or first is None or second is None:
        return None
    pairs = [(pair, getattr(pair.node, "elts", [])) for pair in returned_expressions(call)]
    copies = [
        Expression(pair.scope, parts[second]).line
        for pair, parts in pairs
        if max(first, second) < len(parts) and _is_same(Expression(pair.scope, parts[first]), parts[second])
    ]
    return _CopyingReturn(copies[0], call.line) if len(pairs) > 1 and len(copies) == 1 else None


def _is_same(first: Expression, second: ast.expr) -> bool:
    """Check whether two expressions of a function are the same value, as they stand or as they are made."""
    makers = [
        part_producer(Expression(first.scope, node), None, enters=lambda _: False, passes_conversions=True)
        for node in (first.node, second)
    ]
    return ast.unparse(makers[0].node) == ast.unparse(makers[1].node)
