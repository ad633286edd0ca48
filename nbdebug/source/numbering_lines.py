"""The lines that fix the order in which names are numbered."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.source.assignments import effective_methods, find_assignments, find_function, own_statements
from nbdebug.source.attribute_makers import assigned_value, scope_around
from nbdebug.source.location import is_library_code
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression, function_scope
from nbdebug.source.search import assignment_targets, call_name, enclosing_scope, read_names
from nbdebug.source.variable_values import possible_assignments

_MAX_DEPTH = 8
_COPIES = {"list", "tuple", "dict", "enumerate", "zip", "array", "Series", "Index", "range", "len", "tolist", "copy"}
_WRITES = {"append", "setdefault", "add", "update", "extend"}
_SETS = {"set", "frozenset"}


def numbering_of_attribute(owner: object, attribute: str, depth: int = _MAX_DEPTH) -> list[Expression]:
    """Return the expressions that may fix the order of the names in an attribute of an object, one for each branch."""
    found: list[Expression] = []
    for line in find_assignments(owner, attribute) if depth else ():
        value = None if is_library_code(line.file) else assigned_value(line, attribute)
        if value is not None:
            expression = Expression(scope_around(line, owner), value[0])
            found += numbering_of_expression(expression, value[1], owner, depth - 1) or [expression]
    return found


def numbering_of_expression(
    expression: Expression, position: int | None, owner: object, depth: int = _MAX_DEPTH
) -> list[Expression]:
    """Return the expressions that may fix the order of the names which an expression holds or numbers.

    Follows dictionaries of numbers to the names that they number, copies and variables to what they hold, and empty
    containers to the statements that fill them. Names get an order when a set of them is copied.
    """
    made = part_producer(expression, position)
    if depth <= 0:
        return [made]
    if _is_empty(made.node):
        return [*_filling_values(expression, made, owner)] or [made]
    source = _copied(made.node)
    if source is None:
        return [made]
    inner = Expression(made.scope, source)
    if isinstance(source, ast.Attribute) and getattr(source.value, "id", "") == "self":
        return numbering_of_attribute(owner, source.attr, depth - 1) or [made]
    if isinstance(source, ast.Name):
        parts = possible_assignments(inner, None)
        lists = [found for part in parts for found in numbering_of_expression(*part, owner, depth - 1)]
        return [made if _is_set(found.node) else found for found in lists] or [made]
    return [made]


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
    targets = {
        ast.unparse(target)
        for statement in (own_statements(syntax) if syntax else ())
        if getattr(statement, "value", None) is made.node
        for target in assignment_targets(statement)
    }
    for scope, function in functions:
        for statement in own_statements(function):
            value = getattr(statement, "value", None)
            written = [t for t in assignment_targets(statement) if isinstance(t, ast.Subscript)]
            if any(ast.unparse(target.value) in targets for target in written) and value is not None:
                yield Expression(scope, value)
            owner = getattr(value.func, "value", None) if value is not None and call_name(value) in _WRITES else None
            if owner is not None and value is not None and ast.unparse(owner) in targets:
                yield Expression(scope, value)
