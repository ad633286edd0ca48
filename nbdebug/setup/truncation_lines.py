"""The line that cuts off the decimals of standardized inputs: an array of whole numbers, or a conversion to them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import islice

from nbdebug.setup.part_sources import all_sources, computed_from, find_part
from nbdebug.setup.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.scopes import Expression
from nbdebug.source.search import assignment_targets, call_arguments, call_name, enclosing_scope
from nbdebug.source.writes import makes_like

_SCALING_CALLS = {"fit_transform", "transform", "zscore", "scale", "standardize", "standardise", "normalize"}
_CONVERSIONS = {"astype", "to", "type", "array", "asarray", "tensor", "as_tensor"}
_INTEGER_METHODS = {"long", "int", "short", "trunc", "fix"}
_ROUNDING_CALLS = {"round", "rint", "round_", "around", "floor", "ceil", "sign", "floor_divide"}
_CHOOSING_CALLS = {"digitize", "bucketize", "searchsorted", "cut", "qcut", "where", "select", "argmax", "argsort"}
_MAX_SCALING_STEPS = 12  # expressions from the conversion to the scaling of its values


def truncation_line(setup: Setup) -> SourceLine | None:
    """Return the only line by which training inputs that are standardized become whole numbers, not by rounding.

    It makes an array of whole numbers, or one like another, into which they are written, or converts them.
    """
    try:
        part = find_part(setup, setup.train_loader, 0)
        sources = all_sources(part, lambda source, position: computed_from(setup, source, position)) if part else ()
        lines = {line: None for expression, _ in sources for line in _truncating_lines(setup, expression)}
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    return next(iter(lines)) if len(lines) == 1 else None


def _truncating_lines(setup: Setup, expression: Expression) -> Iterator[SourceLine]:
    """Yield the lines in an expression that make the array, or convert to whole numbers."""
    if makes_like(expression.node) and any(_is_scaled(setup, value) for value in _written_values(expression)):
        yield expression.line
    for node in ast.walk(expression.node):
        subject = _converted(node) if isinstance(node, ast.Call) else None
        if subject is not None:
            converted = Expression(expression.scope, subject)
            if _is_scaled(setup, converted):
                yield converted.line


def _written_values(expression: Expression) -> Iterator[Expression]:
    """Yield what statements of the same function, file or cell write into the array that an expression makes."""
    statement, scope = covering_statement(expression.line), enclosing_scope(expression.line)
    names = {ast.unparse(target) for target in assignment_targets(statement)} if statement else set()
    for node in ast.walk(scope) if scope else ():
        if isinstance(node, ast.Assign):
            targets = [target for target in assignment_targets(node) if isinstance(target, ast.Subscript)]
            if any(ast.unparse(target.value) in names for target in targets):
                yield Expression(expression.scope, node.value)


def _converted(call: ast.Call) -> ast.expr | None:
    """Return what a call converts to whole numbers."""
    name = call_name(call)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    arguments = call_arguments(call)
    is_function = name in ("trunc", "fix", "array", "asarray", "tensor", "as_tensor") and bool(arguments)
    if name in _INTEGER_METHODS and (is_function or not arguments):
        return arguments[0] if is_function else owner
    types = arguments[1:] if is_function else arguments
    is_whole = any(_is_integer_type(ast.unparse(argument)) for argument in types)
    if name in _CONVERSIONS and is_whole:
        return arguments[0] if is_function else owner
    return None


def _is_integer_type(text: str) -> bool:
    kind = text.strip("'\"").rpartition(".")[2].rstrip("_")
    return kind in ("int", "long", "short") or (kind.startswith("int") and kind[3:].isdigit())


def _is_scaled(setup: Setup, expression: Expression) -> bool:
    """Check whether an expression divides a difference, or calls a function that scales, itself or in a few steps.

    Expressions that round or choose on purpose, and what they are computed from, do not count.
    """
    sources = all_sources(
        (expression, None),
        lambda source, position: () if _is_discrete(source) else computed_from(setup, source, position),
    )
    nearest = [source for source, _ in islice(sources, _MAX_SCALING_STEPS) if not _is_discrete(source)]
    nodes = [part for source in nearest for part in ast.walk(source.node)]
    if any(isinstance(node, ast.Call) and call_name(node) in _SCALING_CALLS for node in nodes):
        return True
    divides = any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) for node in nodes)
    return divides and any(isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) for node in nodes)


def _is_discrete(expression: Expression) -> bool:
    """Check whether an expression compares values, rounds them, or chooses one of a few."""
    return any(
        isinstance(node, (ast.Compare, ast.BoolOp))
        or (isinstance(node, ast.Call) and call_name(node) in _ROUNDING_CALLS | _CHOOSING_CALLS)
        or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.FloorDiv))
        for node in ast.walk(expression.node)
    )
