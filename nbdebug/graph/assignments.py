"""The line of a class where an attribute of a module is set."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from types import FunctionType
from typing import Any

from nbdebug.graph.source import Line


def assignments(holder: object, attribute: str) -> list[Line]:
    """Every line in the methods of an object's class, and of the classes above it, that sets ``self.attribute``."""
    methods = (one for cls in type(holder).__mro__ for one in vars(cls).values() if isinstance(one, FunctionType))
    return [line for method in methods if attribute in method.__code__.co_names for line in lines(method, attribute)]


def lines(method: FunctionType, attribute: str) -> Iterator[Line]:
    """The lines of one method that set the attribute; none where its source cannot be read."""
    try:
        source, first = inspect.getsourcelines(method)
        tree = ast.parse(textwrap.dedent("".join(source)))
    except (OSError, SyntaxError):
        return
    for node in ast.walk(tree):
        if any(isinstance(one, ast.Attribute) and one.attr == attribute for one in targets(node)):
            number = first + getattr(node, "lineno", 1) - 1
            yield Line(method.__code__.co_filename, number, method.__name__)


def targets(node: ast.AST) -> list[Any]:
    """What a statement assigns to."""
    if isinstance(node, ast.Assign):
        return [part for one in node.targets for part in getattr(one, "elts", [one])]
    return [node.target] if isinstance(node, (ast.AnnAssign, ast.AugAssign)) else []
