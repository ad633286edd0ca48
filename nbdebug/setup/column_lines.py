"""The line that makes a column of the inputs, followed back through the parts of which the inputs are joined."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from types import ModuleType

import numpy as np
from torch import Tensor

from nbdebug.setup.part_sources import constructor_argument, find_part
from nbdebug.setup.setup import Setup
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name
from nbdebug.source.table_columns import (
    column_owner,
    column_write,
    constant_name,
    listed_names,
    next_step,
    table_columns,
)

_MAX_STEPS = 40
_JOINS_OF_COLUMNS = {"column_stack", "hstack", "c_"}
_JOINS = {"concatenate", "cat", "concat", "hstack", "column_stack"}
_STACKS = {"stack"}
_LAST_AXES = ("1", "-1", "'columns'")
_SAME_COLUMNS = {"fillna", "nan_to_num", "clip", "clamp", "copy", "dropna", "reset_index", "ascontiguousarray", "abs"}
_SAME_COLUMNS |= {"log1p", "round", "fit_transform", "transform", "sample", "normalize", "scale", "zscore"}
_TABLE_METHODS = {"fillna", "clip", "clamp", "copy", "dropna", "reset_index", "abs", "log1p", "round", "sample"}

_CONVERSIONS = {"to_numpy", "astype", "float", "double", "numpy", "copy", "detach", "cpu", "to"}  # keep the width
_STATISTICS = {"mean", "std", "var", "min", "max", "median", "sum", "quantile", "norm", "sqrt", "clip", "clamp"}


@dataclass(frozen=True)
class _InputColumn:
    """A column of what an expression makes: its name or number, and how many columns there are; one without a key."""

    expression: Expression
    position: int | None
    key: int | str | None
    width: int | None


def column_line(setup: Setup, input_index: int, column: int, width: int) -> SourceLine | None:
    """Return the line that makes a column of an input of the training samples; None if it cannot be told apart.

    Joined parts, selected and dropped columns, arithmetic with statistics and conversions are followed back through
    variables, attributes and functions of the user, up to the statement that writes the column, or to the part of a
    join that is this column alone.
    """
    try:
        part = find_part(setup, setup.train_loader, input_index)
        return _making_line(setup, _InputColumn(*part, column, width)) if part else None
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def _making_line(setup: Setup, current: _InputColumn) -> SourceLine | None:
    for _ in range(_MAX_STEPS):
        if current.key is None:
            return part_producer(current.expression, current.position, passes_conversions=True).line
        node, scope = current.expression.node, current.expression.scope
        is_variable = isinstance(node, ast.Name) or (isinstance(node, ast.Attribute) and not column_owner(node))
        if is_variable and (write := column_write(current.expression, current.key, current.width)):
            return Expression(scope, write.value).line
        if named := _named_value(current):
            return named
        source = _operand_column(current) or _previous_column(setup, current)
        if source is None:
            return None
        current = source
    return None


def _previous_column(setup: Setup, current: _InputColumn) -> _InputColumn | None:
    """Return the same column of what a variable, an attribute, a conversion or a call of the user is made of."""
    expression, node = current.expression, current.expression.node
    if step := next_step(expression, current.position):
        return replace(current, expression=step[0], position=step[1])
    if isinstance(node, ast.Name) and expression.scope.function == "__init__":
        passed = constructor_argument(setup, setup.train_loader, node.id)
        return replace(current, expression=passed, position=None) if passed else None
    return None


def _named_value(current: _InputColumn) -> SourceLine | None:
    """Return the line of the value that ``DataFrame({"age": …})`` or ``frame.assign(age=…)`` gives to a column."""
    node, scope = current.expression.node, current.expression.scope
    name = _name_of(current)
    if not isinstance(node, ast.Call) or call_name(node) not in ("DataFrame", "assign") or not name:
        return None
    values = {keyword.arg: keyword.value for keyword in node.keywords}
    for argument in node.args[:1]:
        pairs = zip(argument.keys, argument.values, strict=True) if isinstance(argument, ast.Dict) else ()
        values |= {constant_name(key): value for key, value in pairs if key is not None}
    return (
        part_producer(Expression(scope, values[name]), None, passes_conversions=True).line if name in values else None
    )


def _name_of(current: _InputColumn) -> str:
    """Return the name of a column of a table; empty if it is not known."""
    if isinstance(current.key, str) or current.key is None:
        return current.key or ""
    columns = table_columns(current.expression)
    return columns[current.key] if columns is not None and len(columns) == current.width else ""


def _operand_column(current: _InputColumn) -> _InputColumn | None:
    """Return the column of the data of which an expression makes others: of a part of a join, or a selection."""
    node, scope = current.expression.node, current.expression.scope
    if (parts := _joined_parts(current)) is not None:
        return _in_part(current, parts)
    if isinstance(node, ast.BinOp):
        sides = [Expression(scope, side) for side in (node.left, node.right)]
        sides = [side for side in sides if not _is_statistic(side)]
        return replace(current, expression=sides[0], position=None) if len(sides) == 1 else None
    if isinstance(node, ast.Subscript):
        return _selected(current, node)
    if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") != "self" and (owner := column_owner(node)):
        return replace(current, expression=Expression(scope, owner), position=None, key=node.attr, width=None)
    if not isinstance(node, ast.Call):
        return None
    name, owner = call_name(node), node.func.value if isinstance(node.func, ast.Attribute) else None
    if name == "drop" and owner is not None and (key := _name_of(current)):
        return replace(current, expression=Expression(scope, owner), position=None, key=key, width=None)
    if name == "assign" and owner is not None:
        return replace(current, expression=Expression(scope, owner), position=None)
    if name in _SAME_COLUMNS and next_step(current.expression, current.position) is None:
        is_method = name in _TABLE_METHODS and owner is not None and not isinstance(scope.value(owner), ModuleType)
        subject = owner if is_method else next(iter(node.args), owner)
        return replace(current, expression=Expression(scope, subject), position=None) if subject else None
    return None


def _selected(current: _InputColumn, node: ast.Subscript) -> _InputColumn | None:
    """Return the column of the table from which an index selects rows or columns."""
    scope, index, owner = current.expression.scope, node.slice, node.value
    if isinstance(owner, ast.Attribute) and owner.attr in ("iloc", "loc"):
        owner = owner.value
    table = replace(current, expression=Expression(scope, owner), position=None)
    columns = index.elts[-1] if isinstance(index, ast.Tuple) and len(index.elts) > 1 else index
    if name := constant_name(columns):
        return replace(table, key=name, width=None)
    names = listed_names(Expression(scope, columns))
    if names is not None and isinstance(current.key, int) and len(names) == current.width:
        return replace(table, key=names[current.key], width=None)
    if columns is index:
        return table if names is None and not isinstance(index, ast.Constant) else None
    if isinstance(columns, ast.Constant) and type(columns.value) is int:
        return replace(table, key=columns.value, width=None)
    first = _first_column(columns) if isinstance(columns, ast.Slice) else None
    is_whole = isinstance(columns, ast.Slice) and not (columns.lower or columns.upper or columns.step)
    if first is None or not isinstance(current.key, int):
        return None
    return replace(table, key=current.key + first, width=current.width if is_whole else None)


def _first_column(columns: ast.Slice) -> int | None:
    """Return where a slice of columns starts; None if that is not a constant from the front."""
    start = columns.lower.value if isinstance(columns.lower, ast.Constant) else None if columns.lower else 0
    return start if type(start) is int and columns.step is None else None


def _is_statistic(side: Expression) -> bool:
    """Check for a number, or values by which a table is scaled: statistics have no columns that can be followed."""
    end = part_producer(side, None, passes_conversions=True).node
    is_number = isinstance(end, (ast.Constant, ast.UnaryOp))
    return is_number or call_name(end) in _STATISTICS or (isinstance(end, ast.BinOp) and _is_of_statistics(side, end))


def _is_of_statistics(side: Expression, end: ast.BinOp) -> bool:
    scope = part_producer(side, None, passes_conversions=True).scope
    return all(_is_statistic(Expression(scope, part)) for part in (end.left, end.right))


def _joined_parts(current: _InputColumn) -> list[ast.expr] | None:
    """Return the parts that a call joins along the axis of columns; None for other expressions."""
    node = current.expression.node
    if isinstance(node, ast.Subscript) and getattr(node.value, "attr", "") == "c_":
        return [*getattr(node.slice, "elts", [])]
    if not isinstance(node, ast.Call) or call_name(node) not in _JOINS | _STACKS or not node.args:
        return None
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
    axis = options.get("axis", options.get("dim", ast.unparse(node.args[1]) if len(node.args) > 1 else "0"))
    is_of_columns = call_name(node) in _JOINS_OF_COLUMNS or axis in _LAST_AXES
    parts = getattr(node.args[0], "elts", None)
    return parts if is_of_columns and parts and not any(isinstance(part, ast.Starred) for part in parts) else None


def _in_part(current: _InputColumn, parts: list[ast.expr]) -> _InputColumn | None:
    """Return the column of the joined part that it belongs to; one without a key if the part is this column alone."""
    scope, key, width = current.expression.scope, current.key, current.width
    if not isinstance(key, int) or width is None:
        return None
    is_stack = call_name(current.expression.node) in _STACKS
    widths = [1 if is_stack else _width(Expression(scope, part)) for part in parts]
    if widths.count(None) == 1:
        widths[widths.index(None)] = width - sum(known for known in widths if known is not None)
    start = 0
    for part, count in zip(parts, widths, strict=True):
        if count is None:
            break
        if start <= key < start + count:
            inner = None if count == 1 else key - start
            return _InputColumn(Expression(scope, part), None, inner, count)
        start += count
    return None


def _width(part: Expression) -> int | None:
    """Return how many columns a part has; None if the source does not tell it."""
    made = part_producer(part, None, passes_conversions=True)
    for expression in (part, made):
        node, scope = expression.node, expression.scope
        while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and call_name(node) in _CONVERSIONS:
            node = node.func.value
        if isinstance(node, ast.Attribute) and node.attr == "values":
            node = node.value
        if _is_single(node):
            return 1
        value = scope.value(node)
        if isinstance(value, (np.ndarray, Tensor)) and value.ndim in (1, 2):
            return value.shape[1] if value.ndim == 2 else 1
        if isinstance(node, ast.Subscript) and (count := _selected_count(node.slice)) is not None:
            return count
        if (columns := table_columns(Expression(scope, node))) is not None:
            return len(columns)
    return None


def _selected_count(index: ast.expr) -> int | None:
    """Return how many columns an index such as ``[:, 2:5]`` selects; None if it does not tell."""
    columns = index.elts[-1] if isinstance(index, ast.Tuple) and len(index.elts) > 1 else None
    if isinstance(columns, (ast.List, ast.Tuple)):
        return len(columns.elts)
    first = _first_column(columns) if isinstance(columns, ast.Slice) else None
    end = getattr(getattr(columns, "upper", None), "value", None)
    return end - first if first is not None and type(end) is int and end > first else None


def _is_single(node: ast.expr) -> bool:
    """Check for one column: ``x[:, None]``, ``x.unsqueeze(1)``, ``x.reshape(-1, 1)`` or ``frame["age"]``."""
    if isinstance(node, ast.Subscript):
        index = getattr(node.slice, "elts", [node.slice])
        return bool(constant_name(node.slice)) or any(getattr(part, "value", 0) is None for part in index)
    texts = [ast.unparse(argument) for argument in getattr(node, "args", ())]
    return (call_name(node) == "unsqueeze" and texts in (["1"], ["-1"])) or (
        call_name(node) in ("reshape", "view") and texts[-2:] == ["-1", "1"]
    )
