"""Run a forward pass with tracebacks, module spans and detach points, so that its graph can be read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any

import torch
import torch.fx.traceback as fx_traceback
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode, resolve_name

from nbdebug.autograd.graph import Graph, ModuleSpan, build_graph
from nbdebug.finding import Location
from nbdebug.source.assignments import find_decorator
from nbdebug.source.location import SourceLine, format_traceback_entry, get_line_from_frame, get_location
from nbdebug.tensors.memory import share_memory
from nbdebug.tensors.pytree import tree_tensors

REENTRANT_CHECKPOINT = "the reentrant checkpoint"
PYTHON_CONVERSIONS = {"item", "tolist", "numpy", "__float__", "__int__", "__array__", "__index__", "__complex__"}
INDICES_OF = "the indices of "  # a call that returns values with a gradient beside them

_DISABLING_NAMES = ("no_grad", "set_grad_enabled", "inference_mode")
_CONVERSION_CALLS = {name.strip("_") for name in PYTHON_CONVERSIONS}
_OPERATORS = {
    **{"getitem": "indexing", "setitem": "assignment to an index", "add": "addition", "sub": "subtraction"},
    **{"mul": "multiplication", "div": "division", "truediv": "division", "floordiv": "division", "pow": "power"},
    **{"matmul": "matrix product", "neg": "negation", "invert": "negation", "mod": "remainder"},
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), "comparison"),
    **dict.fromkeys(("and", "or", "xor"), "logical operation"),
}
_SEQUENCE_PROBE = torch.empty(0, requires_grad=True)


@dataclass
class ModuleStack:
    """The paths of the running submodules, the innermost last."""

    paths: list[str] = field(default_factory=list)

    @property
    def innermost(self) -> str | None:
        """The path of the innermost running submodule, empty for the model itself; None outside it."""
        return self.paths[-1] if self.paths else None

    def enter(self, path: str) -> None:
        """Record that a submodule starts to run."""
        self.paths.append(path)

    def leave(self) -> None:
        """Record that the innermost submodule has finished."""
        if self.paths:  # a hook of the user's may have raised before ``enter`` ran
            self.paths.pop()

    @contextmanager
    def track(self, model: nn.Module) -> Iterator[None]:
        """Track the submodules of ``model`` in a block, by hooks that are removed afterwards."""
        modules = ((p, m) for p, m in model.named_modules() if not isinstance(m, torch.jit.ScriptModule))
        handles = []
        for path, module in modules:
            handles.append(module.register_forward_pre_hook(lambda *_, path=path: self.enter(path)))
            handles.append(module.register_forward_hook(lambda *_: self.leave(), always_call=True))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


@contextmanager
def record_user_lines() -> Iterator[None]:
    """Store the user's line of each operation in a block.

    Anomaly mode takes the stack from torch.fx.traceback.format_stack, which reads the source of every frame; this took
    half the time of a traced pass through a small network.
    """
    anomaly, check = torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled()
    original = fx_traceback.format_stack
    fx_traceback.format_stack = _format_user_line
    torch.autograd.set_detect_anomaly(True, check_nan=False)
    try:
        yield
    finally:
        torch.autograd.set_detect_anomaly(anomaly, check)
        fx_traceback.format_stack = original


def _format_user_line() -> list[str]:
    """Return the user's line on the current stack in the format of a traceback; empty if there is none."""
    line = get_line_from_frame(sys._getframe(1))
    return [format_traceback_entry(line)] if line else []


def _find_disabling_line(func: Callable[..., Any], args: tuple[Any, ...], frame: FrameType | None) -> SourceLine | None:
    """Return the user's line if a torch call that is about to run disables gradients; None otherwise."""
    if getattr(func, "__name__", "") != "_set_grad_enabled" or args != (False,) or not torch.is_grad_enabled():
        return None
    while frame is not None and frame.f_globals.get("__name__", "").startswith("torch."):
        if frame.f_code.co_name == "__exit__":
            return None
        decorated = getattr(frame.f_locals.get("func"), "__code__", None)
        if frame.f_code.co_name == "decorate_context" and isinstance(decorated, CodeType):
            return find_decorator(decorated, _DISABLING_NAMES)
        frame = frame.f_back
    return get_line_from_frame(frame)


