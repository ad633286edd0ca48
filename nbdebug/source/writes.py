"""Find the statement that changes the data that another line makes: that writes values into them, or repeats rows."""

from __future__ import annotations

import ast
import math
from collections.abc import Collection, Container, Iterator
from typing import Any

from nbdebug.source.assignments import covering_statement, function_by_name, returned_by_function, returned_value
from nbdebug.source.location import SourceLine
from nbdebug.source.search import (
    SourceScope,
    assignment_targets,
    call_arguments,
    call_name,
    enclosing_scope,
    read_names,
    syntax_tree,
)

_MAX_STEPS = 4
_PERMUTATIONS = {"permutation", "randperm", "argsort"}
_REPEATING_CALLS = {"merge", "explode", "repeat", "repeat_interleave", "tile"}
_LIKE_CALLS = {"zeros_like", "empty_like", "ones_like", "full_like", "new_zeros", "new_empty", "copy", "clone"}
_FILLING_CALLS = {"fillna", "masked_fill", "nan_to_num", "where", "full", "full_like", "new_full"}
_NEW_ARRAYS = {"zeros", "empty", "ones", "full"}
_NOT_A_NUMBER, _INFINITY = {"nan", "NaN", "NAN"}, {"inf", "Inf", "infty"}


def find_write(line: SourceLine | None, values: Collection[float], columns: Collection[int] = ()) -> SourceLine | None:
    """Return the only statement that writes a value, or into a column, of what a line makes; None if it is not certain.

    Searches the function, file or cell of the line for writes to the variables that it assigns, and to those that these
    are computed from. Only numbers in the source count: the written value, also as a constant of the module, or the
    column in the index.
    """
    scope, statement = (enclosing_scope(line), covering_statement(line)) if line else (None, None)
    if line is None or scope is None or statement is None:
        return None
    statements = [node for node in ast.walk(scope) if isinstance(node, ast.stmt)]
    names = _related_names(statement, statements)
    constants = _module_constants(line.file)
    writes = [write for node in statements for write in _writes(node) if _base(write[0]) in names]
    lines = {
        SourceLine(line.file, target.lineno, line.function)
        for target, value in writes
        if any(_equals(_number(constants.get(_text(value), value)), number) for number in values)
        or {*_indices(target)} & {*columns}
    }
    return lines.pop() if len(lines) == 1 else None


def find_filled_array(line: SourceLine | None) -> SourceLine | None:
    """Return the only statement that makes an array like another, or of whole numbers, which is filled later.

    That is the line itself, or one that makes a variable of its function, file or cell from which it computes.
    """
    scope, statement = (enclosing_scope(line), covering_statement(line)) if line else (None, None)
    if line is None or scope is None or statement is None:
        return None
    statements = [node for node in ast.walk(scope) if isinstance(node, ast.stmt)]
    names = _related_names(statement, statements)
    lines = {
        SourceLine(line.file, node.value.lineno, line.function)
        for node in statements
        if isinstance(node, ast.Assign) and makes_like(node.value)
        if not names.isdisjoint(map(_text, assignment_targets(node)))
    }
    return lines.pop() if len(lines) == 1 else None


def makes_like(value: ast.AST) -> bool:
    """Check whether a call makes an array with the dtype of another, or of whole numbers by name."""
    options = {keyword.arg: ast.unparse(keyword.value) for keyword in getattr(value, "keywords", ())}
    if call_name(value) in _LIKE_CALLS:
        return "float" not in options.get("dtype", "")
    return call_name(value) in _NEW_ARRAYS and "int" in options.get("dtype", "")


def find_repetition(line: SourceLine, names: Collection[str]) -> SourceLine | None:
    """Return the only statement up to a line that may repeat rows of the data of which some variables are made.

    It joins tables or repeats rows by a function of that name, or calls a function on what it assigns, such as
    ``x, y = oversample(x, y)``, that returns rows at an index or joins parts. If there is none, functions of the same
    file are entered.
    """
    lines = _find_repetitions(line, enclosing_scope(line), names, _MAX_STEPS)
    return lines.pop() if len(lines) == 1 else None


