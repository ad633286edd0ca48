"""Find the line that computes where the target of a cut starts from where its input starts."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression
from nbdebug.source.search import read_names
from nbdebug.source.variable_values import possible_assignments


def converted_start_line(pair: Expression) -> SourceLine | None:
    """Return the only line that computes the start of a target's slice from a variable at which the input's starts.

    ``pair`` is what a function returns, the input first and the target last. None if both start at the same variable.
    """
    parts = getattr(pair.node, "elts", [])
    if len(parts) < 2:
        return None
    inputs, targets = ([*_starts(Expression(pair.scope, parts[place]))] for place in (0, -1))
    names = {start.node.id for start in inputs if isinstance(start.node, ast.Name)}
    computed = (part for start in targets for part, _ in possible_assignments(start, None))
    lines = {part.line for part in computed if isinstance(part.node, ast.BinOp) and read_names(part.node) & names}
    starts_alike = any(getattr(start.node, "id", "") in names for start in targets)
    return lines.pop() if len(lines) == 1 and not starts_alike else None


def _starts(part: Expression) -> Iterator[Expression]:
    """Yield the starts of the slices in the expression that makes a part of a sample."""
    made = part_producer(part, None, enters=lambda _: False)
    for node in ast.walk(made.node):
        if isinstance(node, ast.Slice) and node.lower is not None:
            yield Expression(made.scope, node.lower)
