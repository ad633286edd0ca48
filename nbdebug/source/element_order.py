"""Follow a list or an array to the expression that gives its elements their order."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.source.assignments import covering_statement, function_by_name
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name, call_subject, enclosing_loops, enclosing_scope, paired_targets

_MAX_STEPS = 12
_JOINS = {"cat", "concat", "concatenate", "hstack", "vstack"}
_ELEMENTWISE = {"list", "tuple", "stack", "tensor", "array", "asarray", "as_tensor"} | {
    *("sqrt", "pow", "reciprocal", "clamp", "clip", "log", "log1p", "exp", "abs", "round", "rsqrt", "square"),
}
_SORTING = {"sorted", "range", "arange", "bincount", "compute_class_weight", "sort_index"}
_SCALARS = {"len", "sum", "max", "min", "mean", "std", "int", "item", "numel", "total", "count", "size", "nunique"}


def order_maker(expression: Expression) -> Expression:
    """Return the expression that gives the elements of a list or an array their order.

    Follows a comprehension and a loop that appends to what they iterate over, arithmetic to its only operand with
    elements, and conversions, functions of each element and joins to their argument. Of several choices, it is the one
    that does not sort.
    """
    for _ in range(_MAX_STEPS):
        made = part_producer(expression, None, may_make=_is_unsorted, passes_conversions=True)
        source = _element_source(made)
        if source is None:
            return made
        expression = Expression(made.scope, source)
    return expression


def _is_unsorted(expression: Expression) -> bool:
    """Check whether neither an expression nor the functions of the same file that it calls sort elements."""
    calls = [call_name(node) for node in ast.walk(expression.node) if isinstance(node, ast.Call)]
    functions = filter(None, (function_by_name(expression.scope.file, name) for name in calls))
    called = [call_name(node) for function in functions for node in ast.walk(function)]
    return _SORTING.isdisjoint([*calls, *called])


def _element_source(made: Expression) -> ast.expr | None:
    """Return the expression whose elements have the same order as those of another; None if it makes the order."""
    node = made.node
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        return node.generators[0].iter
    if isinstance(node, ast.BinOp):
        operands = [operand for operand in (node.left, node.right) if not is_scalar(made, operand)]
        return operands[0] if len(operands) == 1 else None
    if isinstance(node, ast.UnaryOp):
        return node.operand
    if isinstance(node, ast.List) and not node.elts:
        return _loop_of_appends(made)
    if isinstance(node, ast.Call) and call_name(node) in _JOINS and node.args:
        chunks = part_producer(Expression(made.scope, node.args[0]), None)
        is_empty = isinstance(chunks.node, ast.List) and not chunks.node.elts
        return _appended(chunks) if is_empty and chunks.scope is made.scope else None
    return call_subject(node) if isinstance(node, ast.Call) and call_name(node) in _ELEMENTWISE else None


def is_scalar(made: Expression, operand: ast.expr) -> bool:
    """Check whether an operand is a single number: a constant, or made from scalars by functions such as ``sum``."""
    node = part_producer(Expression(made.scope, operand), None).node
    if isinstance(node, ast.BinOp):
        return is_scalar(made, node.left) and is_scalar(made, node.right)
    if isinstance(node, ast.UnaryOp):
        return is_scalar(made, node.operand)
    if isinstance(node, ast.Name):
        return isinstance(made.scope.value(node), (int, float))
    return isinstance(node, ast.Constant) or call_name(node) in _SCALARS


def _loop_of_appends(made: Expression) -> ast.expr | None:
    """Return what the only loop iterates over that appends to an empty list; None if there are several."""
    scope = enclosing_scope(made.line)
    appends = [*_appends(made)]
    loops = enclosing_loops(scope, appends[0].lineno) if scope and len(appends) == 1 else []
    return loops[0].iter if loops and isinstance(loops[0], ast.For) else None


def _appended(made: Expression) -> ast.expr | None:
    """Return the only argument that is appended to an empty list."""
    appends = [*_appends(made)]
    return appends[0].args[0] if len(appends) == 1 else None


def _appends(made: Expression) -> Iterator[ast.Call]:
    """Yield the calls that append to the variable of an empty list."""
    statement, scope = covering_statement(made.line), enclosing_scope(made.line)
    if not isinstance(statement, ast.Assign) or scope is None:
        return
    pairs = [pair for target in statement.targets for pair in paired_targets(target, statement.value)]
    names = {ast.unparse(target) for target, value in pairs if value is made.node}
    calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call) and len(node.args) == 1]
    yield from (
        call
        for call in calls
        if call_name(call) == "append" and ast.unparse(getattr(call.func, "value", call.func)) in names
    )