def _find_repetitions(
    line: SourceLine, scope: SourceScope | None, names: Collection[str], depth: int
) -> set[SourceLine]:
    nodes = [node for node in ast.walk(scope) if isinstance(node, ast.stmt)] if scope else []
    related = _sources({*names}, nodes)
    statements = [
        node
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and node.lineno <= line.number
        if not related.isdisjoint(_text(target) for target in assignment_targets(node))
    ]
    lines = {SourceLine(line.file, node.lineno, line.function) for node in statements if _may_repeat(node, line.file)}
    lines |= {SourceLine(line.file, node.lineno, line.function) for node in nodes if _exchanges_views(node, related)}
    calls = [call for node in statements if not lines for call in _inner_calls(node)]
    lines |= {SourceLine(line.file, call.lineno, line.function) for call in calls if _returns_more(call, line.file)}
    for node in statements if depth and not lines else ():
        function = function_by_name(line.file, call_name(node.value))
        returned = returned_value(function) if function else None
        if function and returned:
            end = SourceLine(line.file, returned.lineno, function.name)
            inner = _find_repetitions(end, function, read_names(returned), depth - 1)
            exchanges = any(isinstance(covering_statement(item), ast.Expr) for item in inner)
            is_named_by_call = inner and not exchanges and _replaces_data(node)
            lines |= {SourceLine(line.file, node.lineno, line.function)} if is_named_by_call else inner
    return lines


def _may_repeat(statement: ast.Assign, file: str) -> bool:
    """Check whether an assignment of a call may repeat rows, as a merge of tables or ``x = oversample(x)``."""
    name = call_name(statement.value)
    repeats_rows = _repeats_rows(statement.value) or _repeats_rows(returned_by_function(file, name))
    return name in _REPEATING_CALLS or (_replaces_data(statement) and repeats_rows)


def _inner_calls(statement: ast.Assign) -> Iterator[ast.Call]:
    """Yield the calls whose result is an argument of the call that a statement assigns, as ``f(*g(x, y))``."""
    pending = [statement.value]
    while pending:
        call = pending.pop()
        if isinstance(call, ast.Call):
            arguments = call_arguments(call)
            values = [getattr(argument, "value", argument) for argument in arguments]
            inner = [value for value in values if isinstance(value, ast.Call)]
            yield from inner
            pending += inner


def _returns_more(call: ast.Call, file: str) -> bool:
    """Check whether a call repeats rows by name, or the user's function returns those at an index of no permutation."""
    function = function_by_name(file, call_name(call)) if isinstance(call.func, ast.Name) else None
    returned = returned_value(function) if function else None
    nodes = [node for node in ast.walk(function) if isinstance(node, ast.Assign)] if function else []
    orders = {_text(target) for node in nodes if call_name(node.value) in _PERMUTATIONS for target in node.targets}
    parts = getattr(returned, "elts", [returned])
    is_ordered = any(isinstance(part, ast.Subscript) and _text(part.slice) in orders for part in parts)
    return call_name(call) in _REPEATING_CALLS or (_repeats_rows(returned) and not is_ordered)


def _exchanges_views(statement: ast.stmt, names: Container[str]) -> bool:
    """Check whether a statement shuffles one of some variables by ``random.shuffle``.

    It exchanges two items through a view of the first one, so that rows of an array overwrite each other.
    """
    call = statement.value if isinstance(statement, ast.Expr) else None
    shuffles = isinstance(call, ast.Call) and ast.unparse(call.func) == "random.shuffle" and len(call.args) == 1
    return shuffles and isinstance(call, ast.Call) and _text(call.args[0]) in names


def _replaces_data(statement: ast.Assign) -> bool:
    """Check whether a statement computes what it assigns from its previous value, as in ``x, y = f(x, y)``."""
    return not {_text(target) for target in assignment_targets(statement)}.isdisjoint(_read_texts(statement))


def find_meeting(line: SourceLine, names: Collection[str], others: Collection[str]) -> SourceLine | None:
    """Return the only statement before a line that computes what some variables are made of from other variables.

    A statement that assigns both kinds, such as ``x, y = x[order], y[order]``, does not count.
    """
    scope = enclosing_scope(line)
    statements = [node for node in ast.walk(scope) if isinstance(node, ast.stmt)] if scope else []
    related = _sources({*names}, statements) - {*others}
    lines = {
        SourceLine(line.file, node.lineno, line.function)
        for node in statements
        if isinstance(node, ast.Assign) and node.lineno < line.number and {*others} & _read_texts(node)
        if (assigned := {_text(target) for target in assignment_targets(node)}) & related and not assigned & {*others}
    }
    return lines.pop() if len(lines) == 1 else None


