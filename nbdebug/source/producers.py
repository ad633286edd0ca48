"""Follow a value to the expression that makes it: through variables, attributes, calls and choices of user code."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Container, Iterator
from types import FunctionType
from typing import Any

from nbdebug.source.assigned_attributes import assigned_attribute
from nbdebug.source.assignments import (
    FunctionNode,
    covering_statement,
    find_function,
    function_by_name,
    own_statements,
)
from nbdebug.source.called_functions import all_returned, possible_returns
from nbdebug.source.location import SourceLine
from nbdebug.source.scopes import (
    UNKNOWN,
    Expression,
    Scope,
    function_scope,
    local_names,
    user_function,
)
from nbdebug.source.search import (
    assignment_targets,
    call_name,
    call_subject,
    covers_line,
    enclosing_scope,
    syntax_tree,
)
from nbdebug.source.variable_values import (
    Part,
    assigned_part,
    own_assigned_names,
    statements_before,
    unknown_choices,
)

_MAX_STEPS, _MAX_CHAIN = 24, 4
_CONVERSIONS = {"tensor", "as_tensor", "from_numpy", "asarray", "array", "LongTensor", "FloatTensor"} | {
    *("long", "int", "float", "double", "bool", "numpy", "cpu", "clone", "detach", "contiguous"),
    *("to_numpy", "tolist"),
}
_ROW_METHODS = {"dropna", "sample", "copy", "reset_index", "sort_values", "head", "tail", "query", "drop_duplicates"}
SHAPE_CHANGES = {"unsqueeze", "squeeze", "view", "reshape", "flatten"}
_DTYPE_CHANGES = {"astype", "to", "type"}


def part_producer(
    expression: Expression,
    position: int | None,
    keys: Container[str] = (),
    *,
    enters: Callable[[ast.Call], bool] = lambda _: True,
    may_make: Callable[[Expression], bool] | None = None,
    passes_conversions: bool = False,
) -> Expression:
    """Return the expression that makes a value, or its part at a position; in a dictionary, the part under a key.

    Follows variables to their assignments, parameters to the arguments of the call, attributes to the only assignment
    in their class, and calls that ``enters`` accepts to what the user's function returns. Of the branches of a choice,
    the one that runs is followed if its test can be evaluated, else the one that ``may_make`` accepts. With
    ``passes_conversions``, a conversion to a tensor, another dtype or shape counts as what it converts.
    """
    steps = part_steps(
        expression, position, keys, enters=enters, may_make=may_make, passes_conversions=passes_conversions
    )
    return [*steps][-1][0]


def part_steps(
    expression: Expression,
    position: int | None,
    keys: Container[str] = (),
    *,
    enters: Callable[[ast.Call], bool] = lambda _: True,
    may_make: Callable[[Expression], bool] | None = None,
    passes_conversions: bool = False,
) -> Iterator[Part]:
    """Yield each expression on the way to the one that makes a value, and the position of the value in it."""
    for _ in range(_MAX_STEPS):
        expression, position = _part(expression, position, keys, may_make)
        yield expression, position
        value = expression.node
        converted = _converted(value) if passes_conversions else None
        if isinstance(value, ast.Call) and converted is None and not enters(value):
            return
        source = (Expression(expression.scope, converted), position) if converted else None
        source = source or _source(expression, position, may_make)
        if source is None:
            return
        is_parameter = _is_parameter(source[0])
        expression, position = source
        if isinstance(value, ast.Call) and converted is None and is_parameter:
            break  # a function that returns its argument
    yield expression, position


def chosen_branch(expression: Expression) -> Expression:
    """Return the branch of a conditional expression that runs; other expressions as they are."""
    return _part(expression, None, ())[0]


def choice_line(variable: Expression) -> SourceLine | None:
    """Return the line that chooses between values for a variable, as in ``index = -100 if padded else 0``.

    None if no choice is made on the way to the expression that makes the value.
    """
    for _ in range(_MAX_STEPS):
        if isinstance(variable.node, ast.IfExp):
            return variable.line
        source = _source(variable, None) if isinstance(variable.node, ast.Name) else None
        if source is None:
            return None
        variable = source[0]
    return None


def _part(
    expression: Expression,
    position: int | None,
    keys: Container[str],
    may_make: Callable[[Expression], bool] | None = None,
) -> Part:
    """Return the part of a tuple or a dictionary, or the branch of a conditional expression that runs."""
    scope, value = expression.scope, expression.node
    if isinstance(value, ast.IfExp):
        truth = scope.truth(value.test)
        branches = [Expression(scope, value.body), Expression(scope, value.orelse)]
        if truth is not None:
            return branches[not truth], position
        return _only_maker(branches, may_make) or expression, position
    parts = getattr(value, "elts", None)
    if parts and position is not None and not any(isinstance(part, ast.Starred) for part in parts):
        return Expression(scope, parts[position].value if _are_same_rows(parts) else parts[position]), None
    if isinstance(value, ast.Dict):
        named = [part for key, part in zip(value.keys, value.values, strict=True) if _is_one_of(key, keys)]
        return Expression(scope, named[0] if len(named) == 1 else value), position
    return expression, position


def _only_maker(choices: list[Expression], may_make: Callable[[Expression], bool] | None) -> Expression | None:
    """Return the only one of several expressions that may make the wanted value; None if it is not certain."""
    makers = [choice for choice in choices if len(choices) == 1 or (may_make is not None and may_make(choice))]
    return makers[0] if len(makers) == 1 else None


def _are_same_rows(parts: list[ast.expr]) -> bool:
    """Check whether the parts of a tuple are the same rows of several variables, as in ``x[order], y[order]``."""
    rows = [part for part in parts if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Name)]
    variables = {ast.unparse(row.value) for row in rows}
    return len(rows) == len(parts) == len(variables) > 1 and len({ast.unparse(row.slice) for row in rows}) == 1


def _converted(value: ast.expr) -> ast.expr | None:
    """Return what an expression converts to a tensor, another dtype or shape: the same values in the same order."""
    if isinstance(value, ast.Attribute) and value.attr == "values":
        return value.value
    if isinstance(value, ast.Subscript) and _adds_axes(value.slice):
        return value.value
    if not isinstance(value, ast.Call):
        return None
    if call_name(value) in SHAPE_CHANGES | _DTYPE_CHANGES and isinstance(value.func, ast.Attribute):
        return value.func.value
    if call_name(value) not in _CONVERSIONS:
        return None
    subject = call_subject(value)
    return subject if subject is not None and (value.args == [subject] or not value.args) else None


def _adds_axes(index: ast.expr) -> bool:
    """Check whether an index selects everything and adds axes, as in ``x[:, None]``."""
    parts = getattr(index, "elts", [index])
    wholes = [part for part in parts if isinstance(part, ast.Slice) and not (part.lower or part.upper or part.step)]
    constants = [part.value for part in parts if isinstance(part, ast.Constant) and part.value in (None, ...)]
    return None in constants and len(wholes) + len(constants) == len(parts)


def _is_one_of(key: ast.expr | None, keys: Container[str]) -> bool:
    return isinstance(key, ast.Constant) and key.value in keys


def _is_parameter(expression: Expression) -> bool:
    return isinstance(expression.node, ast.Name) and expression.node.id in expression.scope.arguments


def _source(
    expression: Expression, position: int | None, may_make: Callable[[Expression], bool] | None = None
) -> Part | None:
    """Return the expression that makes a value, and the position of the value in it; None if the value makes itself."""
    scope, value = expression.scope, expression.node
    if isinstance(value, ast.Call):
        returned = _only_maker(returned_expressions(expression), may_make)
        return (returned, position) if returned is not None else None
    if attribute := _attribute_of_rows(value):
        return assigned_attribute(expression, attribute)
    if column := _column_name(value):
        return _column_source(expression, column)
    if not isinstance(value, ast.Name):
        return None
    if value.id in scope.arguments:
        return scope.arguments[value.id], position
    assigned = _assigned_expression(expression, value.id, may_make)
    if assigned is None:
        return None
    source, own_position = assigned
    return source, position if own_position is None else own_position


def returned_expression(call: Expression) -> Expression | None:
    """Return what the user's function that an expression calls returns; None if it is unknown, or not only one."""
    returned = returned_expressions(call)
    return returned[0] if len(returned) == 1 else None