@dataclass(frozen=True)
class DetachPoint:
    """One call after which no gradient flows: its name, the graph it detached from, and its location.

    ``output`` is the tensor it returned, kept only as long as the trace. ``conversion`` is the call that then read its
    values into Python or NumPy, if any, unless torch computes with the tensor as well.
    """

    call: str
    detached: tuple[Any, ...]
    line: SourceLine | None
    module: str | None
    output: Any
    conversion: str = ""
    stays_in_torch: bool = False

    def leaves(self) -> list[Tensor]:
        """Return the leaf tensors that get no gradient because of this call."""
        leaf_tensors: list[Tensor] = []
        for detached in self.detached:
            leaf_tensors += [detached] if isinstance(detached, Tensor) else build_graph(detached, []).leaves
        return leaf_tensors

    @property
    def cause(self) -> str:
        """The call to remove: this one, or what disabled gradients around it."""
        return "no_grad" if self.call.endswith("under no_grad") else self.call

    @property
    def python_conversion(self) -> str:
        """The call that takes the values out of torch: this one, or one on its result; empty if there is none."""
        name = self.conversion or (self.call if self.call in _CONVERSION_CALLS else "")
        return "numpy.asarray" if name == "array" else name

    @property
    def where(self) -> Location:
        """The location of this call."""
        return get_location(self.line, self.module)


def _checkpoint_line(frame: FrameType | None) -> SourceLine | None:
    """Return the user's line of the innermost reentrant checkpoint on a stack, which runs its pass without a graph."""
    while frame is not None:
        if frame.f_globals.get("__name__") == "torch.utils.checkpoint" and frame.f_code.co_name == "checkpoint":
            return get_line_from_frame(frame)
        frame = frame.f_back
    return None


class DetachRecorder(TorchFunctionMode):
    """Records every detaching call while active, with the current submodule."""

    def __init__(self, stack: ModuleStack) -> None:
        super().__init__()
        self._stack = stack
        self.detach_points: list[DetachPoint] = []
        self.created_leaves: dict[int, tuple[Tensor, SourceLine | None]] = {}
        self._disabled_at: SourceLine | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        frame, inputs = sys._getframe(1), tree_tensors((args, kwargs or {}))
        before = self.on_call(func, args, inputs, frame)
        result = func(*args, **(kwargs or {}))
        self.on_result(func, inputs, before, result, frame)
        return result

    def on_call(
        self, func: Any, args: tuple[Any, ...], inputs: list[Tensor], frame: FrameType | None
    ) -> dict[int, Any]:
        """Return the origins of the inputs with a gradient of a call that is about to run, by their identity."""
        self._disabled_at = _find_disabling_line(func, args, frame) or self._disabled_at
        return {id(t): t if t.grad_fn is None else t.grad_fn for t in inputs if t.requires_grad}

    def on_result(
        self, func: Any, inputs: list[Tensor], before: dict[int, Any], result: Any, frame: FrameType | None
    ) -> None:
        """Record a call that has returned, if it detaches; ``before`` is what ``on_call`` has returned."""
        after = tree_tensors(result)
        results = inputs[:1] if getattr(func, "__name__", "") == "__set__" else after
        created = [t for t in results if t.requires_grad and t.is_leaf and id(t) not in before]
        self.created_leaves.update({id(t): (t, get_line_from_frame(frame)) for t in created})
        flows = any(t.requires_grad and (not t.is_leaf or id(t) in before) for t in after)
        indices = [t for t in after if not (t.requires_grad or t.is_floating_point() or t.is_complex())]
        if before and not flows and (after or getattr(func, "__name__", "") in PYTHON_CONVERSIONS):
            if not _takes_shape_only(func):
                self._record(func, before, result, frame)
        elif before and indices and torch.is_grad_enabled():
            self._record(func, before, indices[0], frame, INDICES_OF)
        elif not before and self.detach_points:
            self._follow_detached(func, inputs, after)

    def _follow_detached(self, func: Any, inputs: list[Tensor], outputs: list[Tensor]) -> None:
        """Record what is done with a detached tensor: torch computes with it, or its values leave torch."""
        is_conversion = getattr(func, "__name__", "") in PYTHON_CONVERSIONS
        for position, cut in enumerate(self.detach_points):
            if not isinstance(cut.output, Tensor) or not any(share_memory(cut.output, tensor) for tensor in inputs):
                continue
            if is_conversion and not cut.stays_in_torch:
                self.detach_points[position] = replace(cut, conversion=cut.conversion or get_call_name(func))
            elif any(not share_memory(cut.output, tensor) for tensor in outputs):
                self.detach_points[position] = replace(cut, conversion="", stays_in_torch=True)

    def _record(
        self, func: Any, before: dict[int, Any], result: Any, frame: FrameType | None, prefix: str = ""
    ) -> None:
        """Record one detaching call and the graph it detached from."""
        line, name = None, prefix + get_call_name(func)
        if not torch.is_grad_enabled():
            checkpoint_line = None if self._disabled_at else _checkpoint_line(frame)
            line = self._disabled_at or checkpoint_line
            name = REENTRANT_CHECKPOINT if checkpoint_line else f"{name} under no_grad"
        detached, line = tuple(before.values()), line or get_line_from_frame(frame)
        self.detach_points.append(DetachPoint(name, detached, line, self._stack.innermost, result))


