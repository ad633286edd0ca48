"""The record of a crash: phase, line, module, operation and operands, read from the frames of a traceback."""

from __future__ import annotations

import ast
import linecache
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils.data import DataLoader

from nbdebug.crashes.evaluation import UNKNOWN, Evaluator, without_moves
from nbdebug.crashes.frames import CrashFrame, crash_frames
from nbdebug.setup import Batch, Setup
from nbdebug.source.edits import node_text
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_arguments, call_name
from nbdebug.tensors.pytree import tree_tensors

_PHASES = (
    ("optim/lr_scheduler", "scheduler step"),
    ("optim/", "optimizer step"),
    ("amp/", "optimizer step"),
    ("utils/data/", "data loading"),
    ("autograd/", "backward pass"),
    ("nn/modules/loss", "loss"),
)
_OPERATOR_NAMES = {
    **{ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.MatMult: "matmul", ast.Pow: "pow"},
    **{ast.FloorDiv: "floor_divide", ast.Mod: "remainder"},
}


class Crash:
    """What an exception tells about the operation that raised it; holds the frames, so keep none longer than needed.

    ``own`` is the innermost frame of the user, ``inner`` the innermost of all. ``edited_files`` are those whose source
    has changed since it was read before, so that it may not be what ran. ``setup`` and ``batch`` are what a
    checkup ran when the exception was raised.
    """

    def __init__(self, error: BaseException, setup: Setup | None = None, batch: Batch | None = None) -> None:
        self.error, self.setup, self.batch = error, setup, batch
        self.is_explained = False  # by a rule
        self.repetition = ""  # of the step, if this is its exception and not that of the user's step
        self.frames = crash_frames(error)
        self.inner = self.frames[-1]
        self.own = next((frame for frame in reversed(self.frames) if frame.is_user), None)
        self.edited_files = _refresh_sources({frame.file for frame in self.frames if frame.is_user})

    @property
    def message(self) -> str:
        """The message of the exception."""
        return str(self.error)

    @property
    def kind(self) -> str:
        """The name of the class of the exception."""
        return type(self.error).__name__

    @cached_property
    def torch_frames(self) -> list[CrashFrame]:
        """The frames of torch inside the user's innermost frame, outermost first."""
        position = self.frames.index(self.own) if self.own else -1
        return [frame for frame in self.frames[position + 1 :] if frame.is_torch]

    @cached_property
    def phase(self) -> str:
        """The part of a training step that raised."""
        if any(frame.function == "load_state_dict" for frame in self.torch_frames):
            return "load_state_dict"
        for part, phase in _PHASES:
            if any(frame.is_in(part) for frame in self.frames):
                return phase
        if any(frame.function == "backward" and frame.is_torch for frame in self.torch_frames):
            return "backward pass"
        return "forward pass" if self.root is not None else "program"

    @property
    def node(self) -> ast.AST | None:
        """The expression of the user that raised."""
        return self.own.node if self.own else None

    @property
    def call(self) -> ast.Call | None:
        """The call of the user that raised."""
        return self.node if isinstance(self.node, ast.Call) else None

    @cached_property
    def operation(self) -> str:
        """The name of the operation in the user's expression, such as ``matmul`` or ``view``; "" if unknown."""
        node = self.node
        if isinstance(node, ast.Call):
            return call_name(node)
        if isinstance(node, (ast.BinOp, ast.AugAssign)):
            return _OPERATOR_NAMES.get(type(node.op), "")
        return "index" if isinstance(node, ast.Subscript) else ""

    def value(self, node: ast.AST | None) -> Any:
        """Return the value of an expression in the user's innermost frame, or UNKNOWN."""
        if self.own is None or node is None:
            return UNKNOWN
        return Evaluator(self.own).value(without_moves(node) if self.repetition else node)

    def text(self, node: ast.AST) -> str:
        """Return the source of an expression in the user's innermost frame."""
        return " ".join(node_text(self.own.file, node).split()) if self.own else ast.unparse(node)

    def local(self, name: str, *, function: str | None = None) -> Any:
        """Return a variable of the innermost frame of torch that has it (of a function, if named); else UNKNOWN."""
        for frame in reversed(self.torch_frames):
            if name in frame.variables and function in (None, frame.function):
                return frame.variables[name]
        return UNKNOWN

    def has_torch_function(self, *names: str) -> bool:
        """Return whether a function of torch with one of some names is among the frames."""
        return any(frame.function in names for frame in self.torch_frames)

    @cached_property
    def operands(self) -> list[tuple[ast.expr, Any]]:
        """The operands of the user's expression with their values; lists and tuples of them one by one."""
        return [(node, self.value(node)) for node in self.operand_nodes]

    @property
    def operand_nodes(self) -> list[ast.expr]:
        """The expressions of the operands."""
        node = self.node
        nodes: list[ast.expr] = []
        if isinstance(node, ast.BinOp):
            nodes = [node.left, node.right]
        elif isinstance(node, ast.AugAssign):
            nodes = [node.target, node.value]
        elif isinstance(node, ast.Compare):
            nodes = [node.left, *node.comparators]
        elif isinstance(node, ast.Subscript):
            nodes = [node.value, node.slice]
        elif isinstance(node, ast.Call):
            owner = node.func.value if isinstance(node.func, ast.Attribute) else None
            nodes = [owner] if owner is not None and not self._is_namespace(owner) else []
            nodes += call_arguments(node)
        return [part for node in nodes for part in (node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node])]

    def _is_namespace(self, node: ast.expr) -> bool:
        value = self.value(node)
        return isinstance(value, (type(torch), type, nn.Module)) and not isinstance(value, Tensor)

    @property
    def tensors(self) -> list[tuple[ast.expr, Tensor]]:
        """The operands that are tensors with a shape."""
        return [(node, value) for node, value in self.operands if isinstance(value, Tensor) and not is_lazy(value)]

    @cached_property
    def modules(self) -> list[nn.Module]:
        """The modules whose methods are on the stack, outermost first."""
        owners = [frame.variables.get("self") for frame in self.frames]
        modules = [owner for owner in owners if isinstance(owner, nn.Module)]
        return [module for index, module in enumerate(modules) if index == 0 or module is not modules[index - 1]]

    @cached_property
    def layer(self) -> nn.Module | None:
        """The module of torch that raised, if the user's innermost frame called one."""
        owners = [frame.variables.get("self") for frame in reversed(self.torch_frames)]
        return next((owner for owner in owners if isinstance(owner, nn.Module)), None)

    @cached_property
    def root(self) -> nn.Module | None:
        """The outermost module on the stack, unless the model is known."""
        if self.setup is not None:
            return self.setup.eager_model
        called = [module for module in self.modules if not _is_loss(module)]
        return next(iter(called or self.models), None)

    @cached_property
    def models(self) -> list[nn.Module]:
        """The modules that the user's frames hold in variables, or in attributes of ``self``."""
        values = [value for frame in self.user_frames() for value in frame.variables.values()]
        owners = [frame.variables.get("self") for frame in self.user_frames()]
        values += [value for owner in owners for value in getattr(owner, "__dict__", {}).values()]
        models = [value for value in values if isinstance(value, nn.Module) and not _is_loss(value)]
        return sorted(models, key=lambda model: -sum(1 for _ in model.parameters()))

    def path(self, module: nn.Module | None) -> str | None:
        """Return the path of a module in the model; None if it is in none."""
        root = self.root
        if module is None or root is None:
            return None
        return next((path for path, part in root.named_modules() if part is module), None)

    @property
    def layer_arguments(self) -> list[Any]:
        """The arguments of the layer that raised, keywords last; empty if they are unknown."""
        for frame in reversed(self.torch_frames):
            if frame.variables.get("self") is self.layer and frame.function == "_call_impl":
                return [*frame.variables.get("args", ()), *frame.variables.get("kwargs", {}).values()]
        return []

    @property
    def layer_input(self) -> Any:
        """The first argument of the layer that raised; UNKNOWN if there is none."""
        return next(iter(self.layer_arguments), UNKNOWN)

    @property
    def is_direct_layer_call(self) -> bool:
        """True if the user's expression itself calls the layer, with no container between them."""
        owners = [frame.variables.get("self") for frame in self.torch_frames]
        modules = [owner for owner in owners if isinstance(owner, nn.Module)]
        return bool(modules) and all(module is self.layer for module in modules)

    @property
    def input_node(self) -> ast.expr | None:
        """The user's expression of the first argument of the call."""
        call = self.call
        if call is None:
            return None
        return call.args[0] if call.args else next((keyword.value for keyword in call.keywords), None)

    def argument_node(self, name: str, position: int) -> ast.expr | None:
        """Return the user's expression of an argument of the call, by name or by position."""
        call = self.call
        if call is None or any(isinstance(argument, ast.Starred) for argument in call.args):
            return None
        named = next((keyword.value for keyword in call.keywords if keyword.arg == name), None)
        return named if named is not None else call.args[position] if position < len(call.args) else None

    def user_frames(self) -> Iterator[CrashFrame]:
        """Yield the frames of the user, innermost first."""
        return (frame for frame in reversed(self.frames) if frame.is_user)

    @property
    def line(self) -> SourceLine | None:
        """The user's line that raised."""
        return self.own.line if self.own else None

    @property
    def watched_step(self) -> int | None:
        """The step of the watched loop that raised; None outside of one."""
        values = [value for frame in self.user_frames() for value in frame.variables.values()]
        watches = [getattr(value, "watched", value) for value in values if _is_of_debugger(value)]
        return next((w.crashed_step for w in watches if getattr(w, "crash_id", None) == id(self.error)), None)

    @property
    def is_about_input(self) -> bool:
        """True if the operation that raised got an argument of the model as it is."""
        if self.batch is None:
            return True
        places = {t.data_ptr() for t in tree_tensors((self.batch.args, self.batch.kwargs)) if not t.is_meta}
        met = [*tree_tensors(self.layer_input), *(value for _, value in self.tensors)]
        return any(tensor.data_ptr() in places for tensor in met if not tensor.is_meta and not is_lazy(tensor))

    @property
    def unpacked(self) -> ast.expr | None:
        """The expression that the user's statement unpacks, or iterates over, if that raised; else None."""
        statement = self.own.statement if self.own else None
        if "unpack" not in self.message or not isinstance(statement, (ast.Assign, ast.For)):
            return None
        return statement.iter if isinstance(statement, ast.For) else statement.value

    @property
    def is_from_torch(self) -> bool:
        """True if the exception was raised by torch: in its Python code, or by an operation on tensors."""
        if isinstance(self.error, RecursionError):  # which says nothing of the operation at which it was raised
            return False
        if any(frame.is_torch for frame in self.frames[-3:]) or self.torch_frames:
            return True
        if self.own is not self.inner:
            return False
        called = self.value(self.call.func) if self.call is not None else UNKNOWN
        owner = self.value(self.call.func.value) if self.call and isinstance(self.call.func, ast.Attribute) else None
        if isinstance(self.node, ast.Attribute) and isinstance(self.node.ctx, ast.Store):
            return isinstance(self.value(self.node.value), Tensor)
        kinds = [called, called if isinstance(called, type) else type(called), type(owner)]
        if self.unpacked is not None:
            value = self.value(self.unpacked)
            return value is None or isinstance(value, DataLoader) or bool(tree_tensors(value))
        is_called = any(str(getattr(kind, "__module__", "")).split(".")[0] == "torch" for kind in kinds)
        return is_called or isinstance(called, nn.Module) or any(tree_tensors(value) for _, value in self.operands)


