"""The user's own line, by what is written there: for what leaves no trace in a graph, as options do not."""

from __future__ import annotations

import ast
import inspect
import linecache
import math
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nbdebug.graph.source import Line, is_library, is_machinery

LABEL = re.compile(r"(?i)(^|_)(y|t|ys|labels?|targets?|masks?)(_|$)|^y")


def line_of(wanted: Callable[[ast.AST], bool], near: Iterable[Any]) -> Line | None:
    """The one line that an expression of some kind stands in; None where there is none, or more than one."""
    found = {(file, node.lineno) for file in files(near) for node in parsed(file) if wanted(node)}
    return Line(*found.pop()) if len(found) == 1 else None


def line_in(kind: type, wanted: Callable[[ast.AST], bool]) -> Line | None:
    """The first line of a class of the user's that an expression of some kind stands in."""
    try:
        source, first = inspect.getsourcelines(kind)
        tree = ast.parse(textwrap.dedent("".join(source)))
        file = inspect.getfile(kind)
    except (OSError, TypeError, SyntaxError):
        return None
    found = [node.lineno for node in ast.walk(tree) if isinstance(node, ast.expr) and wanted(node)]
    return Line(file, first + min(found) - 1, kind.__name__) if found and not is_library(file) else None


def line_setting(option: str, value: Any, near: Iterable[Any]) -> Line | None:
    """The one line that sets an option to a value, else the one that sets it at all."""
    found = list(near)
    return line_of(sets(option, value), found) or line_of(sets(option), found)


def sets(option: str, value: Any = ...) -> Callable[[ast.AST], bool]:
    """What tells an option of a call, or an entry of a dictionary, by its name and (where given) its plain value."""

    def wanted(node: ast.AST) -> bool:
        if isinstance(node, ast.keyword):
            return node.arg == option and (value is ... or is_written(node.value, value))
        keys = node.keys if isinstance(node, ast.Dict) else []
        return any(isinstance(key, ast.Constant) and key.value == option for key in keys)

    return wanted


def calls_to(name: str) -> Callable[[ast.AST], bool]:
    """What tells a call of a function by its last name."""

    def wanted(node: ast.AST) -> bool:
        called = node.func if isinstance(node, ast.Call) else None
        return getattr(called, "attr", getattr(called, "id", None)) == name

    return wanted


def replaces(attribute: str) -> Callable[[ast.AST], bool]:
    """What tells an attribute that is set from outside of its object, as in ``model.head = ...``."""

    def wanted(node: ast.AST) -> bool:
        if not isinstance(node, ast.Attribute) or node.attr != attribute or not isinstance(node.ctx, ast.Store):
            return False
        return getattr(node.value, "id", None) != "self"

    return wanted


def is_written(node: ast.AST, value: Any) -> bool:
    """Whether an expression is a plain value, written out."""
    try:
        return bool(ast.literal_eval(node) == value)
    except ValueError:
        return False


def scales_labels(node: ast.AST) -> bool:
    """Whether an expression divides something named as labels are, or multiplies it, by a number."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Div, ast.Mult, ast.FloorDiv)):
        return False
    return isinstance(node.right, ast.Constant) and any(LABEL.search(name) for name in names(node.left))


def scales_by(factor: float) -> Callable[[ast.AST], bool]:
    """What tells an expression that multiplies or divides by about a factor, or by one over it."""

    def wanted(node: ast.AST) -> bool:
        number = node.right.value if isinstance(node, ast.BinOp) and isinstance(node.right, ast.Constant) else None
        if not isinstance(number, (int, float)) or not isinstance(getattr(node, "op", None), (ast.Div, ast.Mult)):
            return False
        return number > 0 and abs(abs(math.log(number)) - abs(math.log(factor))) < 0.3

    return wanted


def names(node: ast.AST) -> Iterator[str]:
    """The names, attributes and keys that an expression is made of."""
    for one in ast.walk(node):
        yield from (getattr(one, key) for key in ("id", "attr") if hasattr(one, key))
        if isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


def parsed(file: str) -> list[Any]:
    """Every expression and option of a file; none where it is no plain Python."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    return [node for node in ast.walk(tree) if isinstance(node, (ast.expr, ast.keyword))]


def files(near: Iterable[Any]) -> set[str]:
    """The cells of the notebook, and the user's files that some functions, or the classes of some objects, are from."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    cells = getattr(getattr(shell, "compile", None), "_filename_map", {})
    named = {home(one) for one in near} | {getattr(sys.modules.get("__main__"), "__file__", None)}
    return {*cells, *(file for file in named if file and not is_library(file) and not is_machinery(file))}


def home(one: Any) -> str | None:
    """The file that a function or the class of an object was written in."""
    code = getattr(one, "__code__", None)
    file = code.co_filename if code else getattr(sys.modules.get(type(one).__module__), "__file__", None)
    return file if isinstance(file, str) else None
