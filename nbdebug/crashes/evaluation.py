"""Evaluate an expression of the user from the variables of a frame, without running the user's code again.

Shapes are computed on the meta device: no values, no random numbers, no memory.
"""

from __future__ import annotations

import ast
import copy
import operator
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from nbdebug.crashes.frames import CrashFrame, Span, span_of
from nbdebug.crashes.meta import ChannelCheck, as_meta, copy_model, run_quietly
from nbdebug.source.search import call_arguments

UNKNOWN: Any = object()
NodeType = TypeVar("NodeType", bound=ast.AST)
_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
}
_TENSOR_ATTRIBUTES = {"shape", "dtype", "device", "T", "mT", "H", "ndim", "requires_grad", "is_leaf", "data", "grad"}
_IMPURE_METHODS = {"backward", "register_hook", "share_memory_", "numpy", "item", "tolist"}
_MOVING_METHODS = {"cpu", "cuda", "pin_memory"}
_PURE_BUILTINS = (len, int, float, tuple, list, max, min, sum, abs, range)
_MAX_DEPTH = 12


class Evaluator:
    """Evaluates expressions in a frame; a part that would run code of the user is UNKNOWN.

    ``names`` holds variables that have another value than in the frame, ``nodes`` the values of expressions by their
    place, and ``modules`` maps modules to those that stand for them. ``failure`` is the first exception of an
    operation of torch.
    """

    def __init__(
        self,
        frame: CrashFrame,
        names: Mapping[str, Any] = {},
        nodes: Mapping[Span, Any] = {},
        modules: Mapping[nn.Module, nn.Module] = {},
    ) -> None:
        self.frame, self.names, self.nodes, self.modules = frame, names, nodes, modules
        self.failure: Exception | None = None

    def value(self, node: ast.AST | None, depth: int = 0) -> Any:
        """Return the value of an expression, or UNKNOWN; a tensor that had to be computed is on the meta device."""
        if self.nodes and (span := span_of(node)) in self.nodes:
            return self.nodes[span]
        method = getattr(self, f"_{type(node).__name__.lower()}", None)
        if method is None or depth > _MAX_DEPTH:
            return UNKNOWN
        try:
            return method(node, depth + 1)
        except Exception:
            return UNKNOWN

    def _constant(self, node: ast.Constant, depth: int) -> Any:
        return node.value

    def _name(self, node: ast.Name, depth: int) -> Any:
        return self.names[node.id] if node.id in self.names else self.frame.lookup(node.id)

    def _run(self, function: Callable[..., Any], args: Any, keywords: Any) -> Any:
        """Return the result of an operation for meta tensors; UNKNOWN if it raises, which ``failure`` remembers."""
        try:
            return _run(function, args, keywords)
        except Exception as error:
            self.failure = self.failure or (None if is_of_meta_device(error) else error)
            return UNKNOWN

    def _starred(self, node: ast.Starred, depth: int) -> Any:
        return UNKNOWN

    def _tuple(self, node: ast.Tuple, depth: int) -> Any:
        return self._items(node, tuple, depth)

    def _list(self, node: ast.List, depth: int) -> Any:
        return self._items(node, list, depth)

    def _items(self, node: Any, kind: Callable[[Any], Any], depth: int) -> Any:
        values = [self.value(item, depth) for item in node.elts]
        return UNKNOWN if any(value is UNKNOWN for value in values) else kind(values)

    def _attribute(self, node: ast.Attribute, depth: int) -> Any:
        return _get_attribute(self.value(node.value, depth), node.attr)

    def _unaryop(self, node: ast.UnaryOp, depth: int) -> Any:
        value = self.value(node.operand, depth)
        if value is UNKNOWN or not isinstance(node.op, (ast.USub, ast.Invert)):
            return UNKNOWN
        return -as_meta(value) if isinstance(node.op, ast.USub) else ~as_meta(value)

    def _binop(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth), self.value(node.right, depth)
        function = _OPERATORS.get(type(node.op))
        if UNKNOWN in (left, right) or function is None or not all(map(_is_plain, (left, right))):
            return UNKNOWN
        return self._run(function, (left, right), {})

    def _subscript(self, node: ast.Subscript, depth: int) -> Any:
        owner, key = self.value(node.value, depth), self.value(node.slice, depth)
        if (
            owner is UNKNOWN
            or key is UNKNOWN
            or not isinstance(owner, (Tensor, tuple, list, dict, nn.ModuleList, nn.ModuleDict, nn.Sequential))
        ):
            return UNKNOWN
        is_meta = isinstance(owner, Tensor) and owner.is_meta
        return self._run(operator.getitem, (owner, key), {}) if is_meta else owner[key]

    def _slice(self, node: ast.Slice, depth: int) -> Any:
        parts = [self.value(part, depth) if part else None for part in (node.lower, node.upper, node.step)]
        return UNKNOWN if any(part is UNKNOWN for part in parts) else slice(*parts)

    def _call(self, node: ast.Call, depth: int) -> Any:
        args = [self.value(argument, depth) for argument in node.args]
        keywords = {keyword.arg: self.value(keyword.value, depth) for keyword in node.keywords}
        if any(value is UNKNOWN for value in (*args, *keywords.values())) or None in keywords:
            return UNKNOWN
        named = {str(name): value for name, value in keywords.items()}
        if isinstance(node.func, ast.Attribute):
            owner = self.value(node.func.value, depth)
            if isinstance(owner, Tensor):
                return self._call_method(owner, node.func.attr, args, named)
        function = self.value(node.func, depth)
        if isinstance(function, nn.Module):
            return self._run(lambda *a, **k: run_quietly(copy_model(function, self.modules), a, k), args, named)
        if function in _PURE_BUILTINS:
            return function(*args, **named)
        if _is_torch_function(function) and any(isinstance(value, Tensor) for value in _leaves((args, named))):
            return self._run(function, args, named)
        return UNKNOWN

    def _call_method(self, owner: Tensor, name: str, args: list[Any], keywords: dict[str, Any]) -> Any:
        if name in _MOVING_METHODS and not args:
            return as_meta(owner)
        if name in _IMPURE_METHODS or name.endswith("_") or name.startswith("_"):
            return UNKNOWN
        return self._run(getattr(as_meta(owner), name), args, keywords)