def _refresh_sources(files: set[str]) -> frozenset[str]:
    """Read the sources of some files again; return those that have changed since they were read before."""
    before = {file: linecache.getlines(file) if file in linecache.cache else [] for file in files}
    for file in files:
        linecache.checkcache(file)
    return frozenset(file for file in files if before[file] and linecache.getlines(file) != before[file])


def _is_loss(module: nn.Module) -> bool:
    return type(module).__module__ == "torch.nn.modules.loss"


def _is_of_debugger(value: Any) -> bool:
    return type(value).__module__.startswith("nbdebug.") and type(value).__name__ in ("Watch", "Debugger")


def read_crash(error: BaseException | None, setup: Setup | None = None, batch: Batch | None = None) -> Crash | None:
    """Return the record of an exception; None for one without a traceback, and for an interrupt.

    ``setup`` and ``batch`` are those that a checkup ran; a fix can then be tried on a whole step.
    """
    if not isinstance(error, Exception) or error.__traceback__ is None:
        return None
    return Crash(error, setup, batch)


def describe_tensor(tensor: Any) -> str:
    """Describe a tensor by dtype, shape and, unless it is the CPU, device."""
    if not isinstance(tensor, Tensor):
        return type(tensor).__name__
    place = "" if tensor.device.type in ("cpu", "meta") else f" on {tensor.device}"
    return f"{str(tensor.dtype).removeprefix('torch.')} {[*tensor.shape]}{place}"
