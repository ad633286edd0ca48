"""The line that fills entries of the data with a number, from which the number in a batch may be computed."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from nbdebug.setup.part_sources import computed_from, find_part
from nbdebug.setup.setup import Setup
from nbdebug.source.assignments import own_statements
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression
from nbdebug.source.search import assignment_targets, call_name, enclosing_scope
from nbdebug.source.variable_values import Part

_MAX_EXPRESSIONS = 400
_CHOICES = {"where", "mask", "masked_fill", "masked_fill_"}  # a condition, and numbers or data
_FILLS = {"fillna", "fill_null", "fill_nan", "nan_to_num", "filled"}
_INDEXERS = ("loc", "iloc", "at", "iat", "values")


def filling_line(setup: Setup, position: int, split: str | None, values: Collection[float]) -> SourceLine | None:
    """Return the only line that fills an input (its index) or the targets (-1) of a split with one of some numbers.

    If no line does, it is the only one that fills entries with any number: later lines may scale it. The data are
    followed back through variables, attributes, functions of the user and the constructor of their dataset.
    """
    loader = setup.val_loader if split in ("val", "validation") else setup.train_loader
    try:
        start = find_part(setup, loader, position)
        fills = dict(_fills(setup, start)) if start else {}
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    lines = {line for line, number in fills.items() if number in values} or {*fills}
    return lines.pop() if len(lines) == 1 else None


def _fills(setup: Setup, start: Part) -> Iterator[tuple[SourceLine, float]]:
    """Yield each line that fills some data with a number, on the way back from an expression."""
    pending, visited = [start], set[tuple[object, ...]]()
    while pending and len(visited) < _MAX_EXPRESSIONS:
        expression, position = pending.pop(0)
        parts = getattr(expression.node, "elts", None)
        if parts and position is not None and -len(parts) <= position < len(parts):
            expression, position = Expression(expression.scope, parts[position]), None
        scopes = tuple((name, argument.span) for name, argument in expression.scope.arguments.items())
        if (key := (*expression.span, position, scopes)) in visited:
            continue
        visited.add(key)
        for node in ast.walk(expression.node):
            if isinstance(node, ast.Call):
                yield from _fills_of_call(Expression(expression.scope, node), node)
            elif isinstance(node, (ast.Name, ast.Attribute)) and (isinstance(node, ast.Name) or _is_of_self(node)):
                yield from _written(Expression(expression.scope, node))
        pending += computed_from(setup, expression, position)


def _fills_of_call(expression: Expression, call: ast.Call) -> Iterator[tuple[SourceLine, float]]:
    """Yield the line of a call that fills data with a number."""
    name = call_name(call)
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    if name in _CHOICES:
        choices = [_number_of(Expression(expression.scope, part)) for part in [*call.args[1:], *options.values()]]
        numbers = [number for number in choices if number is not None]
        is_of_data = len(choices) > 1 or isinstance(call.func, ast.Attribute)
        if len(numbers) == 1 and is_of_data:
            yield expression.line, numbers[0]
    elif name in _FILLS:
        is_method = name != "nan_to_num" or len(call.args) == 0
        filler = options.get("nan", options.get("value", options.get("fill_value")))
        filler = filler or next(iter(call.args[0 if is_method else 1 :]), None)
        values = filler.values if isinstance(filler, ast.Dict) else [filler] if filler else []
        numbers = [n for value in values if (n := _number_of(Expression(expression.scope, value))) is not None]
        numbers = numbers or ([0.0] if name == "nan_to_num" and not values else [])
        yield from ((expression.line, number) for number in numbers[:1])


def _written(variable: Expression) -> Iterator[tuple[SourceLine, float]]:
    """Yield the lines before an expression that write a number to items of a variable, or of an attribute."""
    syntax, text = enclosing_scope(variable.line), ast.unparse(variable.node)
    for statement in own_statements(syntax) if syntax else ():
        if not isinstance(statement, ast.Assign) or statement.lineno > variable.node.lineno:
            continue
        is_written = any(_filled_owner(target) == text for target in assignment_targets(statement))
        number = _number_of(Expression(variable.scope, statement.value)) if is_written else None
        if number is not None:
            yield Expression(variable.scope, statement.value).line, number


def _filled_owner(target: ast.expr) -> str:
    """Return the variable or attribute to some items of which a target writes; empty for single items and others."""
    if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Constant):
        return ""
    owner = target.value
    while isinstance(owner, ast.Subscript) or getattr(owner, "attr", "") in _INDEXERS:
        owner = owner.value  # type: ignore[attr-defined]
    return ast.unparse(owner)


def _is_of_self(attribute: ast.Attribute) -> bool:
    return getattr(attribute.value, "id", "") == "self"


def _number_of(expression: Expression) -> float | None:
    """Return the number that an expression is: a constant, with or without a sign, or a variable that holds one."""
    node, sign = expression.node, 1
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        node, sign = node.operand, -1
    if isinstance(node, ast.Call) and call_name(node) in ("float", "int", "tensor", "float32") and len(node.args) == 1:
        return _number_of(Expression(expression.scope, node.args[0]))
    made = part_producer(Expression(expression.scope, node), None) if isinstance(node, ast.Name) else None
    if made and isinstance(made.node, (ast.Constant, ast.UnaryOp)):
        number = _number_of(made)
        return sign * number if number is not None else None
    value = expression.scope.value(node)
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return sign * float(value) if is_number and value == value else None
