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
_ORDERS = _SPLITTERS | {"randperm", "permutation", "permuted", "shuffle", "sample", "choice"}
_ORDERS |= {"KFold", "StratifiedKFold", "ShuffleSplit", "StratifiedShuffleSplit"}
_RANDOM_NUMBERS = {"random", "rand", "uniform", "bernoulli"}  # compared with the share of a split
_MAX_STEPS = 4


def splitting_line(setup: Setup) -> SourceLine | None:
    """Return the line that draws the order by which samples are divided, or else the line that selects them.

    The variables that select the validation samples are followed back to that line. It is the only call of a function
    that splits data if there is one.
    """
    selection = known_origin_line(setup, "validation")
    splitter = find_unique_line(lambda node: call_name(node) in _SPLITTERS, user_written_objects(setup))
    return splitter or (_random_line(selection) if selection else None) or selection


def _random_line(selection: SourceLine) -> SourceLine | None:
    """Return the nearest line before a selection that draws the order or the numbers which it depends on."""
    lines, visited = [selection], {selection}
    for _ in range(_MAX_STEPS):
        statements = [(line, statement) for line in lines if (statement := covering_statement(line))]
        for line, statement in statements:
            if random_line := line if _draws_order(statement) else _shuffling_line(line, read_names(statement)):
                return random_line
        sources = [certain_line(line, name) for line, statement in statements for name in read_names(statement)]
        lines = [source for source in dict.fromkeys(sources) if source and source not in visited]
        visited.update(lines)
    return None


def _draws_order(statement: ast.stmt) -> bool:
    """Check whether a statement draws an order, or compares random numbers with a share."""
    nodes = [*walk(statement)]
    compared = [part for node in nodes if isinstance(node, ast.Compare) for part in walk(node)]
    return any(call_name(node) in _ORDERS for node in nodes if isinstance(node, ast.Call)) or any(
        call_name(node) in _RANDOM_NUMBERS for node in compared if isinstance(node, ast.Call)
    )


def _shuffling_line(line: SourceLine, names: set[str]) -> SourceLine | None:
    """Return the last statement before a line that shuffles one of some variables in place."""
    statement = covering_statement(line)
    value = next((node for node in walk(statement) if isinstance(node, ast.expr)), None)
    for earlier in reversed(statements_before(Expression(file_scope(line.file), value)) if value else []):
        call = earlier.value if isinstance(earlier, ast.Expr) else None
        if isinstance(call, ast.Call) and call_name(call) == "shuffle" and read_names(call) & names:
            return SourceLine(line.file, earlier.lineno, line.function)
    return None
