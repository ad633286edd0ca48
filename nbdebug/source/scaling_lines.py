"""Find the statement that computes the statistics by which data are scaled, over values that it does not select."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from nbdebug.source.assignments import covering_statement, function_by_name, own_statements
from nbdebug.source.location import SourceLine
from nbdebug.source.search import (
    SourceScope,
    assigned_names,
    assignment_targets,
    call_name,
    call_subject,
    enclosing_scope,
    read_names,
)

_MAX_DEPTH = 3
_FITS = {"fit", "fit_transform"}
DEVIATIONS = frozenset({"mean", "std", "var", "std_mean", "var_mean", "scale", "zscore", "average"} | _FITS)
RANGES = frozenset({"min", "max", "amin", "amax", "aminmax", "ptp", "minmax_scale"} | _FITS)


def find_scaling(line: SourceLine | None, statistics: Collection[str], depth: int = _MAX_DEPTH) -> SourceLine | None:
    """Return the first statement that computes one of some statistics for the data which a line makes.

    That is the line itself, one from which its variables are computed, or one of a function of the same file that it
    calls. A statistic of values that a comparison selects does not count. None if the statements are in several
    branches, of which only one may run.
    """
    scope, statement = (enclosing_scope(line), covering_statement(line)) if line else (None, None)
    if line is None or scope is None or statement is None:
        return None
    statements = [node for node in own_statements(scope) if node.lineno <= line.number]
    related = [statement, *_sources(statement, statements)]
    if sources := [node for node in related if _computes(node, statistics, statements)]:
        return _first_of_block(scope, sources, line.file)
    calls = [node for node in ast.walk(statement) if isinstance(node, ast.Call)]
    lines = {_scaling_of_function(line.file, call_name(call), statistics, depth) for call in calls if depth} - {None}
    return lines.pop() if len(lines) == 1 else None


def _scaling_of_function(file: str, name: str, statistics: Collection[str], depth: int) -> SourceLine | None:
    """Return the statement of a function, or of those that its results are computed by, that computes statistics."""
    function = function_by_name(file, name)
    statements = [*own_statements(function)] if function else []
    if function and (sources := [node for node in statements if _computes(node, statistics, statements)]):
        return _first_of_block(function, sources, file)
    ends = [SourceLine(file, node.lineno, name) for node in statements if isinstance(node, ast.Return)]
    lines = {find_scaling(end, statistics, depth - 1) for end in ends} - {None}
    return lines.pop() if len(lines) == 1 else None


def _sources(statement: ast.stmt, statements: list[ast.stmt]) -> list[ast.stmt]:
    """Return the statements that assign or call on the variables from which a statement computes, in their order."""
    names, sources = {*read_names(statement)}, list[ast.stmt]()
    for _ in statements:
        added = [node for node in statements if node not in sources and node is not statement and _sets(node, names)]
        if not added:
            break
        sources += added
        names |= {name for node in added for name in read_names(node)}
    return sources


def _sets(statement: ast.stmt, names: Collection[str]) -> bool:
    """Check whether a statement assigns one of some variables, or calls a method of one, as ``scaler.fit(x)``."""
    value = statement.value if isinstance(statement, ast.Expr) else None
    owner = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
    return not _assigned_variables(statement).isdisjoint(names) or getattr(owner, "id", "") in names


def _computes(statement: ast.stmt, statistics: Collection[str], statements: list[ast.stmt]) -> bool:
    """Check whether a statement computes a statistic of values that no comparison selects."""
    calls = [node for node in _own_nodes(statement) if isinstance(node, ast.Call) and call_name(node) in statistics]
    return any(not _is_selected(call_subject(call), statements) for call in calls)


def _own_nodes(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the parts of a simple statement."""
    return ast.walk(statement) if not hasattr(statement, "body") else iter(())


def _is_selected(values: ast.expr | None, statements: list[ast.stmt]) -> bool:
    """Check whether values are selected or replaced by a comparison, or by a variable that holds the result of one."""
    if values is None:
        return True
    makers = [node for node in statements if not _assigned_variables(node).isdisjoint(read_names(values))]
    return any(_compares(node) for node in [values, *(getattr(maker, "value", maker) for maker in makers)])


def _assigned_variables(statement: ast.stmt) -> set[str]:
    """Return the variables that an assignment sets."""
    return {name for target in assignment_targets(statement) for name in assigned_names(target)}


def _compares(value: ast.AST) -> bool:
    tests = {"isnan", "isfinite", "where", "masked_fill", "nan_to_num", "eq", "ne", "gt", "lt", "ge", "le", "isin"}
    return any(isinstance(node, ast.Compare) or call_name(node) in tests for node in ast.walk(value))


def _first_of_block(scope: SourceScope, statements: list[ast.stmt], file: str) -> SourceLine | None:
    """Return the first of some statements; None if they are in several blocks of a function."""
    blocks = {_innermost_block(scope, node) for node in statements}
    first = min(node.lineno for node in statements)
    return SourceLine(file, first, getattr(scope, "name", "<module>")) if len(blocks) == 1 else None


def _innermost_block(scope: SourceScope, statement: ast.stmt) -> tuple[int, str]:
    """Return the line and the field of the compound statement that directly contains a statement."""
    for node in ast.walk(scope):
        for field in ("body", "orelse", "finalbody"):
            block = getattr(node, field, None)
            if isinstance(block, list) and statement in block:
                return getattr(node, "lineno", 0), field
    return 0, ""
