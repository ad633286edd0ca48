"""The user's line that computes an option of a layer, also if the constructor of a module passes it on."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import FunctionType

from torch import nn

from nbdebug.setup.setup import Setup
from nbdebug.setup.source_lines import call_argument, find_setup_creation
from nbdebug.source.location import SourceLine
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression, function_scope
from nbdebug.source.search import covers_line, function_node

_MAX_CONSTRUCTORS = 4


def module_option_line(setup: Setup, path: str, option: str) -> SourceLine | None:
    """Return the line of the expression that computes an option of the module under a path; None if it is unknown.

    A parameter of the constructor that creates the module is followed to the call that creates its owner.
    """
    line: SourceLine | None = None
    for _ in range(_MAX_CONSTRUCTORS):
        created = setup.eager_model.get_submodule(path)
        creation = find_setup_creation(setup, created)
        argument = creation.argument(created, option) if creation else None
        if creation is None or argument is None:
            return line
        expression, enclosing_path, method = call_argument(creation, created, argument), "", None
        for owner_path, owner in _owners(setup.eager_model, path):
            if method := _method_on_line(owner, creation.line):
                expression, enclosing_path = Expression(function_scope(method, owner), argument), owner_path
                break
        made = part_producer(expression, None)
        line = made.line
        if method is None or not enclosing_path or not _is_parameter(method, made.node):
            return line
        path, option = enclosing_path, ast.unparse(made.node)
    return line


def _owners(model: nn.Module, path: str) -> Iterator[tuple[str, nn.Module]]:
    """Yield the modules around a module with their paths, the innermost first and the model last."""
    while path:
        path = path.rpartition(".")[0]
        yield path, model.get_submodule(path)


def _method_on_line(owner: nn.Module, line: SourceLine) -> FunctionType | None:
    """Return the method of a class of the user that contains a line."""
    for kind in type(owner).__mro__:
        for method in vars(kind).values():
            if isinstance(method, FunctionType) and method.__code__.co_filename == line.file:
                node = function_node(method)
                if node is not None and covers_line(node, line.number):
                    return method
    return None


def _is_parameter(method: FunctionType, node: ast.expr) -> bool:
    """Check whether an expression is a parameter of a constructor."""
    is_constructor = method.__name__ == "__init__"
    return is_constructor and isinstance(node, ast.Name) and node.id in inspect.signature(method).parameters