def returned_expressions(call: Expression) -> list[Expression]:
    """Return all that the user's function that an expression calls may return in the branches that run."""
    scope, node = call.scope, call.node
    if not isinstance(node, ast.Call):
        return []
    callee = scope.callee(node) or _local_callee(call)
    if callee is not None:
        syntax = find_function(callee[0].__code__)
        return all_returned(scope.entered(*callee, node), syntax) if syntax else []
    if passed := possible_returns(call):
        return passed
    named = function_by_name(scope.file, node.func.id) if isinstance(node.func, ast.Name) else None
    return all_returned(scope.entered_by_name(named, node), named) if named else []


def called_return(call: Expression, function: FunctionType, owner: Any = None) -> Expression | None:
    """Return what a function returns that runs in a call; None if it returns in several places."""
    syntax = find_function(function.__code__)
    if syntax is None or not isinstance(call.node, ast.Call):
        return None
    return _returned(call.scope.entered(function, owner, call.node), syntax)


def returned_parameter_line(line: SourceLine) -> SourceLine | None:
    """Return where a function takes a parameter that it returns on a line as it is; None if it returns another value.

    That is the line which assigns the parameter to the variable that is returned, or the line itself.
    """
    statement, syntax = covering_statement(line), enclosing_scope(line)
    value = statement.value if isinstance(statement, ast.Return) else None
    if not isinstance(value, ast.Name) or not isinstance(syntax, ast.FunctionDef):
        return None
    returned = Expression(Scope(line.file, line.function), value)
    maker = part_producer(returned, None, enters=lambda _: False)
    parameters = {parameter.arg for parameter in ast.walk(syntax.args) if isinstance(parameter, ast.arg)}
    return maker.line if getattr(maker.node, "id", "") in parameters else None


