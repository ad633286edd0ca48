"""The statement that reads the targets, or the step that they are, to compute the inputs."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from nbdebug.setup.batch import TARGET_KEYS
from nbdebug.setup.part_sources import all_sources, computed_from, find_part
from nbdebug.setup.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import covering_statement
from nbdebug.source.called_functions import possible_returns
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_producer, part_steps
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name, search_files
from nbdebug.source.shifted_series import lookup_line, shift_line
from nbdebug.source.variable_values import Part
from nbdebug.source.writes import written_columns

_MAX_EXPRESSIONS = 400
_NAMING_CALLS = {"drop", "dropna", "rename", "sort_values", "set_index"}
_Identity = tuple[object, ...]
_Path = tuple[tuple[str, str], ...]  # the file and the function of each expression on the way from the inputs


@dataclass(frozen=True)
class _TargetRead:
    """A statement that reads the targets, and the way to it from the inputs."""

    line: SourceLine
    path: _Path
    is_partial: bool  # of some rows only
    leaves_out: bool  # subtracts the target of the row itself


def find_target_read(setup: Setup) -> SourceLine | None:
    """Return the statement that reads the targets to compute the inputs of training; None if there is none.

    The inputs are followed back through variables, items, loops and functions of the user. Reads of all rows come
    before those of some, such as ``y[known]``, and before those that subtract the target of the row itself. Of several,
    it is the one that is nearest to the inputs; if they are in functions of which only one runs, the call that chooses.
    """
    try:
        inputs, targets = (find_part(setup, setup.train_loader, position) for position in (0, -1))
        return _TargetReadSearch(setup, targets).run(inputs) if inputs and targets else None
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def copied_step_line(setup: Setup) -> SourceLine | None:
    """Return the line that puts the step of a series that is the target into the inputs; None if it is not certain.

    That is a shift or a lookup of the series by as many steps, or a slice from the same step on.
    """
    try:
        parts = [find_part(setup, setup.train_loader, position) for position in (0, -1)]
        makers = [part_producer(*part, TARGET_KEYS, passes_conversions=True) for part in parts if part]
        if len(makers) < len(parts):
            return None
        shifted = shift_line(makers[1], search_files(user_written_objects(setup)))
        return shifted or lookup_line(*makers) or _equal_steps_line(setup, *parts)
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None


def _equal_steps_line(setup: Setup, inputs: Part | None, targets: Part | None) -> SourceLine | None:
    """Return the line that slices a series for the inputs from the same step on as for the targets."""
    if inputs is None or targets is None:
        return None
    of_targets = {steps for steps, _ in _late_slices(part_steps(*targets, TARGET_KEYS, passes_conversions=True))}
    sources = all_sources(inputs, partial(computed_from, setup))
    lines = {line for steps, line in _late_slices(sources) if steps in of_targets}
    return lines.pop() if len(lines) == 1 else None


def _late_slices(parts: Iterable[Part]) -> Iterator[tuple[tuple[str, ...], SourceLine]]:
    """Yield the variable and rows of each slice in some parts without the first steps, such as ``x[1:]``."""
    for expression, position in parts:
        for node in ast.walk(expression.node) if position is None else ():  # else other parts are among them
            if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and _is_late(node):
                scope = expression.scope
                rows = [ast.unparse(part) for part in _axes(node) if not _adds_axis(part)]
                yield (scope.file, scope.function, node.value.id, *rows), Expression(scope, node).line


def _is_late(node: ast.Subscript) -> bool:
    rows = _axes(node)[0] if _axes(node) else None
    return isinstance(rows, ast.Slice) and rows.lower is not None and rows.upper is None and rows.step is None


def _axes(node: ast.Subscript) -> list[ast.expr]:
    return list(getattr(node.slice, "elts", [node.slice]))


def _adds_axis(part: ast.expr) -> bool:
    return isinstance(part, ast.Constant) and part.value is None


def _nearest_line(reads: list[_TargetRead], expressions: list[Expression]) -> SourceLine | None:
    """Return the line of the read that is nearest to the inputs, or the call that decides which of two reads runs."""
    of_all_rows = [read for read in reads if not read.is_partial]
    candidates = [read for read in of_all_rows if not read.leaves_out] or of_all_rows or reads
    if not candidates:
        return None
    nearest, *others = candidates
    choices = (_choosing_call(nearest, other, expressions) for other in others if other.line != nearest.line)
    return next(filter(None, choices), nearest.line)


def _choosing_call(first: _TargetRead, second: _TargetRead, expressions: list[Expression]) -> SourceLine | None:
    """Return the call that may run the function of either of two reads, of which only one runs; None without any."""
    own, other = {*first.path} - {*second.path}, {*second.path} - {*first.path}
    if not own or not other:
        return None
    for expression in expressions:
        for node in ast.walk(expression.node):
            call = Expression(expression.scope, node) if isinstance(node, ast.Call) else None
            returned = possible_returns(call) if call else []
            functions = {(value.scope.file, value.scope.function) for value in returned}
            if call and functions & own and functions & other:
                return call.line
    return None


class _TargetReadSearch:
    """A search for reads of the targets of a setup."""

    def __init__(self, setup: Setup, targets: Part) -> None:
        self._setup = setup
        self._targets, self._column = self._identities(targets)

    def run(self, inputs: Part) -> SourceLine | None:
        pending: list[tuple[Part, _Path]] = [(inputs, ())]
        visited, reads = list[tuple[_Identity, Expression]](), list[_TargetRead]()
        while pending and len(visited) < _MAX_EXPRESSIONS:
            (expression, position), path = pending.pop(0)
            parts = getattr(expression.node, "elts", None)
            if parts and position is not None and position < len(parts):
                expression, position = Expression(expression.scope, parts[position]), None
            scopes = tuple((name, argument.span) for name, argument in expression.scope.arguments.items())
            if (key := (*expression.span, position, scopes)) in [identity for identity, _ in visited]:
                continue
            visited.append((key, expression))
            path = (*path, (expression.scope.file, expression.scope.function))
            read = self._read(expression, path) if len(visited) > 1 else None
            if read:
                reads.append(read)
            else:
                pending += ((part, path) for part in computed_from(self._setup, expression, position))
        return _nearest_line(reads, [expression for _, expression in visited])

    def _read(self, expression: Expression, path: _Path) -> _TargetRead | None:
        """Return the read of the targets in an expression; None if it reads none."""
        rows = [] if self._changes_targets(expression) else [*self._reads(expression, expression.node)]
        if not rows:
            return None
        statement = covering_statement(expression.line)
        number = statement.lineno if statement else expression.node.lineno
        line = SourceLine(expression.scope.file, number, expression.scope.function)
        return _TargetRead(line, path, is_partial=all(rows), leaves_out=self._subtracts_targets(expression))

    def _subtracts_targets(self, expression: Expression) -> bool:
        """Check whether an expression subtracts the targets of all rows, as a mean without the row itself does."""
        return any(
            isinstance(node, ast.BinOp)
            and isinstance(node.op, ast.Sub)
            and not any(isinstance(part, ast.Call) for part in ast.walk(node.right))
            and False in self._reads(expression, node.right)
            for node in ast.walk(expression.node)
        )

    def _identities(self, targets: Part) -> tuple[set[_Identity], str]:
        """Return what identifies the targets wherever they are read, and the column of a table that holds them."""
        steps = [*part_steps(*targets, passes_conversions=True)]
        end = steps[-1][0].node
        while isinstance(end, ast.Subscript) and not isinstance(end.slice, ast.Constant):
            steps += [*part_steps(Expression(steps[-1][0].scope, end.value), None, passes_conversions=True)]
            end = steps[-1][0].node
        column = end.slice.value if isinstance(end, ast.Subscript) and isinstance(end.slice, ast.Constant) else ""
        is_attribute = isinstance(end, ast.Attribute) and getattr(end.value, "id", "self") != "self"
        column = end.attr if is_attribute and isinstance(end, ast.Attribute) else column
        column = column if isinstance(column, str) else ""
        own = steps[-1] if not column else None
        return ({(*own[0].span, own[1])} if own else set()), column

    def _reads(self, expression: Expression, node: ast.expr, *, selects: bool = False) -> Iterator[bool]:
        """Yield, for each read of the targets in an expression, whether it selects some rows."""
        makes_table = call_name(node) == "DataFrame" or (isinstance(node, ast.Dict) and node is expression.node)
        if makes_table:
            return
        if isinstance(node, ast.Call) and call_name(node) in _NAMING_CALLS:
            node = node.func  # its arguments name columns, and read none
        is_column = self._column and self._column in (getattr(node, "value", ""), getattr(node, "attr", ""))
        if is_column or (isinstance(node, ast.Name) and self._is_target(Expression(expression.scope, node))):
            yield selects
            return
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.keyword):
                child = child.value
            if isinstance(child, ast.expr):
                is_selected = isinstance(node, ast.Subscript) and child is node.value and not _is_key(node.slice)
                yield from self._reads(expression, child, selects=selects or is_selected)

    def _changes_targets(self, expression: Expression) -> bool:
        """Check for the value that a statement gives to the column of the targets, as one that scales them."""
        statement = covering_statement(expression.line) if self._column else None
        return statement is not None and self._column in written_columns(statement)

    def _is_target(self, variable: Expression) -> bool:
        *_, (end, position) = part_steps(variable, None, passes_conversions=True)
        return (*end.span, position) in self._targets


def _is_key(index: ast.expr) -> bool:
    """Check whether an index selects columns or all rows, not some of the rows."""
    parts = getattr(index, "elts", [index])
    return all(isinstance(part, ast.Constant) or _is_whole(part) for part in parts)


def _is_whole(part: ast.expr) -> bool:
    return isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step)
