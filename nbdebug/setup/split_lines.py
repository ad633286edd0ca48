"""The line that decides at random which samples are used for validation."""

from __future__ import annotations

import ast

from nbdebug.setup.data_lines import known_origin_line
from nbdebug.setup.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assignments import certain_line, covering_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.scopes import Expression, file_scope
from nbdebug.source.search import call_name, find_unique_line, read_names, walk
from nbdebug.source.variable_values import statements_before

_SPLITTERS = {"random_split", "train_test_split"}
_ORDERS = _SPLITTERS | {"randperm", "permutation", "permuted", "shuffle", "sample"}
_ORDERS |= {"KFold", "StratifiedKFold", "ShuffleSplit", "StratifiedShuffleSplit"}
_RANDOM_NUMBERS = {"random", "rand", "uniform", "bernoulli"}  # compared with the share of a split
_MAX_STEPS = 4


def splitting_line(setup: Setup) -> SourceLine | None:
    """Return the line that draws the order by which samples are divided, or else the line that selects them.

    If a single line calls a function that splits data, it is that line. Otherwise the variables that select the
    validation samples are followed back to the line that draws the order.
    """
    if splitter := find_unique_line(lambda node: call_name(node) in _SPLITTERS, user_written_objects(setup)):
        return splitter
    selection = known_origin_line(setup, "validation")
    return (_random_line(selection) if selection else None) or selection


def _random_line(selection: SourceLine) -> SourceLine | None:
    """Return the nearest line before a selection that draws the order or the numbers which it depends on."""
    computes_index = not any(isinstance(node, ast.Call) for node in walk(covering_statement(selection)))
    lines, visited = {selection: computes_index}, {selection}  # by line, whether its value is an index
    for _ in range(_MAX_STEPS):
        sources: dict[SourceLine, bool] = {}
        for line, is_index in lines.items():
            if (statement := covering_statement(line)) is None:
                continue
            if random_line := line if _draws_order(statement, is_index) else _shuffling_line(line, statement):
                return random_line
            index_names = _index_names(statement)
            for name in index_names or read_names(statement):
                if (source := certain_line(line, name)) and source not in visited:
                    sources[source] = is_index or bool(index_names)
        lines = sources
        visited.update(lines)
    return None


def _index_names(statement: ast.stmt) -> set[str]:
    """Return the variables by which a statement selects, such as ``rows`` in ``x[rows]``."""
    slices = (node.slice for node in walk(statement) if isinstance(node, ast.Subscript))
    return {name for part in slices for name in read_names(part)}


def _draws_order(statement: ast.stmt, is_index: bool) -> bool:
    """Check whether a statement draws an order, or an index from random numbers that it compares or chooses."""
    calls = {call_name(node) for node in walk(statement)}
    compared = {call_name(part) for node in walk(statement) if isinstance(node, ast.Compare) for part in walk(node)}
    return bool(calls & _ORDERS) or (is_index and bool("choice" in calls or compared & _RANDOM_NUMBERS))


def _shuffling_line(line: SourceLine, statement: ast.stmt) -> SourceLine | None:
    """Return the last statement before another that shuffles one of its variables in place."""
    names = read_names(statement)
    value = next((node for node in walk(statement) if isinstance(node, ast.expr)), None)
    for earlier in reversed(statements_before(Expression(file_scope(line.file), value)) if value else []):
        call = earlier.value if isinstance(earlier, ast.Expr) else None
        if isinstance(call, ast.Call) and call_name(call) == "shuffle" and read_names(call) & names:
            return SourceLine(line.file, earlier.lineno, line.function)
    return None
