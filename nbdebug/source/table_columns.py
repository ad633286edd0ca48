"""Columns of tables in the source: which variables hold data, the names of the columns, and where one is written."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any

from nbdebug.source.assignments import own_statements
from nbdebug.source.producers import part_producer, part_steps
from nbdebug.source.scopes import Expression
from nbdebug.source.search import assignment_targets, call_name, enclosing_scope

_WHOLE_VALUES = {"values", "data", "array", "T", "mT"}  # attributes that hold all of a variable
_SAME_COLUMNS = {"dropna", "sample", "copy", "reset_index", "sort_values", "head", "tail", "query", "drop_duplicates"}
_SAME_COLUMNS |= {"fillna", "astype", "clip", "round"}
_TABLE_METHODS = _SAME_COLUMNS | {"assign", "drop"}
_TABLE_LIBRARIES = ("pandas.", "polars.")
_MAX_DEPTH = 12


def value_names(expression: Expression) -> set[str]:
    """Return the variables that an expression reads, without modules and tables of which it reads a column.

    ``torch.tensor(frame.price.to_numpy())`` reads none, ``torch.tensor(price.values)`` reads ``price``.
    """
    nodes = [*ast.walk(expression.node)]
    methods = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    owners = {id(owner) for node in nodes if id(node) not in methods and (owner := column_owner(node))}
    names = [node for node in nodes if isinstance(node, ast.Name) and id(node) not in owners]
    return {node.id for node in names if not isinstance(expression.scope.value(node), ModuleType)}


def column_owner(node: ast.AST) -> ast.expr | None:
    """Return the table of which an expression reads a column, as ``frame.price`` or ``frame["price"]``; else None."""
    if isinstance(node, ast.Attribute):
        return node.value if node.attr not in _WHOLE_VALUES else None
    return node.value if isinstance(node, ast.Subscript) and constant_name(node.slice) else None


def constant_name(node: ast.expr) -> str:
    """Return the text that a constant is; empty for other expressions."""
    value = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else ""


def listed_names(expression: Expression) -> list[str] | None:
    """Return the names in a list of texts, as it stands or in a variable of the module; None if it is not known."""
    node = expression.node
    if isinstance(node, (ast.List, ast.Tuple)):
        names = [constant_name(part) for part in node.elts]
        return names if all(names) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        sides = [listed_names(Expression(expression.scope, side)) for side in (node.left, node.right)]
        return [*sides[0], *sides[1]] if sides[0] is not None and sides[1] is not None else None
    value = expression.scope.value(node)
    if isinstance(value, (list, tuple)):
        return [*value] if all(isinstance(item, str) for item in value) else None
    made = part_producer(expression, None) if isinstance(node, ast.Name) else expression
    return listed_names(made) if made.node is not node and not isinstance(made.node, ast.Name) else None


def table_columns(table: Expression, depth: int = _MAX_DEPTH) -> list[str] | None:
    """Return the names of the columns of a table, as far as the source tells how it was made; else None."""
    node, scope = table.node, table.scope
    value = scope.value(node)
    if type(value).__module__.startswith(_TABLE_LIBRARIES) and hasattr(value, "columns"):
        return [*map(str, value.columns)]
    if not depth:
        return None
    if isinstance(node, ast.Subscript):
        is_pair = isinstance(node.slice, ast.Tuple) and len(node.slice.elts) > 1
        index = node.slice.elts[-1] if is_pair and isinstance(node.slice, ast.Tuple) else node.slice
        names = listed_names(Expression(scope, index))
        selects_columns = isinstance(index, ast.Constant) or (is_pair and ast.unparse(index) not in (":", "..."))
        return names or (None if selects_columns else table_columns(Expression(scope, _indexed_table(node)), depth - 1))
    if isinstance(node, ast.BinOp):
        return table_columns(Expression(scope, node.left), depth - 1)
    if isinstance(node, ast.Call) and (made := _columns_of_call(table, node, depth)) is not None:
        return made
    source = next_step(table, None)
    columns = table_columns(source[0], depth - 1) if source and source[1] is None else None
    if columns is None or not isinstance(node, ast.Name):
        return columns
    return [*dict.fromkeys([*columns, *_written_names(table)])]


def _columns_of_call(table: Expression, call: ast.Call, depth: int) -> list[str] | None:
    """Return the columns of what a function of pandas returns; None for other calls."""
    scope, name = table.scope, call_name(call)
    options = {keyword.arg: keyword.value for keyword in call.keywords}
    if name == "DataFrame":
        content = next(iter(call.args), options.get("data"))
        if isinstance(content, ast.Dict):
            keys = [constant_name(key) if key else "" for key in content.keys]
            return keys if all(keys) else None
        return listed_names(Expression(scope, options["columns"])) if "columns" in options else None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    columns = table_columns(Expression(scope, owner), depth - 1) if owner and name in _TABLE_METHODS else None
    if columns is None or name in _SAME_COLUMNS:
        return columns
    if name == "assign":
        return [*dict.fromkeys([*columns, *(str(key) for key in options)])]
    dropped = options.get("columns")
    names = ([constant_name(dropped)] if isinstance(dropped, ast.Constant) else None) if dropped else None
    names = names or (listed_names(Expression(scope, dropped)) if dropped else None)
    return [column for column in columns if column not in names] if names else None


def next_step(expression: Expression, position: int | None) -> tuple[Expression, int | None] | None:
    """Return what a variable, an attribute, a conversion or a call of a user's function is made of; else None."""
    steps = part_steps(expression, position, passes_conversions=True)
    first = next(steps)
    second = next(steps, None)
    return second if second is not None and second[0].node is not first[0].node else None