def _get_attribute(owner: Any, name: str) -> Any:
    """Return an attribute that can be read without running code of the user; else UNKNOWN."""
    if owner is UNKNOWN:
        return UNKNOWN
    if isinstance(owner, Tensor):
        return getattr(owner, name) if name in _TENSOR_ATTRIBUTES else UNKNOWN
    if isinstance(owner, nn.Module):
        for store in (owner._parameters, owner._buffers, owner._modules, vars(owner)):
            if name in store:
                return store[name]
        return UNKNOWN
    if isinstance(owner, type(torch)):
        return getattr(owner, name)
    attributes = getattr(owner, "__dict__", {})
    return attributes.get(name, UNKNOWN)


def _is_plain(value: Any) -> bool:
    return isinstance(value, (Tensor, int, float))


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for part in value.values() for leaf in _leaves(part)]
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in _leaves(part)]
    return [value]


def _is_torch_function(function: Any) -> bool:
    """Return whether a function computes tensors, and is torch's own."""
    name = str(getattr(function, "__name__", "_"))
    module = str(getattr(function, "__module__", None) or "")
    if module.startswith(("torch.autograd", "torch.optim", "torch.serialization", "torch.utils")):
        return False  # no function of shapes
    is_own = module.split(".")[0] == "torch" or getattr(torch, name, None) is function
    return callable(function) and not isinstance(function, type) and is_own and not name.endswith("_")


class _MoveRemover(ast.NodeTransformer):
    """Replaces a call that moves a tensor or a module to a device by what it moves."""

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        is_move = isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda")
        values = call_arguments(node)
        is_cast = any(isinstance(value, ast.Attribute) and value.attr != "device" for value in values)  # torch.float16
        return node.func.value if is_move and not is_cast and isinstance(node.func, ast.Attribute) else node


def without_moves(node: NodeType) -> NodeType:
    """Return a copy of a node, with the places of its parts, in which nothing is moved to a device."""
    result: NodeType = _MoveRemover().visit(copy.deepcopy(node))
    return result


def is_of_meta_device(error: BaseException) -> bool:
    """Return whether an operation cannot run on the meta device, or met a tensor of another device there."""
    text = str(error).lower()
    return isinstance(error, NotImplementedError) or "meta" in text or "device" in text


def run_on_meta(function: Callable[..., Any], args: Any, keywords: Any) -> Any:
    """Return the result of a function of torch for meta tensors; UNKNOWN if it raises."""
    try:
        return _run(function, args, keywords)
    except Exception:
        return UNKNOWN


def _run(function: Callable[..., Any], args: Any, keywords: Any) -> Any:
    state = torch.get_rng_state()
    try:
        with torch.no_grad(), torch._C.DisableTorchFunctionSubclass(), ChannelCheck():
            return function(*as_meta(args), **as_meta(keywords))
    finally:
        torch.set_rng_state(state)
