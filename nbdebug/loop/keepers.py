"""The line of a loop that keeps a loss with its graph, by what is written there."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from nbdebug.graph.search import calls_to, names
from nbdebug.graph.source import Line
from nbdebug.loop.loop import Loop
from nbdebug.loop.reading import tree_of

KEEPING = {"append", "add", "extend", "update", "put", "insert"}


def keeper(loop: Loop) -> tuple[str, Line] | None:
    """What keeps losses or outputs, and the user's line; None where no line does it by name.

    Looks in the file or cell of the backward pass, for a name that ``backward`` is called on, or that is assigned
    from a call, and that is added to, put into or stored in something else as it is.
    """
    end = loop.lines.get("backward") or loop.passes.lines.get("forward")
    tree = tree_of(end.file) if end else None
    if end is None or tree is None:
        return None
    losses = {name for node in ast.walk(tree) if calls_to("backward")(node) for name in names_called_on(node)}
    for wanted in (losses, assigned(tree)):
        lines = (node for node in ast.walk(tree) if isinstance(node, (ast.stmt, ast.expr)))
        found = [(node.lineno, kept) for node in lines for kept in [keeps(node, wanted)] if kept]
        if found:
            number, kept = min(found, key=lambda one: abs(one[0] - end.number))
            return kept, Line(end.file, number)
    return None


def names_called_on(node: ast.AST) -> Iterator[str]:
    """The names in what a method is called on."""
    called = node.func if isinstance(node, ast.Call) else None
    return names(called.value) if isinstance(called, ast.Attribute) else iter(())


def assigned(tree: ast.AST) -> set[str]:
    """The names that the values of calls are given to."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)]
    return {target.id for node in nodes for target in node.targets if isinstance(target, ast.Name)}


def keeps(node: ast.AST, wanted: set[str]) -> str | None:
    """What a statement or call keeps one of some names in, as it is."""
    if isinstance(node, ast.AugAssign) and bare(node.value, wanted):
        return ast.unparse(node.target)
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp):
        target = ast.unparse(node.targets[0])
        sides = {ast.unparse(node.value.left), ast.unparse(node.value.right)}
        return target if target in sides and bare(node.value, wanted - {target}) else None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        return ast.unparse(node.targets[0].value) if bare(node.value, wanted) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in KEEPING:
        return ast.unparse(node.func.value) if any(bare(one, wanted) for one in node.args) else None
    return None


def bare(value: ast.AST, wanted: set[str]) -> bool:
    """Whether an expression holds one of some names as it is, in arithmetic or a container but in no call."""
    if isinstance(value, ast.Name):
        return value.id in wanted
    if isinstance(value, (ast.BinOp, ast.Tuple, ast.List, ast.Dict)):
        return any(bare(one, wanted) for one in ast.iter_child_nodes(value))
    return False
