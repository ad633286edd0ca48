"""The lines that fix the order in which names are numbered."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Iterator

from nbdebug.source.assignments import effective_methods, find_assignments, find_function, own_statements
from nbdebug.source.attribute_makers import assigned_value, scope_around
from nbdebug.source.location import is_library_code
from nbdebug.source.producers import called_return, part_producer, part_steps, returned_expressions
from nbdebug.source.scopes import UNKNOWN, Expression, function_scope, user_function
from nbdebug.source.search import (
    SourceScope,
    assignment_targets,
    call_name,
    enclosing_scope,
    paired_targets,
    read_names,
)
from nbdebug.source.variable_values import Part, possible_assignments

_MAX_DEPTH, _MAX_EXPRESSIONS = 8, 500
_COPIES = {"list", "tuple", "dict", "enumerate", "zip", "array", "Series", "Index", "range", "len", "tolist", "copy"}
_JOINS = {"stack", "column_stack", "hstack", "vstack", "cat", "concatenate", "dstack"}
_BLOCK_JOINS = {"cat", "concatenate", "hstack"}
_CODINGS = {"fit_transform", "factorize"}  # number the names that they are passed, each time again
_WRITES = {"append", "setdefault", "add", "update", "extend"}
_SETS = {"set", "frozenset"}
_BUILTINS = {*vars(builtins)}


Passed = Callable[[str], Expression | None]  # the argument for a parameter of the constructor of an object


def _nothing_passed(_: str) -> None:
    """Return None for each parameter: the call of the constructor is unknown."""


def numbering_of_attribute(
    owner: object, attribute: str, passed: Passed = _nothing_passed, depth: int = _MAX_DEPTH
) -> list[Expression]:
    """Return the expressions that may fix the order of the names in an attribute of an object, one for each branch.

    ``passed`` returns the argument for a parameter of its constructor.
    """
    makers: list[Expression] = []
    for line in find_assignments(owner, attribute) if depth else ():
        value = None if is_library_code(line.file) else assigned_value(line, attribute)
        if value is not None:
            expression = Expression(scope_around(line, owner), value[0])
            makers += numbering_of_expression(expression, value[1], owner, passed, depth - 1) or [expression]
    varying = [maker for maker in makers if not depends_on_constants(maker)]
    return varying or makers


def numbering_of_expression(
    expression: Expression,
    position: int | None,
    owner: object,
    passed: Passed = _nothing_passed,
    depth: int = _MAX_DEPTH,
) -> list[Expression]:
    """Return the expressions that may fix the order of the names which an expression holds or numbers.

    Follows dictionaries of numbers to the names that they number, copies and variables to what they hold, parameters of
    the constructor to what is passed, calls to each function that may run, and empty containers to the statements that
    fill them. Names get an order when a set of them is copied.
    """
    made, position = [*part_steps(expression, position)][-1]
    if depth <= 0:
        return [made]
    if _is_empty(made.node):
        return [*_filling_values(expression, made, owner)] or [made]
    if sources := [*_passed_values(made, position, passed), *_possible_results(made, position, passed)]:
        return [maker for part in sources for maker in numbering_of_expression(*part, owner, passed, depth - 1)]
    source = _copied(made.node)
    if source is None:
        return [made]
    inner = Expression(made.scope, source)
    if isinstance(source, ast.Attribute) and getattr(source.value, "id", "") == "self":
        return numbering_of_attribute(owner, source.attr, passed, depth - 1) or [made]
    if isinstance(source, ast.Name):
        parts = possible_assignments(inner, None)
        makers = [maker for part in parts for maker in numbering_of_expression(*part, owner, passed, depth - 1)]
        return [made if _is_set(maker.node) else maker for maker in makers] or [made]
    return [made]


def coding_calls(expression: Expression, position: int | None) -> list[Expression]:
    """Return the calls that number again the names from which the columns of an expression are made.

    Follows joins of columns, conversions, comprehensions to what makes their items or what they convert, lists to what
    is appended, each value that a variable may have, and each function that a call may run. The parts of a join of
    blocks may have several columns each, so all of them are followed. Empty if more than 500 expressions are reached,
    since others could be among them.
    """
    calls, parts, count = list[Expression](), [(expression, position)], 0
    for _ in range(_MAX_DEPTH + 1):
        count += len(parts)
        if count > _MAX_EXPRESSIONS:
            return []
        steps = [_coding_step(*part) for part in parts]
        calls += [call for call, _ in steps if call is not None]
        parts = [part for _, further in steps for part in further]
    return calls


def _coding_step(expression: Expression, position: int | None) -> tuple[Expression | None, list[Part]]:
    """Return the call that numbers names, if an expression is one, or the parts from which its columns are made."""
    made, position = [*part_steps(expression, position, enters=_is_no_coding, passes_conversions=True)][-1]
    node = made.node
    loop = node.generators[0] if isinstance(node, (ast.ListComp, ast.GeneratorExp)) else None
    if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
        item = Expression(made.scope, node.elt)
        made = part_producer(item, None, enters=_is_no_coding, passes_conversions=True)
    name, parts = call_name(made.node), list[Part]()
    if name in _CODINGS:
        return made, []
    if name in _JOINS and isinstance(made.node, ast.Call):
        column = None if name in _BLOCK_JOINS else position
        parts = [(Expression(made.scope, argument), column) for argument in made.node.args[:1]]
    elif isinstance(made.node, ast.Call):
        parts = [(returned, position) for returned in returned_expressions(made)]
    elif isinstance(made.node, ast.Subscript) and isinstance(made.node.value, ast.Call):
        parts = [(Expression(made.scope, made.node.value), None)]
    elif _is_empty(made.node):
        values = _filling_values(expression, made, None)
        parts = [(Expression(value.scope, part), None) for value in values for part in _filled(value.node)]
    elif isinstance(made.node, (ast.List, ast.Tuple)) and position is None:
        parts = [(Expression(made.scope, part), None) for part in made.node.elts]
    elif loop and ast.unparse(made.node) == ast.unparse(loop.target):
        parts = [(Expression(made.scope, loop.iter), position)]
    elif isinstance(made.node, ast.Name):
        parts = possible_assignments(made, position)
    return None, parts


def depends_on_constants(made: Expression) -> bool:
    """Check whether a function makes names of constants of its module alone: then it makes the same in each call."""
    syntax = enclosing_scope(made.line)
    if syntax is None or isinstance(syntax, ast.Module):
        return False
    loops = [node.target for node in ast.walk(made.node) if isinstance(node, ast.comprehension)]
    own_names = {name.id for target in loops for name in ast.walk(target) if isinstance(name, ast.Name)}
    names = [node for node in ast.walk(made.node) if isinstance(node, ast.Name) and node.id not in own_names]
    return all(node.id in _BUILTINS or made.scope.value(node) is not UNKNOWN for node in names)


def _filled(value: ast.expr) -> list[ast.expr]:
    """Return what a call such as ``append`` adds to a container, or the value of an item."""
    return value.args if isinstance(value, ast.Call) and call_name(value) in _WRITES else [value]


def _is_no_coding(call: ast.Call) -> bool:
    return call_name(call) not in _CODINGS


def _passed_values(made: Expression, position: int | None, passed: Passed) -> Iterator[Part]:
    """Yield what a variable holds: its possible values, or the argument of the constructor of which it is a parameter.

    A choice, such as a function that is read from one of two variables, has several values.
    """
    if not isinstance(made.node, ast.Name):
        return
    argument = passed(made.node.id) if made.scope.function == "__init__" else None
    if argument is not None and argument.node is not made.node:
        yield argument, position
    else:
        yield from possible_assignments(made, position)


def _possible_results(made: Expression, position: int | None, passed: Passed) -> Iterator[Part]:
    """Yield what each of the user's functions returns that may run in a call, such as one of a variable."""
    if results := returned_expressions(made):
        yield from ((result, position) for result in results)
        return
    function = made.node.func if isinstance(made.node, ast.Call) else None
    if not isinstance(function, ast.Name):
        return
    candidates: list[Part] = [(Expression(made.scope, function), None)]
    for _ in range(_MAX_DEPTH):
        if not (values := [part for name, _ in candidates for part in _passed_values(name, None, passed)]):
            break
        candidates = values
    for candidate, _ in candidates:
        called = user_function(candidate.scope.value(candidate.node))
        returned = called_return(made, *called) if called else None
        if returned is not None:
            yield returned, position