def _local_callee(call: Expression) -> tuple[FunctionType, Any] | None:
    """Return the user's function that a local variable holds, or the method of an object that the source creates."""
    function = call.node.func if isinstance(call.node, ast.Call) else None
    if isinstance(function, (ast.Name, ast.IfExp)):
        producer = part_producer(Expression(call.scope, function), None, enters=lambda _: False)
        return user_function(producer.scope.value(producer.node))
    kind = _created_class(Expression(call.scope, function.value)) if isinstance(function, ast.Attribute) else None
    method = _user_method(kind, function.attr) if isinstance(function, ast.Attribute) else None
    return (method, UNKNOWN) if method else None


def _created_class(expression: Expression, depth: int = _MAX_CHAIN) -> type | None:
    """Return the class of an object that the source creates, also after methods that return it, as ``fit`` does."""
    maker = part_producer(expression, None, enters=lambda call: not isinstance(call.func, ast.Attribute))
    function = maker.node.func if isinstance(maker.node, ast.Call) else None
    if isinstance(function, ast.Attribute) and depth:
        kind = _created_class(Expression(maker.scope, function.value), depth - 1)
        method = _user_method(kind, function.attr)
        returned = executed_return(method) if method else None
        if method and returned and getattr(returned.node, "id", "") == method.__code__.co_varnames[0]:
            return kind
        maker = part_producer(maker, None)
    created = maker.scope.value(maker.node.func) if isinstance(maker.node, ast.Call) else None
    return created if isinstance(created, type) else None


def _user_method(kind: type | None, name: str) -> FunctionType | None:
    """Return a method of a class, if the user has written it."""
    method = inspect.getattr_static(kind, name, None) if kind is not None else None
    found = user_function(method) if isinstance(method, FunctionType) else None
    return found[0] if found else None


def executed_return(function: FunctionType, owner: Any = None) -> Expression | None:
    """Return the expression that a function or a method of an object returns or yields; None if there are several."""
    syntax = find_function(function.__code__)
    return _returned(function_scope(function, owner), syntax) if syntax else None


def _returned(scope: Scope, syntax: FunctionNode) -> Expression | None:
    """Return the only expression that a function returns or yields in the branches that run."""
    returned = all_returned(scope, syntax)
    return returned[0] if len(returned) == 1 else None


def _assigned_expression(
    expression: Expression, name: str, may_make: Callable[[Expression], bool] | None = None
) -> Part | None:
    """Return what the last assignment of a variable before an expression assigns; None if it is not certain."""
    statement = _assignment(expression, name, may_make)
    if isinstance(statement, ast.Assign):
        value, position = assigned_part(statement, name)
        return Expression(expression.scope, value), position
    return (Expression(expression.scope, statement.value), None) if isinstance(statement, ast.AugAssign) else None


