"""The line by which each split fits an encoder, a vocabulary or a mapping on its own data."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from types import FunctionType
from typing import Any

from torch.utils.data import TensorDataset

from nbdebug.setup.part_sources import all_sources, computed_from, find_part, running_nodes
from nbdebug.setup.sample_functions import nested_datasets
from nbdebug.setup.setup import Setup
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.source.assignments import FunctionNode, effective_methods, find_function, own_statements
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.numbering_lines import depends_on_constants
from nbdebug.source.producers import part_producer, returned_expression
from nbdebug.source.scopes import Expression
from nbdebug.source.search import (
    assignment_targets,
    call_arguments,
    call_name,
    enclosing_scope,
    file_nodes,
    read_names,
    syntax_tree,
)

_FITS = {"fit", "fit_transform", "factorize", "fit_on_texts", "build_vocab", "build_vocab_from_iterable", "adapt"}
_Name = tuple[object, ...]  # where a variable is read, and its name
_Fits = dict[tuple[object, ...], Expression]  # by the expression and what its function gets


def own_fit_line(setup: Setup) -> SourceLine | None:
    """Return the only line that fits an encoder or numbers items on the validation split alone; None without one.

    That is a call of ``fit_transform`` and the like, the creation of an object of the user's that numbers its
    arguments, a call of a function that returns such numbers, or a dictionary that numbers items. It must be made once
    for each split: only the validation data depend on it, its function gets other arguments for them, or it is where
    both datasets or both loaders are created.
    """
    try:
        (train, train_names), (val, _) = (_fits(setup, loader) for loader in (setup.train_loader, setup.val_loader))
        own = {key: fit for key, fit in val.items() if key not in train and _fitted_names(fit).isdisjoint(train_names)}
        lines = {fit.line for key, fit in val.items() if key in own or _runs_for_each_split(setup, fit)}
    except Exception:  # the data are the user's, and a finding is worth more than its line
        return None
    return lines.pop() if len(lines) == 1 else None


def _fits(setup: Setup, loader: Any) -> tuple[_Fits, set[_Name]]:
    """Return what fits or numbers something on the way to the samples of a loader, and the names read there."""
    fits: _Fits = {}
    names = set[_Name]()
    for position in (0, -1):
        start = find_part(setup, loader, position)
        sources = partial(computed_from, setup, loader=loader)
        for expression, _ in all_sources(start, sources) if start else ():
            scopes = tuple((name, argument.span) for name, argument in expression.scope.arguments.items())
            nodes = (node for node in running_nodes(expression) if isinstance(node, (ast.Call, ast.DictComp)))
            here = (Expression(expression.scope, node) for node in nodes)
            names |= _names(expression, expression.node)
            fits |= {(*fit.span, scopes): fit for fit in here if _fits_data(fit)}
    passed_on = {numbers.span for fit in fits.values() if (numbers := _returned_numbers(fit))}
    return {key: fit for key, fit in fits.items() if fit.span not in passed_on}, names


def _returned_numbers(call: Expression) -> Expression | None:
    """Return the dictionary that numbers items and that the user's function returns in a call; None for others."""
    returned = returned_expression(call)
    made = part_producer(returned, None, enters=lambda _: False) if returned else None
    return made if made and made.scope.arguments and _enumerates(made.node) else None


def _names(expression: Expression, node: ast.expr) -> set[_Name]:
    """Return the variables that a part of an expression reads, with what calls pass to the function around them."""
    scope = expression.scope
    passed = tuple(argument.span for argument in scope.arguments.values())
    return {(scope.file, scope.function, passed, name) for name in read_names(node)}


def _fitted_names(fit: Expression) -> set[_Name]:
    """Return the variables that hold the data which an expression fits or numbers."""
    node = fit.node
    data = [node.generators[0].iter] if isinstance(node, ast.DictComp) else []
    data += call_arguments(node) if isinstance(node, ast.Call) else []
    functions = {getattr(call.func, "id", "") for part in data for call in ast.walk(part) if isinstance(call, ast.Call)}
    return {name for part in data for name in _names(fit, part) if name[-1] not in functions}


