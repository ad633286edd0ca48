"""Find an argument of a user's module that does not affect its output, and the attention that should read it."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.autograd.attention_calls import VIEW_CALLS, CallGraph
from nbdebug.autograd.call_recorders import RECURRENT_CALLS, TorchCall
from nbdebug.hooks.module_hooks import hooked
from nbdebug.measurements.attention_pass import few_samples
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.sequence_order import replace_values
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup
from nbdebug.source.location import SourceLine, is_library_code
from nbdebug.tensors.pytree import tree_tensors


@dataclass(frozen=True)
class UnreadArgument:
    """An argument of the module at a path whose values have no effect on what the module returns.

    ``own_attention`` is the last attention in the module that makes its queries and keys of one tensor as wide as the
    argument, at the line that makes the keys: in a decoder, the one that should read the argument. ``stateless_call``
    is the only call of a recurrent layer or cell in the module that starts from a state of zeros as large as the
    argument.
    """

    module: str
    name: str
    own_attention: TorchCall | None
    stateless_call: TorchCall | None = None

    @property
    def reader(self) -> TorchCall | None:
        """The call that should read the argument; None if it is not known."""
        return self.own_attention or self.stateless_call

    def find_line(self, model: nn.Module) -> SourceLine | None:
        """Return the line that should read the argument, else the one that defines the forward method."""
        line = self.reader.line if self.reader else None
        return line or forward_line(model.get_submodule(self.module))

    def describe_cause(self) -> str:
        """Say who does not use the argument."""
        if self.own_attention is None:
            start = "The recurrent layer in this line starts from a state of zeros. " if self.stateless_call else ""
            return f"{start}{self.module} receives {self.name!r}, and its output does not depend on it."
        return (
            f"The attention in this line makes its queries and its keys from the same tensor. {self.module} receives "
            f"{self.name!r}, and its output does not depend on it."
        )

    def describe_fix(self) -> str:
        """Say what should use the argument."""
        if self.own_attention is None and self.stateless_call is not None:
            return f"Pass {self.name} to this layer as its first state, if it should start from {self.name}."
        if self.own_attention is None:
            return f"Use {self.name} in the forward method of {self.module}."
        return f"Pass {self.name} to this attention as key and value, if it should read {self.name}."


@dataclass(frozen=True)
class _ModuleCall:
    arguments: dict[str, list[Tensor]]
    outputs: list[Tensor]


_CallsByPath = dict[str, _ModuleCall]


def unread_argument_of_inputs(answers: EvalOutputs, names: Sequence[str]) -> UnreadArgument | None:
    """Return the innermost argument that depends on some inputs of the model and has no effect; None without any."""
    few = few_samples(answers)
    inputs = few.inputs
    tensors = [inputs[name] for name in names]
    changed = few.transform_inputs(lambda t: replace_values(t) if any(t is other for other in tensors) else t)
    return _find_unread(few, changed, nullcontext())


def unread_argument_of_parameters(setup: Setup, batch: Batch, parameters: Sequence[Tensor]) -> UnreadArgument | None:
    """Return the innermost argument that depends on some parameters and has no effect; None without any."""
    few = few_samples(EvalOutputs(setup, batch))
    return _find_unread(few, few.batch, _other_values(setup.eager_model, parameters))


@contextmanager
def _other_values(model: nn.Module, parameters: Sequence[Tensor]) -> Iterator[None]:
    with Preserve(model):
        generator = torch.Generator().manual_seed(0)
        with torch.no_grad():
            for parameter in parameters:
                parameter.add_(torch.randn(parameter.shape, generator=generator).to(parameter))
        yield


def _find_unread(
    answers: EvalOutputs, changed: Batch, changes: AbstractContextManager[object]
) -> UnreadArgument | None:
    """Compare a pass with one of a changed batch or a changed model; None if the model raises for either."""
    try:
        before = _record_modules(answers, answers.batch)
        with changes:
            after = _record_modules(answers, changed)
        unread = [
            (path, name)
            for path, call in before.items()
            if call.outputs and path in after and _are_equal(call.outputs, after[path].outputs)
            for name, tensors in call.arguments.items()
            if not _are_equal(tensors, after[path].arguments.get(name, []))
        ]
        if not unread:
            return None
        path, name = max(unread, key=lambda pair: pair[0].count("."))
        values = [t for t in before[path].arguments[name] if t.is_floating_point() and t.dim()]
        inside = _calls_inside(answers, path)
        attention = _own_attention(inside, {t.shape[-1] for t in values})
        return UnreadArgument(path, name, attention, None if attention else _stateless_call(inside, values))
    except Exception:
        return None


def _record_modules(answers: EvalOutputs, batch: Batch) -> _CallsByPath:
    """Return the first call of each of the user's modules in a pass, without the model's own, by path."""
    calls: _CallsByPath = {}
    hooks = {
        module: partial(_record_call, path, calls)
        for path, module in answers.setup.eager_model.named_modules()
        if path and _is_user_module(module)
    }
    with hooked(hooks, with_kwargs=True):
        answers.predict(batch)
    return calls


def _record_call(path: str, calls: _CallsByPath, module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
    arguments = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    copies = {name: _copy_tensors(value) for name, value in arguments.items()}
    calls.setdefault(path, _ModuleCall(copies, _copy_tensors(output)))


def forward_line(module: nn.Module) -> SourceLine | None:
    """Return the line that defines the forward method of a module; None if the user did not write it."""
    code = getattr(inspect.unwrap(type(module).forward), "__code__", None)
    is_own = code is not None and not type(module).__module__.startswith("torch.")
    return SourceLine(code.co_filename, code.co_firstlineno) if code and is_own else None


def _copy_tensors(tree: Any) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tree_tensors(tree)]


def _is_user_module(module: nn.Module) -> bool:
    """Return whether the user wrote the forward method of a module."""
    forward = type(module).forward
    return isinstance(forward, FunctionType) and not is_library_code(forward.__code__.co_filename)


def _are_equal(before: list[Tensor], after: list[Tensor]) -> bool:
    return len(before) == len(after) and all(map(torch.equal, before, after))


def _calls_inside(answers: EvalOutputs, path: str) -> list[TorchCall]:
    """Return the torch calls of a pass in the module at a path."""
    calls = answers.recorded_calls(answers.batch)
    return [call for call in calls if f"{call.module}.".startswith(f"{path}.")]


def _stateless_call(inside: Sequence[TorchCall], values: Sequence[Tensor]) -> TorchCall | None:
    """Return the only recurrent call whose state is zero and has the axes of one of some tensors; None without one.

    Axes of length 1, such as that of the layers, do not count. A cell in a loop has this state in its first call only.
    """
    sizes = {_long_axes(t) for t in values}
    calls = [
        call
        for call in inside
        if call.name in RECURRENT_CALLS
        and len(call.inputs) > 1
        and _long_axes(call.inputs[1]) in sizes
        and not bool(call.inputs[1].any())
    ]
    return calls[0] if len({call.line for call in calls}) == 1 else None


def _long_axes(tensor: Tensor) -> tuple[int, ...]:
    return tuple(length for length in tensor.shape if length != 1)


def _own_attention(inside: list[TorchCall], widths: set[int]) -> TorchCall | None:
    """Return the last of some calls that makes keys of the tensor of the queries, if that has one of some widths."""
    readings = [call for call in inside if _is_own_attention_of_torch(call)]
    graph = CallGraph(inside)
    for attention in graph.find_attentions():
        query, key = _layer_call(graph, attention.query), _layer_call(graph, attention.key)
        if query and key and query.inputs[0] is key.inputs[0]:
            readings.append(key)
    fitting = [call for call in readings if call.inputs[0].shape[-1] in widths]
    return fitting[-1] if fitting else None


def _is_own_attention_of_torch(call: TorchCall) -> bool:
    return call.name == "multi_head_attention_forward" and call.args[0] is call.args[1]


def _layer_call(graph: CallGraph, tensor: Tensor) -> TorchCall | None:
    """Return the call of the layer that makes a tensor, through views."""
    calls = (call for _, call in graph.sources(tensor, VIEW_CALLS))
    return next((call for call in calls if any(isinstance(t, nn.Parameter) for t in call.inputs)), None)