def _indexed_table(item: ast.Subscript) -> ast.expr:
    """Return the table of ``frame[…]``, ``frame.loc[…]`` or ``frame.iloc[…]``."""
    owner = item.value
    return owner.value if isinstance(owner, ast.Attribute) and owner.attr in ("iloc", "loc") else owner


def _written_names(table: Expression) -> list[str]:
    names = [_written_key(statement, table.node) for statement in _statements_before(table)]
    return [name for name in names if isinstance(name, str)]


def column_write(table: Expression, column: int | str, width: int | None) -> ast.Assign | None:
    """Return the last statement before an expression that sets a column of the variable or attribute that it is."""
    last = None
    for statement in _statements_before(table):
        key = _written_key(statement, table.node)
        is_same = key == column or (isinstance(key, int) and key < 0 and width is not None and key + width == column)
        last = statement if is_same and type(key) is type(column) else last
    return last


def _statements_before(table: Expression) -> list[ast.Assign]:
    syntax = enclosing_scope(table.line)
    assignments = [node for node in (own_statements(syntax) if syntax else ()) if isinstance(node, ast.Assign)]
    return sorted((node for node in assignments if node.lineno < table.node.lineno), key=lambda node: node.lineno)


def _written_key(statement: ast.Assign, table: ast.expr) -> Any:
    """Return the column of a table that a statement sets, by name or by number; None if it sets none."""
    for target in assignment_targets(statement):
        if not isinstance(target, ast.Subscript):
            continue
        owner = _indexed_table(target)
        if ast.unparse(owner) != ast.unparse(table):
            continue
        parts = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
        if name := constant_name(parts[-1]):
            return name
        key = _constant_index(parts[-1]) if len(parts) > 1 else None
        if key is not None:
            return key
    return None


def _constant_index(node: ast.expr) -> int | None:
    sign = -1 if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) else 1
    number = node.operand if isinstance(node, ast.UnaryOp) else node
    value = number.value if isinstance(number, ast.Constant) else None
    return sign * value if isinstance(value, int) and not isinstance(value, bool) else None
