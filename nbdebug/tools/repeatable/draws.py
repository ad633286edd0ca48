"""The user's lines that draw from the global generators, or that refer to a variable."""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.call_recorders import is_random_function
from nbdebug.source.assignments import find_function
from nbdebug.source.location import SourceLine
from nbdebug.tools.repeatable.patches import LineLog, logged, replaced

_DROPOUTS = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, torch.dropout, torch.dropout_)
_CHANGING_METHODS = {
    "append",
    "extend",
    "add",
    "update",
    "pop",
    "insert",
    "setdefault",
    "clear",
    "copy_",
    "add_",
    "mul_",
}
_GLOBAL_OWNERS: tuple[tuple[Any, Any, str], ...] = (
    (random, random._inst, "random"),
    (np.random, np.random.mtrand._rand, "numpy.random"),
)


class DrawLog:
    """The user's lines that draw from each global generator in the block ``recorded``; ``logs`` has a log of each."""

    def __init__(self, logs: dict[str, LineLog]) -> None:
        self.logs = logs

    @contextmanager
    def recorded(self, namespaces: list[dict[str, Any]]) -> Iterator[None]:
        """Record the lines in the block."""
        with ExitStack() as stack:
            for module, owner, name in _GLOBAL_OWNERS:
                functions = {
                    key: logged(value, self.logs[name])
                    for key, value in vars(module).items()
                    if not key.startswith("_") and getattr(value, "__self__", None) is owner
                }
                stack.enter_context(replaced(module, functions, namespaces))
            stack.enter_context(_TorchDraws(self.logs["torch"]))
            yield


class _TorchDraws(TorchFunctionMode):
    """Logs the lines that draw from torch's global generator while active."""

    def __init__(self, log: LineLog) -> None:
        super().__init__()
        self.log = log

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if (is_random_function(func) or func in _DROPOUTS) and (kwargs or {}).get("generator") is None:
            self.log.add(sys._getframe(1))
        return func(*args, **(kwargs or {}))


def variable_line(function: FunctionType, name: str) -> SourceLine | None:
    """Return the line of a function that changes a variable, else the first that reads it."""
    node, last = find_function(function.__code__), name.rpartition(".")[2]
    if node is None:
        return None
    file, code_name = function.__code__.co_filename, function.__code__.co_name
    uses = [child for child in ast.walk(node) if _refers_to(child, last)]
    changes = [child for child in ast.walk(node) if _changes(child, last)]
    numbers = sorted(getattr(child, "lineno", 0) for child in changes or uses)
    return SourceLine(file, numbers[0], code_name) if numbers else None


def _refers_to(node: ast.AST, name: str) -> bool:
    return (isinstance(node, ast.Name) and node.id == name) or (isinstance(node, ast.Attribute) and node.attr == name)


def _changes(node: ast.AST, name: str) -> bool:
    if isinstance(node, (ast.Assign, ast.AugAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(_refers_to(child, name) for target in targets for child in ast.walk(target))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in _CHANGING_METHODS and _refers_to(node.func.value, name)
    return (
        isinstance(node, ast.Call)
        and getattr(node.func, "id", "") == "next"
        and any(_refers_to(argument, name) for argument in node.args)
    )
