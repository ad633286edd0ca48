"""The line that decides at random which samples are used for validation, and what creates its splitter."""

from __future__ import annotations

import ast
from dataclasses import replace

from nbdebug.finding import Location, RelatedLine
from nbdebug.setup.data_lines import known_origin_line
from nbdebug.setup.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.assigned_attributes import assigned_attribute
from nbdebug.source.assignments import certain_line, covering_statement, own_statements
from nbdebug.source.location import SourceLine, get_location, get_related_lines
from nbdebug.source.producers import part_producer, returned_expressions
from nbdebug.source.scopes import Expression, Scope, file_scope
from nbdebug.source.search import (
    assigned_names,
    call_name,
    choice_branches,
    enclosing_scope,
    find_unique_line,
    read_names,
    walk,
)
from nbdebug.source.variable_values import statements_before

_SPLITTERS = {"random_split", "train_test_split"}
_ORDERS = _SPLITTERS | {"randperm", "permutation", "permuted", "shuffle", "sample"}
_UNGROUPED_SPLITTERS = {"KFold", "StratifiedKFold", "ShuffleSplit", "StratifiedShuffleSplit"}  # of scikit-learn
_UNGROUPED_SPLITTERS |= {"RepeatedKFold", "RepeatedStratifiedKFold"}
_ORDERS |= _UNGROUPED_SPLITTERS
_RANDOM_NUMBERS = {"random", "rand", "uniform", "bernoulli"}  # compared with the share of a split
_MEMBERSHIPS = {"isin", "in1d"}
_MAX_STEPS, _MAX_CALLS = 4, 2


def splitting_line(setup: Setup) -> SourceLine | None:
    """Return the line that draws the order by which samples are divided, or else the line that selects them.

    If a single line calls a function that splits data, it is that line. Otherwise the variables that select the
    validation samples are followed back to the line that draws the order.
    """
    if splitter := find_unique_line(lambda node: call_name(node) in _SPLITTERS, user_written_objects(setup)):
        return splitter
    selection = known_origin_line(setup, "validation")
    return (_random_line(selection, _MAX_CALLS) if selection else None) or selection


def locate_ungrouped_split(line: SourceLine | None, sample: int) -> tuple[Location, tuple[RelatedLine, ...]]:
    """Return where related samples are divided: the line that creates a splitter without groups, or the line.

    With a splitter, the line that divides is a related one. ``sample`` is the index of the sample in the location.
    """
    splitter = _splitter_line(line)
    if line is None or splitter is None or (splitter.file, splitter.number) == (line.file, line.number):
        return replace(get_location(line), sample=sample), ()
    related = get_related_lines((line, "the samples are divided here"))
    return replace(get_location(splitter), sample=sample), related


def _splitter_line(line: SourceLine | None) -> SourceLine | None:
    """Return the line that creates the splitter by which a line, or one before it, divides samples without groups.

    Splitters are those of scikit-learn whose ``split`` ignores groups. Variables are followed back to the call of
    ``split``, and its object to where it is created; that of a parameter is the only line of the file that creates such
    a splitter. None if there is none, or if they are several.
    """
    split = _split_call(line) if line else None
    if line is None or split is None or not isinstance(split.func, ast.Attribute):
        return None
    owner = Expression(file_scope(line.file), split.func.value)
    if isinstance(owner.node, ast.Attribute) and (part := assigned_attribute(owner, owner.node.attr)):
        owner = part[0]
    maker = part_producer(owner, None, may_make=lambda choice: _is_ungrouped(choice.node))
    if len(created := [*filter(_is_ungrouped, choice_branches(maker.node))]) == 1:
        return Expression(maker.scope, created[0]).line
    is_passed = isinstance(maker.node, (ast.Name, ast.Attribute))  # to a function of which no call is known
    return find_unique_line(_is_ungrouped, [line.file]) if is_passed else None


def _is_ungrouped(node: ast.AST) -> bool:
    return call_name(node) in _UNGROUPED_SPLITTERS


