"""Find the line that shifts a series, or looks it up, so that inputs contain the step that is the target."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name, call_subject, enclosing_loops, enclosing_scope, file_nodes, syntax_tree

_SHIFTS, _OFFSET_OPTIONS = {"shift", "roll"}, {"periods", "shifts", "shift"}
_LOOKUPS = {"take", "index_select", "gather"}
_MAX_TURNS = 1_000
_Comprehension = ast.ListComp | ast.GeneratorExp | ast.DictComp | ast.SetComp


def lookup_line(inputs: Expression, targets: Expression) -> SourceLine | None:
    """Return the line that makes the index at which inputs are looked up ahead in the series of their targets.

    None if they are not looked up in the same series, or if the index does not add to a step: then the targets may be
    too early.
    """
    input_lookup, target_lookup = _lookup(inputs.node), _lookup(targets.node)
    if input_lookup is None or target_lookup is None or inputs.scope.file != targets.scope.file:
        return None
    if ast.unparse(input_lookup[0]) != ast.unparse(target_lookup[0]):
        return None
    looked_up = Expression(inputs.scope, input_lookup[1])
    index = part_producer(looked_up, None, may_make=lambda choice: _adds(choice.node), passes_conversions=True)
    return index.line if _adds(index.node) else None


def _lookup(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Return a series and the index at which an expression looks it up; None for slices and other expressions."""
    if isinstance(node, ast.Subscript):
        index = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
        return None if isinstance(index, (ast.Slice, ast.Constant)) else (node.value, index)
    subject = call_subject(node) if isinstance(node, ast.Call) and call_name(node) in _LOOKUPS else None
    arguments = [part for part in getattr(node, "args", []) if part is not subject]
    return (subject, arguments[-1]) if subject is not None and arguments else None


def _adds(node: ast.expr) -> bool:
    """Check whether an index is a sum in which nothing is subtracted."""
    parts = [part for part in ast.walk(node) if isinstance(part, (ast.BinOp, ast.UnaryOp))]
    is_sum = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
    return is_sum and not any(isinstance(part.op, (ast.Sub, ast.USub)) for part in parts)


def shift_line(targets: Expression, files: Collection[str]) -> SourceLine | None:
    """Return the only line that shifts the series of the targets by as many steps as the targets; None if uncertain.

    A step that is computed in a loop is compared for each turn. If the turns are unknown, it must be negative as that
    of the targets. Targets that are shifted by a positive number of steps are earlier values themselves.
    """
    column = _column(targets.node)
    makers = [*_column_makers(column, files)] if column else [targets.node]
    maker = makers[0] if len(makers) == 1 else targets.node if not makers else None
    if maker is None:
        return None
    shift = _shift(maker)
    series, steps = (_name(shift[0]), _steps(shift[1], {})) if shift else (column or _name(maker), 0)
    if not series or steps is None or steps > 0:
        return None
    lines = {
        SourceLine(file, node.lineno)
        for file in files
        for node in file_nodes(syntax_tree(file))
        if isinstance(node, ast.Call) and node is not maker and (other := _shift(node))
        if _name(other[0]) == series and _may_shift_by(steps, file, node, other[1])
    }
    return lines.pop() if len(lines) == 1 else None


def _column(node: ast.expr) -> str:
    """Return the column that an expression selects from a table; "" for others."""
    key = getattr(node.slice, "value", None) if isinstance(node, ast.Subscript) else None
    return key if isinstance(key, str) else ""


def _column_makers(column: str, files: Collection[str]) -> Iterator[ast.expr]:
    """Yield what a column of a table is set to: by an assignment, or in a dictionary or call that makes the table."""
    for node in (node for file in files for node in file_nodes(syntax_tree(file))):
        if isinstance(node, ast.Assign):
            yield from (node.value for target in node.targets if _column(target) == column)
        elif isinstance(node, ast.Dict):
            pairs = zip(node.keys, node.values, strict=True)
            yield from (value for key, value in pairs if getattr(key, "value", None) == column)
        elif isinstance(node, ast.Call) and call_name(node) == "assign":
            yield from (keyword.value for keyword in node.keywords if keyword.arg == column)


def _shift(node: ast.expr) -> tuple[ast.expr, ast.expr] | None:
    """Return the series that a call shifts, and the number of steps."""
    if not isinstance(node, ast.Call) or call_name(node) not in _SHIFTS:
        return None
    subject = call_subject(node)
    steps = [part for part in node.args if part is not subject]
    steps += [keyword.value for keyword in node.keywords if keyword.arg in _OFFSET_OPTIONS]
    return (subject, steps[0]) if subject is not None and steps else None


def _name(node: ast.expr) -> str:
    """Return the last name of a series: its variable, attribute or column."""
    return _column(node) or str(getattr(node, "attr", getattr(node, "id", "")))


def _may_shift_by(steps: int, file: str, call: ast.Call, expression: ast.expr) -> bool:
    """Check whether a call shifts by a number of steps, in one turn of the loops around it."""
    turns = _turns(file, call)
    if turns is None:
        return steps < 0 and _sign(expression) < 0
    return steps in {_steps(expression, values) for values in turns}


def _turns(file: str, call: ast.Call) -> list[dict[str, int]] | None:
    """Return the values of the variables of the innermost loop around a call, for each turn; None if unknown."""
    loops: list[ast.For | ast.comprehension] = []
    for node in file_nodes(syntax_tree(file)):
        if isinstance(node, _Comprehension) and any(part is call for part in ast.walk(node)):
            loops = [*node.generators]
    scope = enclosing_scope(SourceLine(file, call.lineno))
    loops = loops or ([*enclosing_loops(scope, call.lineno)] if scope else [])
    if not loops:
        return [{}]
    target, values = loops[0].target, _values(loops[0].iter)
    return [{target.id: value} for value in values] if isinstance(target, ast.Name) and values is not None else None


def _values(iterated: ast.expr) -> list[int] | None:
    """Return the whole numbers over which a loop runs, if the source writes them."""
    is_range = isinstance(iterated, ast.Call) and call_name(iterated) == "range"
    parts = iterated.args if is_range and isinstance(iterated, ast.Call) else getattr(iterated, "elts", None)
    values = [_steps(part, {}) for part in parts or []]
    numbers = [value for value in values if value is not None]
    if parts is None or len(numbers) < len(values):
        return None
    return [*range(*numbers)][:_MAX_TURNS] if is_range else numbers


def _steps(node: ast.expr, values: dict[str, int]) -> int | None:
    """Return the whole number that an expression computes; None if it is unknown."""
    if isinstance(node, ast.Constant):
        return node.value if type(node.value) is int else None
    if isinstance(node, ast.Name):
        return values.get(node.id)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inner = _steps(node.operand, values)
        return None if inner is None else -inner
    if not isinstance(node, ast.BinOp):
        return None
    left, right = _steps(node.left, values), _steps(node.right, values)
    if left is None or right is None:
        return None
    results = {ast.Add: left + right, ast.Sub: left - right, ast.Mult: left * right}
    return results.get(type(node.op))


def _sign(node: ast.expr) -> int:
    """Return the sign of a number of steps, of which variables are positive; 0 if it is unknown."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_sign(node.operand)
    if isinstance(node, ast.BinOp):
        left, right = _sign(node.left), _sign(node.right)
        is_sum = isinstance(node.op, ast.Add) and left == right
        return left if is_sum else left * right if isinstance(node.op, ast.Mult) else 0
    number = _steps(node, {})
    return 1 if number is None else (number > 0) - (number < 0)