def _takes_shape_only(func: Any) -> bool:
    """Return whether a call creates a tensor of the shape of another one, whatever its values are."""
    name = getattr(func, "__name__", "")
    return name.endswith("_like") or name.startswith("new_")


def get_call_name(func: Any) -> str:
    """Return the call as a user would write it, such as ``detach`` or ``torch.argmax``."""
    name = getattr(func, "__name__", "call")
    if name == "__get__":
        return str(getattr(getattr(func, "__self__", None), "__name__", "data"))
    return (resolve_name(func) or name).removeprefix("torch.Tensor.").strip("_")


def describe_call(name: str, *, starts_sentence: bool = False) -> str:
    """Return the recorded name of a call in words: an operator as what it does, such as "the addition"."""
    noun = next((_OPERATORS[part] for part in (name, name[1:]) if part in _OPERATORS), "")
    if not noun or (name not in _OPERATORS and name[:1] not in ("r", "i")):  # radd and iadd are additions too
        return name
    return f"{'The' if starts_sentence else 'the'} {noun}"


@dataclass
class ForwardTrace(ModuleStack):
    """The record of a block of ``trace_forward``.

    ``call_counts`` counts the calls of each submodule by path. ``created_leaves`` maps the id of each leaf tensor
    created in the block with `requires_grad` to that tensor and the user's line.
    """

    spans: list[ModuleSpan] = field(default_factory=list)
    call_counts: dict[str, int] = field(default_factory=dict)
    detach_points: list[DetachPoint] = field(default_factory=list)
    created_leaves: dict[int, tuple[Tensor, SourceLine | None]] = field(default_factory=dict)
    _graphs: dict[Any, Graph] = field(default_factory=dict)

    def get_graph(self, tensor: Tensor) -> Graph:
        """Return the graph of a tensor created in the block; it is built once."""
        function = tensor.grad_fn
        if function not in self._graphs:
            self._graphs[function] = build_graph(function, self.spans)
        return self._graphs[function]

    def enter(self, path: str) -> None:
        """Record that a submodule starts to run."""
        super().enter(path)
        self.call_counts[path] = self.call_counts.get(path, 0) + 1
        self._record_span()

    def leave(self) -> None:
        """Record that the innermost submodule has finished."""
        super().leave()
        self._record_span()

    def _record_span(self) -> None:
        """Record the operation from which the innermost submodule is the running one."""
        number = _get_next_sequence_number()
        if number is not None:
            self.spans.append((number, self.innermost or ""))


def _get_next_sequence_number() -> int | None:
    """Return the sequence number of the next operation in this thread; None if unavailable."""
    with torch._C.DisableTorchFunction(), torch.enable_grad(), torch.autograd.set_detect_anomaly(False):
        function = _SEQUENCE_PROBE.view(0).grad_fn
    get_number = getattr(function, "_sequence_nr", None)
    return int(get_number()) + 1 if get_number is not None else None


@contextmanager
def trace_forward(model: nn.Module) -> Iterator[ForwardTrace]:
    """Record tracebacks, module spans and detach points of ``model`` in a block; then remove hooks and modes."""
    trace = ForwardTrace()
    recorder = DetachRecorder(trace)
    trace.detach_points, trace.created_leaves = recorder.detach_points, recorder.created_leaves
    with trace.track(model), record_user_lines(), torch.enable_grad(), recorder:
        yield trace
