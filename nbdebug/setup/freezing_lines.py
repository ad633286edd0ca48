"""The user's line that turned off the gradients of parameters."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from torch import Tensor, nn

from nbdebug.setup.setup import Setup
from nbdebug.setup.user_code import user_written_objects
from nbdebug.source.location import SourceLine
from nbdebug.source.scopes import Scope, file_scope
from nbdebug.source.search import (
    assigned_names,
    call_name,
    covers_line,
    enclosing_loops,
    enclosing_scope,
    file_nodes,
    matches_call,
    may_assign,
    search_files,
    syntax_tree,
)

_PARTS = ("parameters", "named_parameters", "modules", "named_modules", "children", "named_children")


def freezing_line(setup: Setup, parameters: Collection[Tensor] = ()) -> SourceLine | None:
    """Return the only line that may have frozen some parameters, by ``requires_grad_(False)`` or an assignment.

    A statement on other modules is left out if its objects are known: those of ``self`` in a class of the model, and
    the variables of a module. None if no line or several remain.
    """
    lines = {
        SourceLine(file, node.lineno)
        for file in search_files(user_written_objects(setup))
        for node in file_nodes(syntax_tree(file))
        if isinstance(node, (ast.expr, ast.Assign)) and _freezes(node) and _may_concern(setup, file, node, parameters)
    }
    return lines.pop() if len(lines) == 1 else None


def _freezes(node: ast.expr | ast.Assign) -> bool:
    """Match ``requires_grad_(False)`` and ``requires_grad = False``."""
    if isinstance(node, ast.Assign):
        return may_assign(node, "requires_grad", False)
    is_false = (isinstance(child, ast.Constant) and child.value is False for child in ast.walk(node))
    return matches_call("requires_grad_")(node) and any(is_false)


def _may_concern(setup: Setup, file: str, node: ast.expr | ast.Assign, parameters: Collection[Tensor]) -> bool:
    """Return whether a statement freezes some parameters, or its objects are unknown."""
    receiver = _receiver(file, node)
    values = [scope.value(receiver) for scope in _scopes(setup, file, node)] if receiver is not None else []
    known = [value for value in values if isinstance(value, (nn.Module, Tensor))]
    if not parameters or not known or len(known) < len(values):
        return True
    concerned = {id(part) for value in known for part in _parameters_of(value)}
    return any(id(parameter) in concerned for parameter in parameters)


def _parameters_of(value: nn.Module | Tensor) -> Iterator[Tensor]:
    yield from value.parameters() if isinstance(value, nn.Module) else [value]


def _receiver(file: str, node: ast.expr | ast.Assign) -> ast.expr | None:
    """Return what a statement freezes; for a variable of a loop over the parameters of a module, this module."""
    owner = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "func", None)
    receiver = owner.value if isinstance(owner, ast.Attribute) else None
    scope = enclosing_scope(SourceLine(file, node.lineno))
    for loop in enclosing_loops(scope, node.lineno) if scope and isinstance(receiver, ast.Name) else ():
        if isinstance(receiver, ast.Name) and receiver.id in assigned_names(loop.target):
            function = loop.iter.func if isinstance(loop.iter, ast.Call) and call_name(loop.iter) in _PARTS else None
            return function.value if isinstance(function, ast.Attribute) else None
    return receiver


def _scopes(setup: Setup, file: str, node: ast.expr | ast.Assign) -> Iterator[Scope]:
    """Yield the scope of a statement; in a method, one for each module of the model that has its class."""
    scope, whole = enclosing_scope(SourceLine(file, node.lineno)), file_scope(file)
    classes = [part for part in file_nodes(syntax_tree(file)) if isinstance(part, ast.ClassDef)]
    names = [part.name for part in classes if covers_line(part, node.lineno)]
    arguments = scope.args.args if isinstance(scope, ast.FunctionDef) else []
    if not names or not arguments or not isinstance(scope, ast.FunctionDef):
        yield whole
        return
    for module in setup.eager_model.modules():
        if type(module).__name__ == names[-1]:
            yield Scope(file, scope.name, whole.variables, {arguments[0].arg: module})
