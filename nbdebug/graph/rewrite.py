"""The user's own line, mended."""

from __future__ import annotations

import ast
from collections.abc import Collection

from nbdebug.graph.node import Node


class Unwrap(ast.NodeTransformer):
    """Puts the first argument (or the receiver) in place of calls of some names."""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names
        self.done = False

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """The call itself, or what it was applied to."""
        self.generic_visit(node)
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if name not in self.names:
            return node
        inside = node.args[0] if node.args else None
        if isinstance(node.func, ast.Attribute) and not is_namespace(node.func.value):
            inside = node.func.value
        if inside is None:
            return node
        self.done = True
        return inside


def drop(producer: Node, names: Collection[str], act: str) -> str:
    """The user's line without an activation of one of ``names``; else the module to take out; else ``act``."""
    if producer.line and (line := without_call(producer.line.text, names)):
        return line
    if producer.module:
        return f"# take module {producer.module!r} out of the model: {act}"
    return f"# {act}"


def is_namespace(node: ast.expr) -> bool:
    """Whether an expression is a module such as ``F``, ``torch`` or ``torch.nn.functional``."""
    return ast.unparse(node) in {"F", "torch", "nn.functional", "torch.nn.functional", "functional", "torch.special"}


def without_call(source: str, names: Collection[str]) -> str | None:
    """A line of code with the calls of ``names`` taken off what they are applied to; None where that cannot be told."""
    try:
        tree = ast.parse(source.strip())
    except SyntaxError:
        return None
    unwrap = Unwrap(names)
    changed = unwrap.visit(tree)
    return ast.unparse(changed) if unwrap.done else None
