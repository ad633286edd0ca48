"""The change by which names get their numbers in sorted order, so that equal sets of names get equal numbers."""

from __future__ import annotations

import ast

from nbdebug.finding import Edit
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.scopes import Expression
from nbdebug.source.search import call_name

_LISTS = ("list", "tuple")


def sort_names(names: Expression) -> tuple[Edit, ...]:
    """Return the edit by which an expression that makes a list of distinct names makes a sorted one.

    Return () for an expression that is not known to return a list or tuple, such as the pair of ``pandas.factorize``.
    """
    node, file = names.node, names.scope.file
    items = _listed_items(node)
    if items is None:
        return ()
    is_unique_copy = call_name(items) == "fromkeys" and isinstance(items, ast.Call) and len(items.args) == 1
    text = f"set({node_text(file, items.args[0])})" if is_unique_copy and isinstance(items, ast.Call) else ""
    ordered = f"sorted({text or node_text(file, items)})"
    return (replace_node(file, node, f"tuple({ordered})" if call_name(node) == "tuple" else ordered),)


def _listed_items(node: ast.expr) -> ast.expr | None:
    """Return what an expression puts into a list or tuple, such as ``names`` of ``[*names]``; None for others."""
    if isinstance(node, ast.Call) and call_name(node) in _LISTS and len(node.args) == 1 and not node.keywords:
        return node.args[0] if isinstance(node.func, ast.Name) else None
    if isinstance(node, ast.List) and len(node.elts) == 1 and isinstance(node.elts[0], ast.Starred):
        return node.elts[0].value
    return None
