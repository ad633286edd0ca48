"""Find the line that slices an array of windows, or the series of their targets, at wrong places."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_steps
from nbdebug.source.scopes import Expression, Scope
from nbdebug.source.search import call_name, call_subject, enclosing_scope
from nbdebug.source.variable_values import Part, possible_assignments
from nbdebug.source.window_lines import StepNumbers, loop_elements, selected_part

_WINDOW_CALLS = {"sliding_window_view": ("window_shape", 1), "unfold": ("size", 1)}
_COPIES = {"copy", "ascontiguousarray"}
_COLUMN_JOINS = {"column_stack", "hstack"}
_MAX_DEPTH = 8


@dataclass(frozen=True)
class _Steps:
    """The steps of a series that the first row of an array holds: from ``start`` up to before ``stop``.

    ``whole_stop`` is the end of the windows of which it selects, and ``is_named`` tells whether a variable alone is the
    start.
    """

    series: str
    start: int
    stop: int
    line: SourceLine
    whole_stop: int | None = None
    is_named: bool = False

    @property
    def is_window(self) -> bool:
        """Whether the row holds several steps."""
        return self.stop > self.start + 1


def misplaced_slice_line(inputs: Expression, targets: Expression) -> SourceLine | None:
    """Return the line that selects windows that hold their target, or the targets; None if it is not certain.

    The windows are those of ``sliding_window_view``, ``unfold``, a loop, or shifted slices side by side. The targets
    are a slice of the same series or a column of the windows, in the same function. The steps of the first sample are
    computed with different numbers for the names in them, once in one order of these numbers and once in the other. A
    target that starts where other windows end, or at a variable alone, is right, and the windows are too late or too
    long. Of several assignments of a variable, those count by which the windows hold their target.
    """
    lines = {_misplaced_line(inputs, targets, is_reversed=is_reversed) for is_reversed in (False, True)}
    return lines.pop() if len(lines) == 1 else None


def _misplaced_line(inputs: Expression, targets: Expression, *, is_reversed: bool) -> SourceLine | None:
    search = _StepSearch(is_reversed=is_reversed)
    windows, wanted = ([*search.steps(expression, None)] for expression in (inputs, targets))
    lines = {
        _wrong_line(window, target)
        for window in windows
        for target in wanted
        if window.is_window and (window.series, window.line.file) == (target.series, target.line.file)
        if window.line.function == target.line.function and window.start <= target.start < window.stop
    }
    return lines.pop() if len(lines) == 1 else None


def _wrong_line(window: _Steps, target: _Steps) -> SourceLine:
    """Return the line of the windows if they end too late for a target, else that of the target."""
    if target.whole_stop is not None:
        return window.line if window.stop == target.whole_stop else target.line
    return window.line if target.is_named or target.start == window.whole_stop else target.line


class _StepSearch:
    """A search for the steps in the first row of an array.

    Args:
        is_reversed: the order of the numbers that stand for the names in the code.
    """

    def __init__(self, *, is_reversed: bool) -> None:
        self._is_reversed = is_reversed

    def steps(self, expression: Expression, position: int | None, depth: int = _MAX_DEPTH) -> Iterator[_Steps]:
        """Yield the steps that the first row of an array may hold, for each value that its variables may have."""
        made, position = [*part_steps(expression, position, passes_conversions=True)][-1]
        node = made.node
        parts: list[Part] = possible_assignments(made, position) if isinstance(node, ast.Name) else []
        for part in parts if depth else ():
            yield from self.steps(*part, depth - 1)
        if isinstance(node, ast.Subscript):
            yield from self._of_selection(made, node, depth)
        elif isinstance(node, ast.Call) and call_name(node) in _WINDOW_CALLS:
            yield from self._of_windows(made, node)
        elif isinstance(node, ast.Call) and call_name(node) in _COPIES and (subject := call_subject(node)) is not None:
            copied = Expression(made.scope, subject)
            yield from self.steps(copied, None, depth - 1) if depth else ()
        else:
            yield from self._of_loop(made)

    def _of_windows(self, made: Expression, call: ast.Call) -> Iterator[_Steps]:
        """Yield the steps of the first window of a call that makes all windows of a series."""
        option, place = _WINDOW_CALLS[call_name(call)]
        is_method = call_name(call) == "unfold"
        series = call.func.value if is_method and isinstance(call.func, ast.Attribute) else next(iter(call.args), None)
        width = next((keyword.value for keyword in call.keywords if keyword.arg == option), None)
        width = width or next(iter(call.args[place:]), None)
        if series is None or width is None:
            return
        number = self._numbers(made.scope, ast.unparse(series), call).value(width)
        if number is not None and number > 0:
            yield _Steps(_name(series), 0, number, made.line, number)

    def _of_selection(self, made: Expression, node: ast.Subscript, depth: int) -> Iterator[_Steps]:
        """Yield the steps of the first row that an index selects from windows or from a series."""
        parts = getattr(node.slice, "elts", [node.slice])
        numbers = self._numbers(made.scope, ast.unparse(node.value), node)
        rows = parts[0]
        first = numbers.value(rows.lower) if isinstance(rows, ast.Slice) and rows.lower else 0
        if not isinstance(rows, ast.Slice) or first is None or first < 0:
            return
        owner = Expression(made.scope, node.value)
        inner = [*self.steps(owner, None, depth - 1)] if depth else []
        wholes = [steps for steps in inner if steps.whole_stop is not None or isinstance(node.value, ast.Subscript)]
        for steps in wholes:
            moved = replace(steps, start=steps.start + first, stop=steps.stop + first)
            moved = replace(moved, line=made.line, is_named=False) if first or len(parts) > 1 else moved
            yield from _of_columns(moved, parts[1:], numbers) if steps.whole_stop is not None else [moved]
        if not wholes:
            is_named = isinstance(rows.lower, (ast.Name, ast.Attribute))
            yield _Steps(_name(node.value), first, first + 1, made.line, is_named=is_named)

    def _of_loop(self, made: Expression) -> Iterator[_Steps]:
        """Yield the steps of the first row of what a loop joins: a row, or a column of shifted slices, in each turn."""
        function = enclosing_scope(made.line)
        elements = [*loop_elements(made, function)] if function else []
        selected = selected_part(made.scope, elements[0][0]) if len(elements) == 1 else None
        if selected is None:
            return
        _, variable, turns = elements[0]
        numbers = self._numbers(made.scope, ast.unparse(selected.value), selected)
        first, last = numbers.first_of(turns), numbers.last_of(turns)
        index = getattr(selected.slice, "elts", [selected.slice])[0]
        bounds = (index.lower or ast.Constant(0), index.upper) if isinstance(index, ast.Slice) else (index, None)
        if first is None or last is None:
            return
        start = numbers.value_for(bounds[0], variable, first)
        stop = start + 1 if start is not None else None
        if _joins_columns(made.node):
            end = numbers.value_for(bounds[0], variable, last)
            stop = end + 1 if end is not None else None
        elif bounds[1] is not None:
            stop = numbers.value_for(bounds[1], variable, first)
        if start is not None and stop is not None and start < stop:
            line = SourceLine(made.scope.file, selected.lineno, made.scope.function)
            yield _Steps(_name(selected.value), start, stop, line, stop if stop > start + 1 else None)

    def _numbers(self, scope: Scope, series: str, reader: ast.expr) -> StepNumbers:
        """Return the numbers of the names in an expression that selects steps of a series."""
        return StepNumbers(scope, series, reader, is_reversed=self._is_reversed)


def _of_columns(steps: _Steps, parts: list[ast.expr], numbers: StepNumbers) -> Iterator[_Steps]:
    """Yield the steps that an index selects within each window; all of them without one."""
    index = parts[-1] if parts else ast.Slice()
    bounds = (index.lower, index.upper) if isinstance(index, ast.Slice) else (index, None)
    values = [numbers.signed(bound) if bound is not None else None for bound in bounds]
    if any(bound is not None and value is None for bound, value in zip(bounds, values, strict=True)):
        return
    start, stop = (
        default if value is None else value + (steps.stop if value < 0 else steps.start)
        for value, default in zip(values, (steps.start, steps.stop), strict=True)
    )
    stop = stop if isinstance(index, ast.Slice) else start + 1
    yield replace(steps, start=start, stop=stop, whole_stop=steps.stop if parts else steps.whole_stop)


def _joins_columns(node: ast.expr) -> bool:
    """Check whether a call puts the parts that it joins side by side."""
    if not isinstance(node, ast.Call):
        return False
    axes = [keyword.value for keyword in node.keywords if keyword.arg in ("axis", "dim")] or node.args[1:2]
    return call_name(node) in _COLUMN_JOINS or any(ast.unparse(axis) in ("1", "-1") for axis in axes)


def _name(series: ast.expr) -> str:
    """Return the variable or attribute of a series, without the columns that are selected and conversions."""
    while True:
        if isinstance(series, ast.Subscript):
            series = series.value
        elif isinstance(series, ast.Call) and (subject := call_subject(series)) is not None:
            series = subject
        elif isinstance(series, ast.Attribute) and series.attr == "values":
            series = series.value
        else:
            return ast.unparse(series)
