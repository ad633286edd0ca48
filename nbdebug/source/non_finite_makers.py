"""The only operation in the source from which values can come that are not finite, of those that lead to a value."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Literal

from nbdebug.source.location import SourceLine
from nbdebug.source.producers import returned_expression
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name
from nbdebug.source.variable_values import possible_assignments

NonFiniteKind = Literal["NaN", "Inf", "-Inf"]

_MAX_EXPRESSIONS = 400
_LOGARITHMS = {"log", "log2", "log10", "log1p", "logit"}
_MAKERS: dict[NonFiniteKind, set[str]] = {
    "-Inf": _LOGARITHMS,
    "Inf": {"exp", "exp2", "expm1", "pow", "power", "square", "reciprocal", "rsqrt", "float_power"},
    "NaN": {"sqrt", "rsqrt", "pow", "power", "asin", "acos", "arcsin", "arccos"} | _LOGARITHMS,
}
_READERS = {"read_csv", "read_parquet", "read_table", "read_excel", "load", "loadtxt", "genfromtxt", "open"}
_STATISTICS = {"mean", "std", "var", "max", "min", "amax", "amin", "sum", "norm", "median", "quantile", "ptp", "len"}


def find_non_finite_maker(made: Expression, kind: NonFiniteKind) -> SourceLine | None:
    """Return the line of the only operation on the way to a value that makes infinite values or NaN of finite ones.

    Follows all operands, variables and calls of the user's functions. Divisions by statistics do not count: by zero
    they would change whole columns, and the caller knows of finite values in them. None for several operations, and if
    a file is read, which may contain such values.
    """
    expressions = [*_operands(made)]
    if len(expressions) >= _MAX_EXPRESSIONS or any(call_name(part.node) in _READERS for part in expressions):
        return None
    lines = {part.line for part in expressions if _may_make(part, kind)}
    return lines.pop() if len(lines) == 1 else None


def _operands(made: Expression) -> Iterator[Expression]:
    """Yield an expression and all from which its value is computed, each once."""
    pending, known = [made], set[tuple[object, ...]]()
    while pending and len(known) < _MAX_EXPRESSIONS:
        part = pending.pop()
        if part.span in known:
            continue
        known.add(part.span)
        yield part
        pending += _sources(part)


def _sources(part: Expression) -> Iterator[Expression]:
    """Yield the parts of an expression, what its variable may hold, and what a function of the user returns."""
    scope, node = part.scope, part.node
    if isinstance(node, ast.Name):
        if node.id in scope.arguments:
            yield scope.arguments[node.id]
        yield from (source for source, _ in possible_assignments(part, None))
        return
    if isinstance(node, ast.Call) and (returned := returned_expression(part)):
        yield returned
        return  # its arguments are followed where the function reads them
    inner = (child for child in ast.iter_child_nodes(node))
    for child in inner:
        value = child.value if isinstance(child, ast.keyword) else child
        if isinstance(value, ast.expr) and not (isinstance(node, ast.Subscript) and value is node.slice):
            yield Expression(scope, value)


def _may_make(part: Expression, kind: NonFiniteKind) -> bool:
    node = part.node
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
        return not _is_single_number(Expression(part.scope, node.right))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return kind != "-Inf" and not isinstance(node.right, ast.Constant)
    if isinstance(node, ast.Call) and returned_expression(part) is None:
        return call_name(node) in _MAKERS[kind]
    return False


def _is_single_number(divisor: Expression) -> bool:
    """Check whether a divisor is a constant or a statistic, the same for whole columns."""
    nodes = [part.node for part in _operands(divisor)]
    is_constant = all(
        isinstance(node, (ast.Constant, ast.BinOp, ast.UnaryOp, ast.Attribute, ast.Name)) for node in nodes
    )
    has_value = any(isinstance(node, ast.Constant) for node in nodes)
    return (is_constant and has_value) or any(call_name(node) in _STATISTICS for node in nodes)