def written_columns(statement: ast.stmt | None) -> set[str]:
    """Return the columns of a table that a statement sets, as in ``frame["age"] = …``."""
    targets = assignment_targets(statement) if isinstance(statement, ast.Assign) else []
    keys = [getattr(target.slice, "value", None) for target in targets if isinstance(target, ast.Subscript)]
    return {key for key in keys if isinstance(key, str)}


def _repeats_rows(value: ast.expr | None) -> bool:
    """Check whether an expression selects rows by a computed index, or joins several parts."""
    for part in getattr(value, "elts", [value]):
        is_computed = isinstance(part, ast.Subscript) and isinstance(part.slice, (ast.Name, ast.Call, ast.Subscript))
        if is_computed and call_name(part.slice) not in _PERMUTATIONS:
            return True
        arguments = part.args[:1] if isinstance(part, ast.Call) else []
        if any(len(getattr(argument, "elts", [])) > 1 for argument in arguments):
            return True
    return False


def _module_constants(file: str) -> dict[str, ast.expr]:
    """Return the values that a file assigns to names, once each, outside of functions and classes."""
    tree = syntax_tree(file)
    assigned = [node for node in (tree.body if tree else []) if isinstance(node, ast.Assign)]
    pairs = [(_text(target), node.value) for node in assigned for target in node.targets]
    names = [name for name, _ in pairs]
    return {name: value for name, value in pairs if name and names.count(name) == 1}


def _related_names(statement: ast.stmt, statements: list[ast.stmt]) -> set[str]:
    """Return the variables and attributes that a statement assigns, and those that they are computed from."""
    return _sources({_text(target) for target in assignment_targets(statement)} | _read_texts(statement), statements)


def _sources(names: set[str], statements: list[ast.stmt]) -> set[str]:
    """Return some variables and attributes, and those that they are computed from."""
    for _ in range(_MAX_STEPS):
        makers = [node for node in statements if {_text(target) for target in assignment_targets(node)} & names]
        names |= {name for maker in makers for name in _read_texts(maker)}
    return names


def _read_texts(statement: ast.stmt) -> set[str]:
    value = getattr(statement, "value", None)
    nodes = ast.walk(value) if isinstance(value, ast.expr) else ()
    return {_text(node) for node in nodes if isinstance(node, (ast.Name, ast.Attribute))}


def _text(node: ast.AST) -> str:
    return ast.unparse(node) if isinstance(node, (ast.Name, ast.Attribute)) else ""


def _writes(statement: ast.stmt) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield the targets and values of writes: to an item, by a method such as ``fill_``, or by a call that fills."""
    value = getattr(statement, "value", None)
    for call in ast.walk(value) if isinstance(statement, ast.Assign) and value is not None else ():
        if isinstance(call, ast.Call) and call_name(call) in _FILLING_CALLS:
            fillers = call_arguments(call)
            yield from ((target, filler) for target in assignment_targets(statement) for filler in fillers)
    if isinstance(statement, (ast.Assign, ast.AugAssign)) and isinstance(value, ast.expr):
        yield from ((target, value) for target in assignment_targets(statement) if isinstance(target, ast.Subscript))
    elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr.endswith("_"):
        yield from ((value.func.value, argument) for argument in value.args or [value])


def _base(target: ast.expr) -> str:
    while isinstance(target, ast.Subscript):
        target = target.value
    return _text(target)


def _indices(target: ast.expr) -> Iterator[int]:
    """Yield the numbers that an index has on axes after the first."""
    index = target.slice if isinstance(target, ast.Subscript) else None
    for element in index.elts[1:] if isinstance(index, ast.Tuple) else ():
        if isinstance(element, ast.Constant) and type(element.value) is int:
            yield element.value


def _number(value: ast.expr) -> float | None:
    """Return the number that an expression writes, also NaN and infinity by name."""
    sign = -1 if isinstance(value, ast.UnaryOp) and isinstance(value.op, ast.USub) else 1
    node: Any = value.operand if isinstance(value, ast.UnaryOp) else value
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "float" and len(node.args) == 1:
        node = node.args[0]
    content = getattr(node, "attr", getattr(node, "value", None))
    if isinstance(content, str):
        return math.nan if content in _NOT_A_NUMBER else sign * math.inf if content.strip("-+") in _INFINITY else None
    return sign * float(content) if isinstance(content, (int, float)) and not isinstance(content, bool) else None


def _equals(number: float | None, value: float) -> bool:
    return number is not None and (number == value or (math.isnan(number) and math.isnan(value)))
