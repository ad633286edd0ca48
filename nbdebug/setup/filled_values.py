"""The line that fills entries of the data with a number, from which the number in a batch may be computed."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterable, Iterator
from functools import partial

from nbdebug.setup.part_sources import all_sources, computed_from, find_part
from nbdebug.setup.setup import Setup
from nbdebug.source.assignments import own_statements
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import executed_return, part_producer
from nbdebug.source.scopes import UNKNOWN, Expression, user_function
from nbdebug.source.search import assignment_targets, call_name, enclosing_scope
from nbdebug.source.variable_values import Part

_CHOICES = {"where", "mask", "masked_fill", "masked_fill_"}  # a condition, and numbers or data
_FILLS = {"fillna", "fill_null", "fill_nan", "nan_to_num", "nan_to_num_", "filled"}
_FILLING_WRITES = {"putmask", "place", "copyto"}  # of numpy: an array, a mask and a number, in either order
_APPLIED_METHODS = ("transform", "fit_transform", "__call__", "forward")  # by which a step of a pipeline changes data
_INDEXERS = ("loc", "iloc", "at", "iat", "values")


def filling_line(setup: Setup, position: int, split: str | None, values: Collection[float]) -> SourceLine | None:
    """Return the only line that fills an input (its index) or the targets (-1) of a split with one of some numbers.

    If no line does, it is the only one that fills entries with any number: later lines may scale it. The data are
    followed back through variables, attributes, functions and transformers of the user, pipelines and the constructor
    of their dataset.
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
    for expression, _ in all_sources(start, partial(_sources, setup)):
        for node in ast.walk(expression.node):
            if isinstance(node, ast.Call):
                yield from _fills_of_call(Expression(expression.scope, node), node)
            elif isinstance(node, (ast.Name, ast.Attribute)) and (isinstance(node, ast.Name) or _is_of_self(node)):
                yield from _written(Expression(expression.scope, node))


def _sources(setup: Setup, expression: Expression, position: int | None) -> Iterator[Part]:
    yield from computed_from(setup, expression, position)
    yield from _applied_code(expression)


def _applied_code(expression: Expression) -> Iterator[Part]:
    """Yield what the user's functions return that an expression passes on, and the steps of a pipeline of their own."""
    called = {id(node.func) for node in ast.walk(expression.node) if isinstance(node, ast.Call)}
    for node in ast.walk(expression.node):
        value = expression.scope.value(node) if isinstance(node, (ast.Name, ast.Attribute)) else UNKNOWN
        functions = [] if value is UNKNOWN or id(node) in called else [value]
        if isinstance(value, type):
            functions = [inspect.getattr_static(value, name, None) for name in _APPLIED_METHODS]
        for function in map(inspect.unwrap, filter(inspect.isfunction, functions)):
            returned = executed_return(function) if user_function(function) else None
            yield from [(returned, None)] if returned else []


def _fills_of_call(expression: Expression, call: ast.Call) -> Iterator[tuple[SourceLine, float]]:
    """Yield the line of a call that fills data with a number."""
    name = call_name(call)
    options = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    fillers: list[ast.expr] = []
    if name in _CHOICES:
        choices = [*call.args[1:], *options.values()]
        is_of_data = len(choices) > 1 or isinstance(call.func, ast.Attribute)
        numbers = _numbers(expression, choices)
        yield from [(expression.line, numbers[0])] if len(numbers) == 1 and is_of_data else []
        return
    if name in _FILLS:
        fillers = _fillers_of_gaps(call, options)
    elif name == "replace" and isinstance(call.func, ast.Attribute):
        fillers = _replaced_gaps(call, options)
    elif name in _FILLING_WRITES:
        fillers = [*call.args[1:], *(value for key, value in options.items() if key != "where")]
    elif name == "SimpleImputer" and _may_be_constant(expression, options.get("strategy")):
        fillers = [options.get("fill_value", ast.Constant(0))]
    yield from ((expression.line, number) for number in _numbers(expression, fillers)[:1])


def _fillers_of_gaps(call: ast.Call, options: dict[str, ast.expr]) -> list[ast.expr]:
    """Return the values with which a call such as ``fillna`` or ``nan_to_num`` fills gaps."""
    is_zero = call_name(call).startswith("nan_to_num")  # by default
    is_function = is_zero and bool(call.args)
    filler = options.get("nan", options.get("value", options.get("fill_value")))
    filler = filler or next(iter(call.args[1 if is_function else 0 :]), None)
    filler = filler or (ast.Constant(0) if is_zero else None)
    return filler.values if isinstance(filler, ast.Dict) else [filler] if filler else []


def _replaced_gaps(call: ast.Call, options: dict[str, ast.expr]) -> list[ast.expr]:
    """Return the value for gaps in a call such as ``replace(np.nan, -1)`` or ``replace({np.nan: -1})`` of a table."""
    old, new = ([*call.args, None, None][place] for place in (0, 1))
    old, new = old or options.get("to_replace"), new or options.get("value")
    pairs = [*zip(old.keys, old.values, strict=True)] if isinstance(old, ast.Dict) else [(old, new)]
    return [value for key, value in pairs if key and value and ast.unparse(key).lower().endswith(("nan", "none", "na"))]


def _may_be_constant(expression: Expression, strategy: ast.expr | None) -> bool:
    """Check whether the strategy of an imputer may be to fill in a constant; without one, it is the mean."""
    if strategy is None:
        return False
    made = part_producer(Expression(expression.scope, strategy), None)
    value = made.scope.value(made.node)
    return value is UNKNOWN or value == "constant"


def _numbers(expression: Expression, nodes: Iterable[ast.expr]) -> list[float]:
    """Return those of some parts of an expression that are numbers."""
    values = (_number_of(Expression(expression.scope, node)) for node in nodes)
    return [value for value in values if value is not None]


def _written(variable: Expression) -> Iterator[tuple[SourceLine, float]]:
    """Yield the lines before an expression that write a number to items of a variable, or of an attribute."""
    syntax, text = enclosing_scope(variable.line), ast.unparse(variable.node)
    for statement in own_statements(syntax) if syntax else ():
        if statement.lineno > variable.node.lineno:
            continue
        if isinstance(statement, ast.Assign) and any(_filled_owner(t) == text for t in assignment_targets(statement)):
            value = Expression(variable.scope, statement.value)
            yield from [(value.line, number)] if (number := _number_of(value)) is not None else []
        call = statement.value if isinstance(statement, ast.Expr) else None
        if isinstance(call, ast.Call) and text in [ast.unparse(part) for part in _changed_in_place(call)]:
            yield from _fills_of_call(Expression(variable.scope, call), call)


def _changed_in_place(call: ast.Call) -> list[ast.expr]:
    """Return what a call may change whose result is not used: its first argument, and the owner of the method."""
    owner = _without_indices(call.func.value) if isinstance(call.func, ast.Attribute) else None
    return [*call.args[:1], *([owner] if owner else [])]


def _without_indices(node: ast.expr) -> ast.expr:
    """Return the variable or attribute of which an expression selects items, as ``table.loc[rows]`` does."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr in _INDEXERS):
        node = node.value
    return node


def _filled_owner(target: ast.expr) -> str:
    """Return the variable or attribute to some items of which a target writes; empty for single items and others."""
    if not isinstance(target, ast.Subscript) or isinstance(target.slice, ast.Constant):
        return ""
    return ast.unparse(_without_indices(target.value))


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
