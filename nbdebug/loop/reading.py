"""Reads the user's source around a line: its tree, its function, its statement."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache

from nbdebug.graph.source import Line

Scope = ast.Module | ast.FunctionDef | ast.AsyncFunctionDef


def tree_of(file: str) -> ast.Module | None:
    """The syntax tree of a file or cell; None where it is no plain Python."""
    return parsed("".join(linecache.getlines(file)))


@lru_cache(8)
def parsed(text: str) -> ast.Module | None:
    """The syntax tree of a text; a cell is read again each time that its loop is judged."""
    try:
        return ast.parse(text)
    except SyntaxError:
        return None


def scope_of(line: Line) -> Scope | None:
    """The innermost function that a line stands in, or else the whole file or cell."""
    tree = tree_of(line.file)
    if tree is None:
        return None
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    around = [node for node in functions if spans(node, line.number)]
    return max(around, key=lambda node: node.lineno, default=tree)


def spans(node: ast.stmt | ast.expr, number: int) -> bool:
    """Whether a statement or expression covers a line."""
    return node.lineno <= number <= (node.end_lineno or node.lineno)


def stored(node: ast.AST) -> set[str]:
    """The names that are given a value anywhere in a part of a program."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def loaded(node: ast.AST) -> set[str]:
    """The names that are read anywhere in a part of a program."""
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


def loops_around(scope: Scope, number: int) -> list[ast.For]:
    """The for-loops of a scope that a line stands in, the innermost first."""
    found = [node for node in ast.walk(scope) if isinstance(node, ast.For) and spans(node, number)]
    return sorted(found, key=lambda node: node.lineno, reverse=True)


def may_be_skipped(scope: Scope, node: ast.AST, name: str, ran: int) -> bool:
    """Whether an expression stands in one branch of a choice, and the other makes something of the same value.

    Which of them runs cannot be read, but where the line that ``ran`` stands in the same branch.
    """
    for choice in ast.walk(scope):
        if isinstance(choice, (ast.If, ast.IfExp)):
            body, other = parts(choice.body), parts(choice.orelse)
            for here, there in ((body, other), (other, body)):
                taken = any(spans(one, ran) for one in here) and isinstance(choice, ast.If)
                if any(holds(one, node) for one in here) and not taken and any(name in texts(one) for one in there):
                    return True
    return False


def parts(branch: ast.expr | list[ast.stmt]) -> list[ast.stmt] | list[ast.expr]:
    """The statements of a branch, or its one expression."""
    return branch if isinstance(branch, list) else [branch]


def holds(part: ast.AST, node: ast.AST) -> bool:
    """Whether a node stands in a part of a program."""
    return any(one is node for one in ast.walk(part))


def texts(node: ast.AST) -> set[str]:
    """All expressions in a part of a program, as text."""
    return {ast.unparse(one) for one in ast.walk(node) if isinstance(one, ast.expr)}


def called(node: ast.AST) -> str:
    """The last name of what a call calls; nothing for what is no call."""
    function = node.func if isinstance(node, ast.Call) else None
    return str(getattr(function, "attr", getattr(function, "id", "")))


def subject(call: ast.Call) -> ast.expr | None:
    """What a function such as ``argmax`` is about: the object of a method, or the first argument of torch's own."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if owner is None or (isinstance(owner, ast.Name) and owner.id in ("torch", "F", "np")):
        return call.args[0] if call.args else None
    return owner