def _assignment(
    expression: Expression, name: str, may_make: Callable[[Expression], bool] | None = None
) -> ast.stmt | None:
    """Return the statement that assigned a variable before an expression, of those that run.

    That is the last one, unless a choice may have skipped it; then the only one whose value may be the wanted object.
    For a global variable it is its only assignment.
    """
    number, syntax = expression.node.lineno, enclosing_scope(expression.line)
    if syntax is None:
        return None
    statements = [statement for statement in statements_before(expression) if name in own_assigned_names(statement)]
    last = max(statements, key=lambda statement: statement.lineno, default=None)
    if last is None:
        is_global = not isinstance(syntax, ast.Module) and name not in local_names(syntax)
        return _global_assignment(expression.scope.file, name) if is_global else None
    unknown = [choice for choice in unknown_choices(expression.scope, syntax) if covers_line(choice, last.lineno)]
    unknown = [choice for choice in unknown if not covers_line(choice, number)]
    if not unknown:
        return last
    possible = [s for s in statements if covers_line(unknown[-1], s.lineno) and _may_be(expression, s, name, may_make)]
    return possible[0] if may_make is not None and len(possible) == 1 else None


def _may_be(
    variable: Expression, statement: ast.stmt, name: str, may_make: Callable[[Expression], bool] | None
) -> bool:
    if may_make is None or not isinstance(statement, ast.Assign):
        return False
    value, position = assigned_part(statement, name)
    parts = getattr(value, "elts", None)
    return may_make(Expression(variable.scope, parts[position] if parts and position is not None else value))


def _global_assignment(file: str, name: str) -> ast.stmt | None:
    tree = syntax_tree(file)
    statements = [node for node in (own_statements(tree) if tree else ()) if name in own_assigned_names(node)]
    return statements[0] if len(statements) == 1 else None


def _attribute_of_rows(value: ast.expr) -> str:
    """Return the attribute of ``self`` whose rows an expression selects, as in ``self.labels[i]``; "" for others."""
    is_row = isinstance(value, ast.Subscript)
    while isinstance(value, ast.Subscript) and not any(isinstance(node, ast.Slice) for node in ast.walk(value.slice)):
        value = value.value
    is_attribute = is_row and isinstance(value, ast.Attribute) and getattr(value.value, "id", "") == "self"
    return value.attr if is_attribute and isinstance(value, ast.Attribute) else ""


def _column_name(value: ast.expr) -> str:
    """Return the column that an expression selects from a variable, as in ``frame["age"]``; "" for others."""
    is_item = isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name)
    key = getattr(value.slice, "value", None) if is_item and isinstance(value, ast.Subscript) else None
    return key if isinstance(key, str) else ""


def _column_source(expression: Expression, column: str) -> Part | None:
    """Return what a column of a table was set to, or the same column of the table from which this one was made."""
    scope, table = expression.scope, expression.node.value  # type: ignore[attr-defined]
    for _ in range(_MAX_STEPS):
        here = Expression(scope, table)
        if isinstance(table, ast.Name) and (written := _written_column(here, table.id, column)):
            return Expression(scope, written), None
        if isinstance(table, ast.Name):
            source = _source(here, None)
            if source is None or source[1] is not None:
                return None
            scope, table = source[0].scope, source[0].node
        elif (selected := _rows_of(table)) is not None:
            table = selected
        elif isinstance(table, ast.Call) and (returned := returned_expression(here)):
            scope, table = returned.scope, returned.node
        else:
            return None
    return None


def _written_column(table: Expression, name: str, column: str) -> ast.expr | None:
    """Return the value of the last statement before an expression that sets a column of a table."""
    syntax = enclosing_scope(table.line)
    values = [
        statement.value
        for statement in (own_statements(syntax) if syntax else ())
        if isinstance(statement, ast.Assign) and statement.lineno < table.node.lineno
        for target in assignment_targets(statement)
        if _column_name(target) == column and getattr(target.value, "id", "") == name
    ]
    return values[-1] if values else None


def _rows_of(value: ast.expr) -> ast.expr | None:
    """Return the table from which an expression selects or reorders rows; None for other expressions."""
    if isinstance(value, ast.Subscript):
        is_columns = isinstance(value.slice, (ast.Constant, ast.List))
        owner = value.value
        if isinstance(owner, ast.Attribute) and owner.attr in ("iloc", "loc"):
            return owner.value if not isinstance(value.slice, ast.Tuple) else None
        return owner if not is_columns else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and call_name(value) in _ROW_METHODS:
        return value.func.value
    return None
