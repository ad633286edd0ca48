"""The shapes from the batch to the operation that raised, module by module."""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.tracing import get_call_name
from nbdebug.crashes.crash import Crash, describe_tensor
from nbdebug.crashes.evaluation import UNKNOWN, Evaluator
from nbdebug.crashes.inputs import assigned_value
from nbdebug.crashes.meta import copy_model
from nbdebug.crashes.model_copies import ModelCall, find_model_call
from nbdebug.tensors.pytree import tree_tensors
from nbdebug.views.shape_graph import ShapeTrace, TraceRow

_MAX_TENSORS, _MAX_OPERANDS, _MAX_ROWS = 4, 6, 200


def trace_shapes(crash: Crash) -> ShapeTrace:
    """Return the calls of the model's parts in order, up to the one that raised; empty if they are unknown.

    They come from one forward pass of a copy on the meta device, which computes no values; if that pass ends elsewhere
    than the model did, from the frames.
    """
    try:
        call = find_model_call(crash) or _call_before(crash)
        rows = _trace_copy(call, crash) if call is not None else []
        return _shorten(rows or _trace_frames(crash), _names_not_reached(call, rows))
    except Exception:
        return ShapeTrace()


class _ShapeRecorder(TorchFunctionMode):
    """Records the calls of the modules of a copy, and the operations in the code of those that are not torch's."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.rows: list[TraceRow] = []
        self.open_rows: list[int] = []
        self._paths = {module: path for path, module in model.named_modules()}
        self._open_modules: list[nn.Module] = []
        self._makers: dict[int, int] = {}  # the row that made a tensor, by the id of the tensor
        self._tensors: list[Tensor] = []  # which keep their ids as long as this object lives
        for module in self._paths:
            module.register_forward_pre_hook(self._enter, with_kwargs=True)
            module.register_forward_hook(self._leave, with_kwargs=True)

    def _enter(self, module: nn.Module, args: Any, kwargs: Any) -> None:
        self._begin(self._paths[module], type(module).__name__, (args, kwargs))
        self._open_modules.append(module)
        if len(self.rows) == 1:
            self._remember((args, kwargs), 0)

    def _leave(self, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        while self._open_modules.pop() is not module:  # a call that raised, which the model caught
            self.open_rows.pop()
        self._end(self.open_rows.pop(), output)

    def _begin(self, path: str, kind: str, inputs: Any, *, is_operation: bool = False) -> int:
        makers = {self._makers.get(id(tensor)) for tensor in tree_tensors(inputs)}
        sources = tuple(sorted(maker for maker in makers if maker is not None))
        level = len(self._open_modules)
        self.rows.append(TraceRow(path, kind, _describe(inputs), "", "cut off", level, sources, "", is_operation))
        if not is_operation:
            self.open_rows.append(len(self.rows) - 1)
        return len(self.rows) - 1

    def _end(self, index: int, output: Any) -> None:
        self.rows[index] = replace(self.rows[index], outputs=_describe(output), status="ran")
        self._remember(output, index)

    def _remember(self, output: Any, index: int) -> None:
        """Record who made some tensors; a part of a call that made them first stays their maker."""
        for tensor in tree_tensors(output):
            self._tensors.append(tensor)
            if self._makers.get(id(tensor), -1) <= index:
                self._makers[id(tensor)] = index

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        inputs = (args, kwargs or {})
        if not self._open_modules or not _runs_own_code(self._open_modules[-1]) or not tree_tensors(inputs):
            return func(*args, **(kwargs or {}))
        path = self._paths[self._open_modules[-1]]
        position = len(self.rows)
        self._begin(path, get_call_name(func).rpartition(".")[2], inputs, is_operation=True)
        try:
            output = func(*args, **(kwargs or {}))
        except Exception:
            self.rows[position] = replace(self.rows[position], status="raised")
            raise
        if tree_tensors(output):
            self._end(position, output)
        else:  # a size or another number
            del self.rows[position]
        return output


def _runs_own_code(module: nn.Module) -> bool:
    """Return whether the operations of a module are steps that its user knows, rather than parts of one layer."""
    name = type(module).__module__
    return not name.startswith("torch.") or name == "torch.nn.modules.transformer"


def _trace_copy(call: ModelCall, crash: Crash) -> list[TraceRow]:
    """Return the rows of a pass of a copy on the meta device; empty if it does not end where the model did."""
    model = copy_model(call.model)
    recorder = _ShapeRecorder(model)
    try:
        with recorder:
            call.run(model)
    except Exception as error:
        if not recorder.open_rows or not _is_same_break(error, crash):
            return []
        rows = recorder.rows
        last = max((i for i, row in enumerate(rows) if row.status == "raised"), default=recorder.open_rows[-1])
        rows[last] = replace(rows[last], status="raised", operands=_describe_operands(crash))
        return rows
    return _cut_at_break(recorder.rows, crash)


def _is_same_break(error: Exception, crash: Crash) -> bool:
    """Return whether a copy raised where the model did; on the meta device, the message may read differently."""
    own = Crash(error).own
    is_elsewhere = own is not None and crash.own is not None and own.line != crash.own.line
    return type(error) is type(crash.error) and not is_elsewhere


def _cut_at_break(rows: list[TraceRow], crash: Crash) -> list[TraceRow]:
    """Return the rows of a complete pass up to what raised for its values, or with what raised after the pass."""
    operands = _describe_operands(crash)
    if find_model_call(crash) is None:
        kind = type(crash.layer).__name__ if crash.layer is not None else crash.operation or crash.phase
        inputs = _describe([value for _, value in crash.tensors])
        return [*rows, TraceRow("", kind, inputs, "", "raised", 1, (len(rows) - 1,), operands, is_operation=True)]
    end = _position_of_break(rows, crash)
    if end is None:
        return []
    around = ShapeTrace(tuple(rows)).parents[end]
    cut = [replace(row, outputs="", status="cut off") if i in around else row for i, row in enumerate(rows[:end])]
    return [*cut, replace(rows[end], outputs="", status="raised", operands=operands)]


def _position_of_break(rows: Sequence[TraceRow], crash: Crash) -> int | None:
    """Return the row of the call that raised, by its module, or by its operation; None unless it ran once."""
    path = crash.path(crash.layer)
    if path is not None:
        matches = [i for i, row in enumerate(rows) if row.path == path and not row.is_operation]
    else:
        path = crash.path(crash.modules[-1]) if crash.modules else None
        operations = [(i, row) for i, row in enumerate(rows) if row.is_operation and row.path == path]
        matches = [i for i, row in operations if row.kind == crash.operation]
    return matches[0] if len(matches) == 1 else None


def _call_before(crash: Crash) -> ModelCall | None:
    """Return the call of a model whose output is an operand of what raised, such as a loss, or led to it."""
    if crash.own is None:
        return None
    evaluator = Evaluator(crash.own)
    waiting: list[ast.AST] = list(crash.operand_nodes)
    seen: set[str] = set()
    while waiting:
        names = [node for node in ast.walk(waiting.pop(0)) if isinstance(node, ast.Name) and node.id not in seen]
        seen.update(node.id for node in names)
        values = [value for node in names if (value := assigned_value(crash, node)) is not None]
        calls = [part for value in values for part in ast.walk(value) if isinstance(part, ast.Call)]
        for call in calls:
            model = evaluator.value(call.func)
            arguments = [evaluator.value(argument) for argument in call.args]
            keywords = {str(keyword.arg): evaluator.value(keyword.value) for keyword in call.keywords}
            if isinstance(model, nn.Module) and not any(v is UNKNOWN for v in (*arguments, *keywords.values())):
                return ModelCall(model, tuple(arguments), keywords)
        waiting += values
    return None


def _trace_frames(crash: Crash) -> list[TraceRow]:
    """Return the modules on the stack with their arguments."""
    rows: list[TraceRow] = []
    for frame in crash.frames:
        owner = frame.variables.get("self")
        if frame.function == "_call_impl" and isinstance(owner, nn.Module):
            inputs = _describe((frame.variables.get("args"), frame.variables.get("kwargs")))
            sources = (0,) if rows else ()
            name = type(owner).__name__
            rows.append(TraceRow(crash.path(owner) or "", name, inputs, "", "cut off", len(rows), sources))
    last = [replace(row, status="raised", operands=_describe_operands(crash)) for row in rows[-1:]]
    return [*rows[:-1], *last]


def _describe_operands(crash: Crash) -> str:
    """Describe what met at the operation that raised: the arguments and parameters of a layer, or the operands."""
    layer = crash.layer
    if layer is not None:
        met = _arguments(crash, type(layer).forward, crash.layer_arguments)
        met += [(name, value) for name, value in layer.named_parameters(recurse=False) if not is_lazy(value)]
    else:
        met = [(crash.text(node), tensor) for node, tensor in crash.tensors]
        frame = next(iter(crash.torch_frames), None)  # the function of torch that the user called
        names = frame.code.co_varnames[: frame.code.co_argcount] if frame is not None else ()
        values = [(name, frame.variables.get(name)) for name in names] if frame is not None else []
        arguments = [(name, value) for name, value in values if isinstance(value, Tensor)]
        met = arguments if len(arguments) > len(met) else met
    return " · ".join(f"{name} {describe_tensor(tensor)}" for name, tensor in met[:_MAX_OPERANDS])


def _arguments(crash: Crash, function: Any, arguments: Sequence[Any]) -> list[tuple[str, Any]]:
    """Return the arguments of a method that are tensors, with the names of its parameters."""
    names = [*inspect.signature(function).parameters][1:]
    pairs = itertools.zip_longest(names[: len(arguments)], arguments, fillvalue="input")
    return [(name, tensor) for name, value in pairs for tensor in tree_tensors(value)]


def _names_not_reached(call: ModelCall | None, rows: Sequence[TraceRow]) -> tuple[str, ...]:
    """Return the outermost modules that the pass did not reach, in modules that it did not leave."""
    cut_off = {row.path for row in rows if row.status == "cut off"}
    reached = {row.path for row in rows}
    names: list[str] = []
    for path, module in call.model.named_modules() if call is not None else ():
        if isinstance(module, (nn.ModuleList, nn.ModuleDict)) and path.rpartition(".")[0] in cut_off:
            cut_off.add(path)  # a list has no forward pass
        elif path and path not in reached and path.rpartition(".")[0] in cut_off:
            names.append(path)
    return tuple(names)


def _shorten(rows: Sequence[TraceRow], not_reached: tuple[str, ...]) -> ShapeTrace:
    """Return the trace with at most 200 rows; what ran inside modules that ran is left out first."""
    trace = ShapeTrace(tuple(rows), not_reached)
    kept = trace.open_rows(_MAX_ROWS)
    position = {index: i for i, index in enumerate(kept)}
    sources = trace.visible_sources(kept)
    shortened = [replace(rows[i], sources=tuple(position[s] for s in sources[i])) for i in kept]
    return ShapeTrace(tuple(shortened), not_reached)


def _describe(tree: Any) -> str:
    tensors = tree_tensors(tree)
    texts = [describe_tensor(tensor) for tensor in tensors[:_MAX_TENSORS]]
    return ", ".join(texts) + (f", +{len(tensors) - _MAX_TENSORS}" if len(tensors) > _MAX_TENSORS else "")
