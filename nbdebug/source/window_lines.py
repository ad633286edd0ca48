"""Find the line that selects windows of a series, or their targets, at wrong places."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sized
from dataclasses import dataclass, replace
from types import FunctionType

from nbdebug.source.assignments import covering_statement, own_statements
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import executed_return, part_producer, returned_expression
from nbdebug.source.scopes import UNKNOWN, Expression, Scope
from nbdebug.source.search import SourceScope, call_name, enclosing_scope, paired_targets, read_names
from nbdebug.source.variable_values import possible_assignments

_JOINING_CALLS = {"stack", "vstack", "array", "asarray", "tensor", "as_tensor", "list"}
_JOINS = {"stack", "column_stack", "vstack", "hstack", "cat", "concat", "concatenate"} | {"tensor", "array", "asarray"}
_CONVERSIONS = {"tensor", "as_tensor", "from_numpy", "array", "asarray", "float", "Tensor", "FloatTensor"}
_SERIES_LENGTH = 1_000_003  # stands for the unknown length; those of other names are far smaller
_NAME_NUMBERS = 99_991
_MAX_STEPS = 8


@dataclass(frozen=True)
class _Selection:
    """The steps from ``start`` up to before ``stop`` that an expression selects in the last turn of its loop."""

    series: str
    start: int
    stop: int
    line: SourceLine


@dataclass(frozen=True)
class _SeriesPart:
    """A selection from a series, in the function that makes it."""

    scope: Scope
    node: ast.Subscript

    @property
    def line(self) -> SourceLine:
        """The line of the selection."""
        return SourceLine(self.scope.file, self.node.lineno)


def misplaced_window_line(inputs: Expression, targets: Expression) -> SourceLine | None:
    """Return the line that selects a window with its target in it, or the target; None if it is not certain.

    ``inputs`` and ``targets`` are made from the same series in a loop over a ``range``, in the same function. Their
    indices are computed for the last turn, with different numbers for the names in them, once in one order of these
    numbers and once in the other. If the targets reach the end of the series, the window is too long, else the target
    is too early.
    """
    inputs, targets = (part_producer(part, None, passes_conversions=True) for part in (inputs, targets))
    lines = {_misplaced_line(inputs, targets, is_reversed=is_reversed) for is_reversed in (False, True)}
    return lines.pop() if len(lines) == 1 else None


def misplaced_item_line(pair: Expression, item: str, last: int) -> SourceLine | None:
    """Return the line that selects the window of an item with its target in it, or the target; None without a series.

    ``pair`` is what the function returns: the window first, the target last. Both are parts of the same series, at
    indices that depend on the variable ``item``, which is ``last`` for the last item. The window may join several
    series, and functions and methods of the user may make both. If the target of the last item is the end of the
    series, the window is too long, else the target is too early.
    """
    parts = getattr(pair.node, "elts", [])
    of_last_item = replace(pair.scope, bound={**pair.scope.bound, item: last})
    target = _selection_of_methods(of_last_item, parts[-1]) if parts else None
    windows = [*_joined_selections(of_last_item, parts[0])] if parts else []
    window = next((part for part in windows if target and _is_same_series(part, target)), None)
    if window is None or target is None:
        return None
    index = next(iter(getattr(target.node.slice, "elts", ())), target.node.slice)
    end = target.scope.value(index.upper or index if isinstance(index, ast.Slice) else index)
    series = target.scope.value(target.node.value)
    last_step = len(series) - (0 if isinstance(index, ast.Slice) else 1) if isinstance(series, Sized) else None
    if end != last_step and (returned := _own_result(target.scope, index)):
        return returned
    return window.line if end == last_step else target.line


def _is_same_series(first: _SeriesPart, second: _SeriesPart) -> bool:
    """Check whether two selections are from the same variable, or from the same object under other names."""
    series = first.scope.value(first.node.value)
    is_same_object = series is not UNKNOWN and series is second.scope.value(second.node.value)
    return is_same_object or ast.unparse(first.node.value) == ast.unparse(second.node.value)


def _own_result(scope: Scope, index: ast.expr) -> SourceLine | None:
    """Return the line of the method of the dataset that computes an index, if an index is only the call of one."""
    called = index.func if isinstance(index, ast.Call) else None
    owner = scope.value(called.value) if isinstance(called, ast.Attribute) else None
    method = getattr(type(owner), called.attr, None) if isinstance(called, ast.Attribute) else None
    returned = executed_return(method, owner) if isinstance(method, FunctionType) else None
    return returned.line if returned else None


def _joined_selections(scope: Scope, value: ast.expr) -> Iterator[_SeriesPart]:
    """Yield the selection from a series that an expression makes, or those from all series that it joins."""
    if selected := _selection_of_methods(scope, value):
        yield selected
        return
    whole = Expression(scope, value)
    made = part_producer(whole, None, enters=lambda _: False, passes_conversions=True).node
    if isinstance(made, ast.Call) and call_name(made) in _JOINS and made.args:
        for part in getattr(made.args[0], "elts", ()):
            yield from _joined_selections(scope, part)


def _selection_of_methods(scope: Scope, value: ast.expr) -> _SeriesPart | None:
    """Return the selection from a series that an expression makes, also in functions and methods of the user."""
    for _ in range(_MAX_STEPS):
        if selected := selected_part(scope, value):
            return _SeriesPart(scope, selected)
        called = _called_value(scope, value)
        returned = returned_expression(Expression(scope, called)) if called else None
        if returned is None:
            return None
        scope, value = returned.scope, returned.node
    return None


def _called_value(scope: Scope, value: ast.expr) -> ast.Call | None:
    """Return the call of a function of the user whose result an expression converts or reshapes."""
    parts = _unconverted_parts(scope, value)
    return next((part for part in parts if isinstance(part, ast.Call) and scope.callee(part)), None)


def selected_part(scope: Scope, value: ast.expr) -> ast.Subscript | None:
    """Return the selection from a series that an expression converts or reshapes; None if there is none."""
    return next((part for part in _unconverted_parts(scope, value) if isinstance(part, ast.Subscript)), None)


def _unconverted_parts(scope: Scope, value: ast.expr) -> Iterator[ast.expr]:
    """Yield an expression, what it converts or reshapes, what that converts, and so on."""
    part: ast.expr | None = value
    for _ in range(_MAX_STEPS):
        if part is None:
            return
        yield part
        part = _unconverted(scope, part)


def _unconverted(scope: Scope, value: ast.expr) -> ast.expr | None:
    """Return what a variable was assigned, or what a call or a method converts or reshapes; None if unknown."""
    if isinstance(value, ast.Name):
        return _assigned_value(scope, value, value.id)
    if isinstance(value, ast.Call) and call_name(value) in _CONVERSIONS and value.args:
        return value.args[0]
    source = getattr(getattr(value, "func", None), "value", None)  # a method, as in ``target.unsqueeze(0)``
    return source if isinstance(source, ast.expr) else None


def _misplaced_line(inputs: Expression, targets: Expression, *, is_reversed: bool) -> SourceLine | None:
    window, target = (_selection(whole, is_reversed=is_reversed) for whole in (inputs, targets))
    if window is None or target is None or window.series != target.series or window.line.file != target.line.file:
        return None
    if not window.start <= target.start < window.stop:
        return None  # another column reveals the target
    return window.line if target.stop == _SERIES_LENGTH else target.line


def _selection(whole: Expression, *, is_reversed: bool) -> _Selection | None:
    """Return what the only element that a list or an array is made of selects from a series."""
    scope, function = whole.scope, enclosing_scope(whole.line)
    elements = [*loop_elements(whole, function)] if function else []
    if len(elements) != 1:
        return None
    selected, loop_variable, loop_range = elements[0]
    if isinstance(selected, ast.Name):
        selected = _assigned_value(scope, selected, selected.id) or selected
    while isinstance(selected, ast.Call) and call_name(selected) in _CONVERSIONS and selected.args:
        selected = selected.args[0]
    if not isinstance(selected, ast.Subscript):
        return None
    series = ast.unparse(selected.value)
    numbers = StepNumbers(scope, series, selected, is_reversed=is_reversed)
    last = numbers.last_of(loop_range)
    if last is None:
        return None
    numbers.known[loop_variable] = last
    index = next(iter(getattr(selected.slice, "elts", ())), selected.slice)
    if isinstance(index, ast.Slice):
        start, stop = (numbers.value(bound) if bound else None for bound in (index.lower, index.upper))
    else:
        start = numbers.value(index)
        stop = start + 1 if start is not None else None
    if start is None or stop is None or not 0 <= start < stop <= _SERIES_LENGTH:
        return None
    return _Selection(series, start, stop, SourceLine(whole.scope.file, selected.lineno))


def loop_elements(whole: Expression, function: SourceScope) -> Iterator[tuple[ast.expr, str, ast.expr]]:
    """Yield the elements from which a list or an array is made in a loop, its variable, and what it runs over."""
    value = whole.node
    while isinstance(value, ast.Call) and call_name(value) in _JOINING_CALLS and value.args:
        value = value.args[0]
        if isinstance(value, ast.Name):
            value = _assigned_value(whole.scope, value, value.id) or value
    if isinstance(value, (ast.ListComp, ast.GeneratorExp)):
        loops = [(part.target, part.iter) for part in value.generators if not part.ifs]
        if len(loops) == len(value.generators) == 1 and isinstance(loops[0][0], ast.Name):
            yield value.elt, loops[0][0].id, loops[0][1]
        return
    name = _name_of(whole, value)
    for loop in own_statements(function) if name else ():
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name):
            added = (element for node in _running_statements(whole.scope, loop) for element in _added(node, name))
            yield from ((element, loop.target.id, loop.iter) for element in added)


def _added(statement: ast.stmt, name: str) -> Iterator[ast.expr]:
    """Yield what a statement appends to a list, or sets a row of an array to."""
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and call_name(call) == "append" and isinstance(call.func, ast.Attribute):
        yield from call.args if ast.unparse(call.func.value) == name else ()
    pairs = [(target, statement.value) for target in statement.targets] if isinstance(statement, ast.Assign) else []
    for target, value in pairs:
        if isinstance(target, ast.Subscript) and ast.unparse(target.value) == name:
            yield value


def _name_of(whole: Expression, value: ast.expr) -> str:
    """Return the variable that an expression is assigned to; "" if it is none."""
    statement = covering_statement(SourceLine(whole.scope.file, value.lineno))
    if not isinstance(statement, ast.Assign):
        return ""
    pairs = [pair for target in statement.targets for pair in paired_targets(target, statement.value)]
    names = [target.id for target, part in pairs if isinstance(target, ast.Name) and part is value]
    return names[0] if len(names) == 1 else ""


def _running_statements(scope: Scope, block: SourceScope | ast.For) -> list[ast.stmt]:
    """Return the statements of a function or a loop, without those of a branch that does not run."""
    statements = [*own_statements(block)]
    choices = [statement for statement in statements if isinstance(statement, ast.If)]
    return [statement for statement in statements if scope.runs(statement, choices)]


def _assigned_value(scope: Scope, reader: ast.expr, name: str) -> ast.expr | None:
    """Return the only value that a variable of a function is assigned before the line that reads it."""
    function = enclosing_scope(SourceLine(scope.file, reader.lineno))
    values = [
        value
        for statement in (_running_statements(scope, function) if function else ())
        if isinstance(statement, ast.Assign) and statement.lineno < reader.lineno
        for target in statement.targets
        for part, value in paired_targets(target, statement.value)
        if getattr(part, "id", "") == name
    ]
    return values[0] if len(values) == 1 else None


class StepNumbers:
    """Computes sums and differences, with a number of its own for each name whose value is unknown."""

    def __init__(self, scope: Scope, series: str, reader: ast.expr, *, is_reversed: bool) -> None:
        self.scope, self.series, self.reader, self.is_reversed = scope, series, reader, is_reversed
        self.known: dict[str, int] = {}

    def last_of(self, loop_range: ast.expr) -> int | None:
        """Return the last value of a ``range`` with step 1; None for anything else."""
        arguments = _range_bounds(loop_range)
        stop = self.value(arguments[-1]) if arguments else None
        return stop - 1 if stop is not None else None

    def first_of(self, loop_range: ast.expr) -> int | None:
        """Return the first value of a ``range`` with step 1; None for anything else."""
        arguments = _range_bounds(loop_range)
        return self.value(arguments[0]) if len(arguments) == 2 else 0 if arguments else None

    def value_for(self, node: ast.expr, variable: str, turn: int) -> int | None:
        """Return the number of an expression in the turn of a loop in which its variable has a value."""
        self.known = {variable: turn}  # other variables may depend on it
        return self.value(node)

    def signed(self, node: ast.expr) -> int | None:
        """Return the number of an expression that may have a sign, as in ``x[:, -1]``."""
        is_negative = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
        value = self.value(node.operand if is_negative and isinstance(node, ast.UnaryOp) else node)
        return -value if is_negative and value is not None else value

    def value(self, node: ast.expr, depth: int = 0) -> int | None:
        """Return the number of an expression; None if it is neither a name, a number, a length nor a sum of those.

        A name may also be an attribute or an item under a key, as in ``config.width``.
        """
        if isinstance(node, ast.Constant):
            return node.value if type(node.value) is int else None
        if ast.unparse(node) in (f"len({self.series})", f"{self.series}.shape[0]", f"{self.series}.size(0)"):
            return _SERIES_LENGTH
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub)):
            left, right = self.value(node.left, depth), self.value(node.right, depth)
            if left is None or right is None:
                return None
            return left + right if isinstance(node.op, ast.Add) else left - right
        if _is_setting(node):
            return self.known.setdefault(ast.unparse(node), self._unknown_number(ast.unparse(node)))
        if not isinstance(node, ast.Name):
            return None
        if node.id not in self.known and depth < _MAX_STEPS:
            assigned = _assigned_value(self.scope, self.reader, node.id)
            computed = self.value(assigned, depth + 1) if assigned is not None else None
            self.known[node.id] = computed if computed is not None else self._unknown_number(node.id)
        return self.known.get(node.id)

    def _unknown_number(self, name: str) -> int:
        """Return a number that is the same for a name in all expressions, and another one for each name."""
        number = int.from_bytes(name.encode(), "big") % _NAME_NUMBERS
        return 101 + (_NAME_NUMBERS - number if self.is_reversed else number)


def _range_bounds(loop_range: ast.expr) -> list[ast.expr]:
    """Return the one or two bounds of a ``range`` with step 1; none for anything else."""
    arguments = loop_range.args if isinstance(loop_range, ast.Call) and call_name(loop_range) == "range" else []
    return arguments if len(arguments) < 3 else []


def _is_setting(node: ast.expr) -> bool:
    """Check whether an expression is an attribute of a variable or an item of it under a key."""
    key = getattr(node.slice, "value", None) if isinstance(node, ast.Subscript) else None
    return isinstance(getattr(node, "value", None), ast.Name) and (isinstance(node, ast.Attribute) or type(key) is str)


def selects_last_step(line: SourceLine | None) -> bool:
    """Check whether a line takes the last step of two values by the same index, as in ``x[:, -1] - y[:, -1]``."""
    statement = covering_statement(line) if line else None
    values: dict[str, set[str]] = {}
    for node in ast.walk(statement) if statement else ():
        if isinstance(node, ast.Subscript) and "-1" in map(ast.unparse, getattr(node.slice, "elts", ())):
            values.setdefault(ast.unparse(node.slice), set()).add(ast.unparse(node.value))
    return any(len(indexed) > 1 for indexed in values.values())


def converted_start_line(pair: Expression) -> SourceLine | None:
    """Return the only line that computes the start of a target's slice from a variable at which the input's starts.

    ``pair`` is what a function returns, the input first and the target last. None if both start at the same variable.
    """
    parts = getattr(pair.node, "elts", [])
    if len(parts) < 2:
        return None
    inputs, targets = ([*_slice_starts(Expression(pair.scope, parts[place]))] for place in (0, -1))
    names = {start.node.id for start in inputs if isinstance(start.node, ast.Name)}
    computed = (part for start in targets for part, _ in possible_assignments(start, None))
    lines = {part.line for part in computed if isinstance(part.node, ast.BinOp) and read_names(part.node) & names}
    starts_alike = any(getattr(start.node, "id", "") in names for start in targets)
    return lines.pop() if len(lines) == 1 and not starts_alike else None


def _slice_starts(part: Expression) -> Iterator[Expression]:
    """Yield the starts of the slices in the expression that makes a part of a sample."""
    made = part_producer(part, None, enters=lambda _: False)
    for node in ast.walk(made.node):
        if isinstance(node, ast.Slice) and node.lower is not None:
            yield Expression(made.scope, node.lower)
