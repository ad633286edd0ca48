"""Where the inputs or targets of a loader come from in the source, and the data of which an expression makes others."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

from nbdebug.setup.data_lines import tensor_argument
from nbdebug.setup.sample_functions import nested_datasets, sample_functions
from nbdebug.setup.setup import Setup
from nbdebug.setup.source_lines import call_argument, find_setup_creation
from nbdebug.source.assigned_attributes import assigned_attribute
from nbdebug.source.creation import Creation
from nbdebug.source.producers import executed_return, part_producer, returned_expressions
from nbdebug.source.scopes import Expression
from nbdebug.source.search import assignment_targets, call_name, enclosing_loops, enclosing_scope
from nbdebug.source.variable_values import Part, possible_assignments, statements_before

_MAX_EXPRESSIONS = 400
_ARGUMENT_METHODS = {"fit_transform", "transform", "predict", "inverse_transform"}


def find_part(setup: Setup, loader: Any, position: int) -> Part | None:
    """Return the expression that makes the inputs (0) or targets (-1) of a loader, and their position in it."""
    datasets = [*nested_datasets(getattr(loader, "dataset", None))]
    if tensor := tensor_argument(setup, loader, datasets, position):
        return tensor, None
    pairs = (executed_return(*method) for method in sample_functions(loader, datasets))
    return next(((pair, position) for pair in pairs if pair), None)


def constructor_argument(setup: Setup, loader: Any, name: str) -> Expression | None:
    """Return the argument for a parameter of the constructor of a loader's dataset."""
    for dataset in nested_datasets(getattr(loader, "dataset", None)):
        creation = find_setup_creation(setup, dataset)
        if creation and (argument := creation.argument(dataset, name)):
            return call_argument(creation, dataset, argument)
    creation = find_setup_creation(setup, loader)
    argument = creation.argument(loader, "dataset") if creation else None
    made = part_producer(call_argument(creation, loader, argument), None) if creation and argument else None
    for dataset in nested_datasets(getattr(loader, "dataset", None)) if made else ():
        if made and isinstance(made.node, ast.Call) and call_name(made.node) == type(dataset).__name__:
            passed = Creation(made.scope.file, made.node).argument(dataset, name)
            return Expression(made.scope, passed) if passed else None
    return None


def all_sources(start: Part, sources: Callable[[Expression, int | None], Iterable[Part]]) -> Iterator[Part]:
    """Yield a part and the parts from which it is computed, directly or not, the nearest first."""
    pending, visited = [start], set[tuple[object, ...]]()
    while pending and len(visited) < _MAX_EXPRESSIONS:
        expression, position = pending.pop(0)
        parts = getattr(expression.node, "elts", None)
        if parts and position is not None and -len(parts) <= position < len(parts):
            expression, position = Expression(expression.scope, parts[position]), None
        scopes = tuple((name, argument.span) for name, argument in expression.scope.arguments.items())
        if (key := (*expression.span, position, scopes)) in visited:
            continue
        visited.add(key)
        yield expression, position
        pending += sources(expression, position)


def computed_from(setup: Setup, expression: Expression, position: int | None, *, loader: Any = None) -> Iterator[Part]:
    """Yield the expressions from which the variables, attributes and calls in an expression are computed.

    Parameters of the constructor of the dataset of a loader, by default the training loader, are computed from what the
    program passes.
    """
    loader = setup.train_loader if loader is None else loader
    scope = expression.scope
    for node in running_nodes(expression):
        here = Expression(scope, node)
        if isinstance(node, ast.Call) and (returned := returned_expressions(here)):
            yield from ((expression, position) for expression in returned)
        elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self":
            yield from filter(None, [assigned_attribute(here, node.attr)])
        elif isinstance(node, ast.Name):
            yield from _of_variable(setup, loader, here, node.id, position if node is expression.node else None)


def running_nodes(expression: Expression) -> Iterator[ast.expr]:
    """Yield the expressions in an expression, the outer ones first, without branches that are known not to run."""
    pending: list[ast.AST] = [expression.node]
    for node in pending:
        if isinstance(node, ast.expr):
            yield node
        truth = expression.scope.truth(node.test) if isinstance(node, ast.IfExp) else None
        if isinstance(node, ast.IfExp) and truth is not None:
            pending.append(node.body if truth else node.orelse)
        else:
            pending += ast.iter_child_nodes(node)


def _of_variable(setup: Setup, loader: Any, variable: Expression, name: str, position: int | None) -> Iterator[Part]:
    scope, number = variable.scope, variable.node.lineno
    yield from possible_assignments(variable, position)
    for statement in statements_before(variable):
        bases = [getattr(target, "value", target) for target in assignment_targets(statement)]
        if isinstance(statement, ast.AugAssign) and name in [getattr(base, "id", "") for base in bases]:
            yield Expression(scope, statement.value), None
    syntax = enclosing_scope(variable.line)
    for loop in enclosing_loops(syntax, number) if syntax else ():
        if name in {getattr(part, "id", "") for part in ast.walk(loop.target)}:
            yield Expression(scope, loop.iter), None
    if name in scope.arguments:
        yield scope.arguments[name], position
    elif scope.function == "__init__":
        passed = constructor_argument(setup, loader, name)
        yield from [(passed, position)] if passed else []


def operands(expression: Expression, position: int | None) -> Iterator[Part]:
    """Yield the data of which an expression that is not followed makes others: the array of a call, or of an index."""
    scope, node = expression.scope, expression.node
    if isinstance(node, ast.Call):
        if subject := _subject(expression, node, position):
            yield Expression(scope, subject), None
    elif isinstance(node, ast.BinOp):
        yield from ((Expression(scope, side), None) for side in (node.left, node.right))
    elif isinstance(node, ast.UnaryOp):
        yield Expression(scope, node.operand), None
    elif isinstance(node, ast.ListComp):
        yield Expression(scope, node.generators[0].iter), None
    elif isinstance(node, (ast.Attribute, ast.Subscript)):
        owner = node.value
        is_indexer = isinstance(owner, ast.Attribute) and owner.attr in ("iloc", "loc")
        yield Expression(scope, owner.value if isinstance(owner, ast.Attribute) and is_indexer else owner), None


def _subject(expression: Expression, call: ast.Call, position: int | None) -> ast.expr | None:
    """Return the data that a call changes: its argument at the same position, or the owner of the method."""
    name, arguments = call_name(call), [part for part in call.args if not isinstance(part, ast.Starred)]
    if name == "train_test_split" and position is not None:
        return next(iter(arguments[position // 2 : position // 2 + 1]), None)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    is_function = owner is None or isinstance(expression.scope.value(owner), ModuleType)
    if is_function or name in _ARGUMENT_METHODS or (arguments and name in ("shuffle", "permutation", "permuted")):
        index = position if position is not None and position < len(arguments) else 0
        return arguments[index] if arguments else None
    return owner