def _split_call(line: SourceLine) -> ast.Call | None:
    """Return the call of ``split`` with samples by which a line divides them, or from which its variables come."""
    lines = [line]
    for _ in range(_MAX_STEPS):
        statements = [(own_line, statement) for own_line in lines if (statement := covering_statement(own_line))]
        names = [(own_line, name) for own_line, s in statements for name in _index_names(s) or read_names(s)]
        values = [
            *(_head(statement) for _, statement in statements),
            *(part for item in names for part in _loops(*item)),
        ]
        splits = [node for value in values for node in walk(value) if isinstance(node, ast.Call) and _divides(node)]
        if splits:
            return splits[0]
        lines = [source for own_line, name in names if (source := certain_line(own_line, name))]
    return None


def _head(statement: ast.stmt) -> ast.AST:
    """Return what a loop iterates over; any other statement as it is."""
    return statement.iter if isinstance(statement, ast.For) else statement


def _loops(line: SourceLine, name: str) -> list[ast.AST]:
    """Return what the loops before or around a line iterate over that assign a variable in each round."""
    scope = enclosing_scope(line)
    loops = [node for node in own_statements(scope) if isinstance(node, ast.For)] if scope else []
    return [loop.iter for loop in loops if loop.lineno < line.number and name in assigned_names(loop.target)]


def _divides(call: ast.Call) -> bool:
    """Check whether a call may divide samples, as ``splitter.split(x)``; the separator of a text is a constant."""
    is_method = isinstance(call.func, ast.Attribute) and call.func.attr == "split"
    return is_method and bool(call.args or call.keywords) and not isinstance(next(iter(call.args), None), ast.Constant)


def _random_line(selection: SourceLine, depth: int, *, is_returned: bool = False) -> SourceLine | None:
    """Return the nearest line before a selection that draws the order or the numbers which it depends on.

    Functions of the user are entered up to ``depth`` calls. What they return is an index.
    """
    has_calls = any(isinstance(node, ast.Call) for node in walk(covering_statement(selection)))
    computes_index = is_returned or not has_calls
    lines, visited = {selection: computes_index}, {selection}  # by line, whether its value is an index
    for _ in range(_MAX_STEPS):
        sources: dict[SourceLine, bool] = {}
        for line, is_index in lines.items():
            if (statement := covering_statement(line)) is None:
                continue
            if random_line := line if _draws_order(statement, is_index) else _shuffling_line(line, statement):
                return random_line
            if random_line := _line_in_called_function(line, statement, depth):
                return random_line
            index_names = _index_names(statement)
            for name in index_names or read_names(statement):
                if (source := certain_line(line, name)) and source not in visited:
                    sources[source] = bool(index_names) or (is_index and not _cuts_at_variable(statement))
        lines = sources
        visited.update(lines)
    return None


def _line_in_called_function(line: SourceLine, statement: ast.stmt, depth: int) -> SourceLine | None:
    """Return the only line that draws an order in the functions that may make what a statement assigns.

    Of several functions, those that select by membership divide groups, and not rows.
    """
    call = statement.value if isinstance(statement, ast.Assign) else None
    if not depth or not isinstance(call, ast.Call):
        return None
    scope = Scope(line.file, line.function, file_scope(line.file).variables)
    lines: dict[SourceLine, bool] = {}
    for returned in returned_expressions(Expression(scope, call)):
        if random_line := _random_line(returned.line, depth - 1, is_returned=True):
            function = enclosing_scope(returned.line)
            lines[random_line] = function is not None and any(map(_selects_members, walk(function)))
    of_rows = [random_line for random_line, is_of_groups in lines.items() if not is_of_groups] or [*lines]
    return of_rows[0] if len(of_rows) == 1 else None


def _selects_members(node: ast.AST) -> bool:
    is_comparison = isinstance(node, ast.Compare) and any(isinstance(part, (ast.In, ast.NotIn)) for part in node.ops)
    return is_comparison or call_name(node) in _MEMBERSHIPS


def _index_names(statement: ast.stmt) -> set[str]:
    """Return the variables by which a statement selects, such as ``rows`` in ``x[rows]``, without bounds of slices."""
    indices = (node.slice for node in walk(statement) if isinstance(node, ast.Subscript))
    parts = (part for index in indices for part in getattr(index, "elts", [index]) if not isinstance(part, ast.Slice))
    return {name for part in parts for name in read_names(part)}


def _cuts_at_variable(statement: ast.stmt) -> bool:
    """Check for a slice with a variable as a bound: what it cuts may be in a random order, and is no random mask."""
    return any(isinstance(node, ast.Slice) and read_names(node) for node in walk(statement))


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
