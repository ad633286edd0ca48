"""Calls of variables, parameters and attributes that hold a class, as in ``act()`` after ``act=nn.ReLU``."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from nbdebug.source.location import SourceLine
from nbdebug.source.search import assignment_targets, call_name, file_nodes, scope_nodes, syntax_tree

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def lines_calling_held_class(class_name: str, files: Collection[str]) -> set[SourceLine]:
    """Return the lines that call a parameter, or an attribute, which may hold a class.

    A parameter holds it if it is its default, or if a call passes it, and an attribute if such a parameter, or the
    class itself, is assigned to it.
    """
    trees = {file: tree for file in files if (tree := syntax_tree(file)) is not None}
    passed = _PassedClass.of(class_name, [node for tree in trees.values() for node in file_nodes(tree)])
    held = {
        (file, function): names
        for file, tree in trees.items()
        for name, function in _functions(tree)
        if (names := {*passed.parameters(name, function)})
    }
    scopes: list[tuple[_Function | ast.Module, set[str]]] = [(tree, set()) for tree in trees.values()]
    scopes += [(function, names) for (_, function), names in held.items()]
    attributes = {name for scope, names in scopes for name in _assigned_attributes(scope, {class_name, *names})}
    lines = {
        SourceLine(file, node.lineno)
        for (file, function), names in held.items()
        for node in scope_nodes(function)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names
    }
    return lines | {
        SourceLine(file, node.lineno)
        for file, tree in trees.items()
        for node in file_nodes(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in attributes
    }


@dataclass(frozen=True)
class _PassedClass:
    """A class, the keywords with which calls pass it, and its positions in the calls of functions by their names."""

    name: str
    keywords: frozenset[str]
    positions: frozenset[tuple[str, int]]

    @classmethod
    def of(cls, name: str, nodes: Collection[ast.AST]) -> _PassedClass:
        """Collect the arguments of all calls that are the class."""
        calls = [node for node in nodes if isinstance(node, ast.Call)]
        keywords = {str(k.arg) for call in calls for k in call.keywords if _last_name(k.value) == name}
        positions = {
            (call_name(call), position)
            for call in calls
            for position, value in enumerate(call.args)
            if _last_name(value) == name
        }
        return cls(name, frozenset(keywords), frozenset(positions))

    def parameters(self, called_name: str, function: _Function) -> Iterator[str]:
        """Yield the parameters of a function that hold the class by default, or that a call gives it."""
        positional = [*function.args.posonlyargs, *function.args.args]
        defaults = zip(positional[::-1], function.args.defaults[::-1], strict=False)
        keyword_defaults = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        yield from (p.arg for p, default in (*defaults, *keyword_defaults) if _last_name(default) == self.name)
        names = [parameter.arg for parameter in positional]
        names = names[1:] if names[:1] == ["self"] else names
        yield from (name for position, name in enumerate(names) if (called_name, position) in self.positions)
        yield from self.keywords.intersection([*names, *(parameter.arg for parameter in function.args.kwonlyargs)])


def _functions(tree: ast.Module) -> Iterator[tuple[str, _Function]]:
    """Yield each function of a file with the name by which it is called: for a constructor, that of its class."""
    for node in file_nodes(tree):
        if isinstance(node, _Function) and node.name != "__init__":
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((node.name, part) for part in node.body if getattr(part, "name", "") == "__init__")  # type: ignore[misc]


def _assigned_attributes(scope: _Function | ast.Module, values: Collection[str]) -> Iterator[str]:
    """Yield the attributes to which a function or a file assigns one of some names."""
    for node in scope_nodes(scope):
        if _last_name(getattr(node, "value", None)) in values:
            yield from (t.attr for t in assignment_targets(node) if isinstance(t, ast.Attribute))


def _last_name(node: ast.AST | None) -> str:
    return str(getattr(node, "attr", getattr(node, "id", "")))
