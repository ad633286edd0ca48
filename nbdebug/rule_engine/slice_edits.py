"""The slice of tokens that a loop takes as the target, and the slice that is one token later."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nbdebug.finding import Edit
from nbdebug.source.assignments import covering_statement
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import enclosing_scope, walk

_LATER = "1:"


@dataclass(frozen=True)
class LaterSlice:
    """The line that takes a slice without the last token as the target, and the slice that is one token later."""

    line: SourceLine
    text: str
    edits: tuple[Edit, ...]


def drops_last(line: SourceLine | None) -> bool:
    """Return whether the statement on a line takes all but the last token of a sequence."""
    statement = covering_statement(line) if line else None
    return any(isinstance(node, ast.Subscript) and _is_without_last(node) for node in walk(statement))


def later_slice(line: SourceLine | None) -> LaterSlice | None:
    """Return the later slice for the only one without the last token that a loss's line compares with the output.

    Where the line has a variable instead that holds such a slice, the line of its assignment is changed if no other
    line reads it, else the variable on the loss's line. Return None if several slices are possible.
    """
    statement, scope = (covering_statement(line), enclosing_scope(line)) if line else (None, None)
    if line is None or statement is None or scope is None:
        return None
    slices = [node for node in ast.walk(statement) if isinstance(node, ast.Subscript) and _is_without_last(node)]
    if slices:
        return _later(line, slices[0], slices) if len({*map(ast.unparse, slices)}) == 1 else None
    names = [node for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)]
    variables = {name.id: value for name in names if (value := _assigned_slice(scope, name.id))}
    if len(variables) != 1:
        return None
    ((variable, assigned),) = variables.items()
    reads = [name for name in names if name.id == variable]
    uses = [node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == variable]
    if len(uses) == 1 + len(reads):  # its assignment and the loss
        return _later(SourceLine(line.file, assigned.lineno, line.function), assigned, [assigned])
    return _later(line, assigned, reads)


def without_last_to_later(file: str, node: ast.expr) -> str:
    """Return the slice that is one token later than an expression that takes all but the last token; "" for others."""
    if not isinstance(node, ast.Subscript) or not _is_without_last(node):
        return ""
    *others, _ = _axes(node)
    inside = ", ".join([*(node_text(file, axis) for axis in others), _LATER])
    return f"{node_text(file, node.value)}[{inside}]"


def _later(line: SourceLine, node: ast.expr, replaced: Sequence[ast.expr]) -> LaterSlice:
    text = without_last_to_later(line.file, node)
    return LaterSlice(line, text, tuple(replace_node(line.file, part, text) for part in replaced))


def _assigned_slice(scope: ast.AST, name: str) -> ast.Subscript | None:
    """Return the slice without the last token that a variable holds, if it is assigned only once."""
    values = [value for target, value in _assignments(scope) if target == name]
    value = values[0] if len(values) == 1 else None
    return value if isinstance(value, ast.Subscript) and _is_without_last(value) else None


def _assignments(scope: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the names that a scope assigns, with their values where one variable or a tuple of them is assigned."""
    known = set[int]()
    for node in (node for node in ast.walk(scope) if isinstance(node, ast.Assign)):
        for target in node.targets:
            pairs: list[tuple[ast.expr, ast.expr]] = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=False))
            for part, value in pairs:
                if isinstance(part, ast.Name):
                    known.add(id(part))
                    yield part.id, value
    names = (node for node in ast.walk(scope) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))
    yield from ((name.id, None) for name in names if id(name) not in known)


def _axes(node: ast.Subscript) -> list[ast.expr]:
    return node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]


def _is_without_last(node: ast.Subscript) -> bool:
    """Check for ``[:-1]``, or ``[:, :-1]`` with whole axes before."""
    axes = _axes(node)
    if not axes:  # x[()]
        return False
    *others, last = axes
    is_whole = all(isinstance(axis, ast.Slice) and ast.unparse(axis) == ":" for axis in others)
    return is_whole and isinstance(last, ast.Slice) and ast.unparse(last) == ":-1"
