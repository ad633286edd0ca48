"""The numbers that a loop has computed: those in its variables, and those of expressions that it stores nowhere."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import FrameType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.source.location import SourceLine
from nbdebug.source.references import frame_variables, user_frames
from nbdebug.source.search import call_name, enclosing_scope

_MAX_FRAMES, _MAX_NUMBERS, _MAX_ITEMS, _MAX_DEPTH = 4, 256, 16, 3
_MAX_VALUES = 50_000  # of a tensor or list in an expression
_OPAQUE_TYPES = (nn.Module, torch.optim.Optimizer, type, ModuleType, FunctionType)
NumberKey = tuple[str, str, str]  # file, function, and name of a variable or text of an expression


def loop_numbers(frame: FrameType | None) -> Iterator[tuple[NumberKey, float]]:
    """Yield the numbers in the variables of the user's functions, also in their containers and attributes.

    Then yield the quotients and means that their code computes from these variables, as in the argument of a print.
    """
    count = 0
    for user_frame, _ in zip(user_frames(frame), range(_MAX_FRAMES), strict=False):
        code, variables = user_frame.f_code, frame_variables(user_frame)
        stored = (pair for name, value in variables.items() for pair in _numbers_in(name, value))
        for numbers in (stored, _computed_numbers(user_frame, variables)):
            for path, number in numbers:
                count += 1
                if count <= _MAX_NUMBERS:
                    yield (code.co_filename, code.co_name, path), number


def expression_line(line: SourceLine, text: str) -> SourceLine | None:
    """Return the first line of an expression in the function around a line."""
    scope = enclosing_scope(line)
    lines = [node.lineno for node in _averages_in(scope) if ast.unparse(node) == text] if scope is not None else []
    return SourceLine(line.file, min(lines), line.function) if lines else None


def _numbers_in(name: str, value: object, depth: int = 0) -> Iterator[tuple[str, float]]:
    """Yield the numbers that a variable holds: itself, the last of a list, the values of a dictionary or an object."""
    kind = type(value)  # isinstance() would run the code of a proxy
    if issubclass(kind, (float, np.floating)):
        yield name, float(value)  # type: ignore[arg-type]
    elif kind is Tensor:
        if value.numel() == 1 and value.is_floating_point() and value.device.type == "cpu":  # type: ignore[attr-defined]
            yield name, float(value.detach())  # type: ignore[attr-defined]
    elif depth < _MAX_DEPTH and issubclass(kind, (list, tuple)):
        yield from _numbers_in(name, value[-1], depth + 1) if value else ()  # type: ignore[index]
    elif depth < _MAX_DEPTH and kind is dict:
        for key, item in [*value.items()][:_MAX_ITEMS]:  # type: ignore[attr-defined]
            yield from _numbers_in(f"{name}[{key!r}]", item, depth + 1)
    elif not depth and has_plain_attributes(value):
        for key, item in [*vars(value).items()][:_MAX_ITEMS]:
            yield from _numbers_in(f"{name}.{key}", item, depth + 1)


def has_plain_attributes(value: object) -> bool:
    """Check whether an object has attributes of its own and is no module, optimizer, class or function."""
    kind = type(value)
    return bool(kind.__dictoffset__) and not issubclass(kind, _OPAQUE_TYPES)


def _computed_numbers(frame: FrameType, variables: Mapping[str, Any]) -> Iterator[tuple[str, float]]:
    """Yield the text and value of each quotient or mean in the code of a frame that its variables determine."""
    scope = enclosing_scope(SourceLine(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name))
    evaluation = _Evaluation(variables, frame.f_globals)
    for node in _averages_in(scope) if scope is not None else ():
        try:
            number = float(evaluation.value(node))
        except (_Unknown, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            continue
        yield ast.unparse(node), number


def _averages_in(scope: ast.AST) -> Iterator[ast.expr]:
    """Yield the quotients, and the calls that return a mean, of a function."""
    for node in ast.walk(scope):
        is_quotient = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if is_quotient or (isinstance(node, ast.Call) and call_name(node) in ("mean", "fmean", "average")):
            yield node  # type: ignore[misc]


class _Unknown(Exception):
    """The value of an expression is not known without running the user's code."""


_OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
_REDUCTIONS: dict[str, Callable[[Any], Any]] = {
    "sum": np.sum,
    "mean": np.mean,
    "fmean": np.mean,
    "average": np.mean,
    "cat": np.concatenate,
    "concatenate": np.concatenate,
    "stack": np.stack,
    **dict.fromkeys(("item", "float", "double", "cpu", "detach", "numpy", "tensor", "array"), np.asarray),
}
_LIBRARIES = ("torch", "numpy", "statistics")


@dataclass(frozen=True)
class _Evaluation:
    """Evaluates expressions of variables, arithmetic, lengths and reductions.

    Of the user's code, it runs nothing but the length of a data set.
    """

    variables: Mapping[str, Any]
    module_variables: Mapping[str, Any]

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression, with arrays in place of tensors; raise _Unknown for any other."""
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)](self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Call) and not node.keywords:
            return self.call(node)
        return _plain_value(self.stored(node))

    def stored(self, node: ast.expr) -> Any:
        """Return what a name or an attribute of an object holds."""
        if isinstance(node, ast.Name):
            owner = self.variables if node.id in self.variables else self.module_variables
            return owner[node.id]
        if isinstance(node, ast.Attribute):
            return vars(self.stored(node.value))[node.attr]
        raise _Unknown

    def call(self, node: ast.Call) -> Any:
        """Return the length or a reduction of a value, by a method or a function that is not the user's."""
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        subject = None if owner is None or self.is_library(owner) else owner
        name, arguments = call_name(node), [*node.args, *([subject] if subject else [])]
        if len(arguments) != 1 or (subject and node.args) or (owner is None and self.is_shadowed(name)):
            raise _Unknown
        if name == "len":
            return _length(self.stored(arguments[0]))
        reduction = sum if owner is None and name == "sum" else _REDUCTIONS[name]
        return reduction(self.value(arguments[0]))

    def is_library(self, owner: ast.expr) -> bool:
        """Check whether an expression is the name of a module of torch, NumPy or the standard library."""
        module = self.stored(owner) if isinstance(owner, ast.Name) else None
        return isinstance(module, ModuleType) and module.__name__ in _LIBRARIES

    def is_shadowed(self, name: str) -> bool:
        """Check whether a name of a built-in function is one of the user's variables."""
        return name in self.variables or name in self.module_variables


def _plain_value(value: Any) -> Any:
    """Return a number, or an array for a tensor or a list of them; raise _Unknown for any other value."""
    kind = type(value)
    if issubclass(kind, (bool, int, float, np.number)):
        return value
    if kind is Tensor and value.device.type == "cpu" and not value.is_nested and value.numel() <= _MAX_VALUES:
        return value.detach().double().numpy()
    if kind is np.ndarray and value.size <= _MAX_VALUES:
        return value.astype(np.float64)
    if kind in (list, tuple) and 0 < len(value) <= _MAX_VALUES:
        items = [_plain_value(item) for item in value]
        if sum(map(np.size, items)) <= _MAX_VALUES:
            return items
    raise _Unknown


def _length(value: Any) -> int:
    if isinstance(value, (list, tuple, dict, Tensor, np.ndarray, DataLoader, Dataset)):
        return len(value)  # type: ignore[arg-type]
    raise _Unknown