def _copied(node: ast.expr) -> ast.expr | None:
    """Return the variable or attribute whose names an expression copies or numbers in their order; else None."""
    while True:
        if isinstance(node, (ast.DictComp, ast.ListComp, ast.GeneratorExp)):
            node = node.generators[0].iter
        elif isinstance(node, ast.Call) and call_name(node) in _COPIES:
            arguments = [argument for argument in node.args if read_names(argument) - {"range", "len", "count"}]
            owner = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None
            inner = arguments[0] if arguments else owner
            if inner is None:
                return None
            node = inner
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "self") != "self":
            node = node.value  # such as the classes of an encoder
        else:
            return node if isinstance(node, (ast.Name, ast.Attribute)) else None


def _is_set(node: ast.expr) -> bool:
    return isinstance(node, (ast.Set, ast.SetComp)) or call_name(node) in _SETS


def _is_empty(node: ast.expr) -> bool:
    is_literal = isinstance(node, (ast.Dict, ast.List)) and not [*ast.iter_child_nodes(node)][1:]
    is_call = isinstance(node, ast.Call) and call_name(node) in ("dict", "list", "OrderedDict", "defaultdict")
    return (is_literal and not getattr(node, "keys", getattr(node, "elts", []))) or (
        is_call and isinstance(node, ast.Call) and not any(read_names(argument) for argument in node.args)
    )


def _filling_values(container: Expression, made: Expression, owner: object) -> Iterator[Expression]:
    """Yield the expressions that fill an empty container: values of its items, and calls such as ``append``."""
    syntax = enclosing_scope(made.line)
    functions = [(made.scope, syntax)] if syntax else []
    for method in effective_methods(type(owner)):
        node = find_function(method.__code__)
        if node is not None and not isinstance(node, ast.Lambda) and node is not syntax:
            functions.append((function_scope(method, owner), node))
    targets = _stored_under(syntax, made.node) if syntax else set()
    for scope, function in functions:
        for statement in own_statements(function):
            value = getattr(statement, "value", None)
            written = [t for t in assignment_targets(statement) if isinstance(t, ast.Subscript)]
            if any(ast.unparse(target.value) in targets for target in written) and value is not None:
                yield Expression(scope, value)
            owner = getattr(value.func, "value", None) if value is not None and call_name(value) in _WRITES else None
            if owner is not None and value is not None and ast.unparse(owner) in targets:
                yield Expression(scope, value)


def _stored_under(syntax: SourceScope, value: ast.expr) -> set[str]:
    """Return the variables and attributes to which a scope assigns a value, also as one of several."""
    names: set[str] = set()
    for statement in own_statements(syntax):
        assigned = getattr(statement, "value", None)
        targets = statement.targets if isinstance(statement, ast.Assign) else assignment_targets(statement)
        pairs = [pair for target in targets if assigned is not None for pair in paired_targets(target, assigned)]
        names |= {ast.unparse(target) for target, part in pairs if part is value}
    return names