def _fits_data(expression: Expression) -> bool:
    """Check whether an expression fits or numbers values that it gets."""
    node = expression.node
    known = {*expression.scope.bound, *expression.scope.arguments}
    if depends_on_constants(expression) and known.isdisjoint(read_names(node)):
        return False
    if isinstance(node, ast.DictComp):
        return _enumerates(node)
    if not isinstance(node, ast.Call) or not any(read_names(part) for part in call_arguments(node)):
        return False
    callee = expression.scope.callee(node)
    function = find_function(callee[0].__code__) if callee else None
    is_numbering = function is not None and _numbers_by_length(function)
    is_numbering |= call_name(node) in _FITS or _returned_numbers(expression) is not None
    return is_numbering or any(map(_numbers_items, _makers(expression, node)))


def _makers(expression: Expression, call: ast.Call) -> Iterator[FunctionNode]:
    """Yield the functions of a class of the user's that create an object: its constructor or a class method.

    Also yields the method of an object that is not known, which it calls of itself.
    """
    yield from filter(None, [_own_method(expression, call)])
    owner = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    kind = expression.scope.value(owner)
    name = call.func.attr if isinstance(call.func, ast.Attribute) else "__init__"
    method = vars(kind).get(name) if isinstance(kind, type) else None
    function = getattr(method, "__func__", method)
    if isinstance(function, FunctionType) and is_user_code(function.__code__.co_filename):
        yield from filter(None, [find_function(function.__code__)])


def _own_method(expression: Expression, call: ast.Call) -> FunctionNode | None:
    """Return the method of its class that a method calls of its own object, as ``self.number(x)``; None if it is known.

    A known one is entered.
    """
    scope, method = enclosing_scope(expression.line), call.func
    if not isinstance(method, ast.Attribute) or isinstance(scope, ast.Module) or scope is None:
        return None
    owner = next(iter(scope.args.args), None)
    if owner is None or getattr(method.value, "id", "") != owner.arg or returned_expression(expression):
        return None
    classes = (node for node in file_nodes(syntax_tree(expression.scope.file)) if isinstance(node, ast.ClassDef))
    bodies = (node.body for node in classes if scope in node.body)
    methods = (part for body in bodies for part in body if isinstance(part, ast.FunctionDef))
    return next((part for part in methods if part.name == method.attr), None)


def _numbers_items(function: FunctionNode) -> bool:
    """Check whether a function gives items numbers: by a dictionary of an enumeration, or by its growing length."""
    nodes = [*ast.walk(function)]
    is_fitted = any(call_name(node) in _FITS for node in nodes)
    return is_fitted or any(map(_enumerates, nodes)) or _numbers_by_length(function)


def _enumerates(node: ast.AST) -> bool:
    return isinstance(node, ast.DictComp) and call_name(node.generators[0].iter) == "enumerate"


def _numbers_by_length(function: FunctionNode) -> bool:
    """Check whether a function sets items of a dictionary to its length, as in ``setdefault(name, len(numbers))``."""
    calls = [node for node in ast.walk(function) if isinstance(node, ast.Call) and call_name(node) == "setdefault"]
    body = [] if isinstance(function, ast.Lambda) else own_statements(function)
    statements = [node for node in body if isinstance(node, ast.Assign)]
    written = [node.value for node in statements if any(isinstance(t, ast.Subscript) for t in assignment_targets(node))]
    return any(call_name(value) == "len" for value in [*written, *(part for call in calls for part in call.args)])


def _runs_for_each_split(setup: Setup, fit: Expression) -> bool:
    """Check whether an expression is in the class of both datasets, or in the function that creates both loaders."""
    scope = enclosing_scope(fit.line)
    loaders = (setup.train_loader, setup.val_loader)
    datasets = [[*nested_datasets(getattr(loader, "dataset", None))] for loader in loaders]
    if scope is None or isinstance(scope, ast.Module):
        return False
    for train, val in zip(*datasets, strict=False):
        is_own = type(train) is type(val) and train is not val and not isinstance(train, TensorDataset)
        methods = effective_methods(type(val)) if is_own else ()
        if any(find_function(method.__code__) is scope for method in methods):
            return True
    for pair in (loaders, *zip(*datasets, strict=False)):
        creations = [find_setup_creation(setup, created) for created in pair]
        nodes = [creation.call for creation in creations if creation]
        lines = [creation.line for creation in creations if creation]
        if len(nodes) == 2 and nodes[0] is nodes[1] and pair[0] is not pair[1] and enclosing_scope(lines[0]) is scope:
            return True
    return False
