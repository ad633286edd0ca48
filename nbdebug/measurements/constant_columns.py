"""Columns of the input of a layer that are a constant, because ``cat`` joins a new tensor of zeros to other values."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch._C import _functorch as functorch

from nbdebug.autograd.call_recorders import CONVOLUTION_CALLS, TorchCall, record_calls
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve
from nbdebug.source.location import SourceLine

_JOINING_CALLS = frozenset({"cat", "concat", "concatenate"})
_LIKE_CALLS = frozenset({"zeros_like", "ones_like", "full_like"})
_CREATING_CALLS = _LIKE_CALLS | {"zeros", "ones", "full", "new_zeros", "new_ones", "new_full"}
_VIEW_CALLS = frozenset({"to", "expand", "expand_as", "view", "reshape", "unsqueeze", "repeat"})
_MIN_WIDTH = 2  # a single column of ones stands for a bias


@dataclass(frozen=True)
class ConstantColumns:
    """``count`` of ``width`` columns that a layer gets are ``value`` in all samples; ``call`` joins them.

    ``weight`` is the name of the layer's weight. ``replaces_values`` is True if the constant has the shape of another
    tensor, which is not joined: that tensor may be meant.
    """

    call: TorchCall
    weight: str
    count: int
    width: int
    value: float
    replaces_values: bool


@dataclass(frozen=True)
class _JoinedConstant:
    call: TorchCall
    start: int
    stop: int
    value: float
    replaces_values: bool

    @property
    def place(self) -> tuple[SourceLine | None, str | None, int, int]:
        """What is the same in each pass."""
        return self.call.line, self.call.module, self.start, self.stop


@slow_measurement
def constant_columns(eval_outputs: EvalOutputs) -> ConstantColumns | None:
    """Columns that a layer gets as a constant in eval mode and in two passes in train mode; None if there are none.

    A new tensor without a value of its own counts, unless it is changed in place or the module has an optional
    argument: an optional condition and the first state of a recurrent layer are zeros. All calls of the layer get the
    constant.
    """
    if not (eval_outputs.called_functions & _JOINING_CALLS and eval_outputs.called_functions & _CREATING_CALLS):
        return None
    model, constants = eval_outputs.setup.eager_model, _record_constants(eval_outputs, training=False)
    with Preserve(model):
        for _ in range(2 if constants else 0):
            places = {(constant.place, name) for constant, name, _ in _record_constants(eval_outputs, training=True)}
            constants = [item for item in constants if (item[0].place, item[1]) in places]
    for constant, name, width in constants:
        modules = {model, model.get_submodule(constant.call.module or "")}
        if not any(map(_has_optional_argument, modules)):
            count = constant.stop - constant.start
            return ConstantColumns(constant.call, name, count, width, constant.value, constant.replaces_values)
    return None


def _has_optional_argument(module: nn.Module) -> bool:
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except ValueError:  # a scripted or compiled method has no signature
        return True
    return any(parameter.default is None for parameter in parameters)


def _record_constants(answers: EvalOutputs, training: bool) -> list[tuple[_JoinedConstant, str, int]]:
    """Return the constants that reach a weight, with its name and its number of columns."""
    recorder = _ConstantRecorder(answers.setup.eager_model)
    with record_calls(answers.setup.eager_model, recorder.add):
        answers.predict(answers.batch, training)
    return [(constant, name, width) for name, (constant, width) in recorder.constants.items() if constant is not None]


def _is_same(first: Tensor, second: Tensor) -> bool:
    """Return whether two tensors are one, or have the same values: a layer may be called twice."""
    return first is second or (
        first.shape == second.shape and first.dtype == second.dtype and torch.equal(first, second)
    )


class _ConstantRecorder:
    """Follows new tensors of one value from the call that creates them to the weight whose columns get them."""

    def __init__(self, model: nn.Module) -> None:
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._created: dict[int, tuple[Tensor, Tensor | None]] = {}  # with the tensor whose shape it has
        self._joined: dict[int, tuple[Tensor, int, _JoinedConstant]] = {}
        self.constants: dict[str, tuple[_JoinedConstant | None, int]] = {}

    def add(self, call: TorchCall) -> None:
        """Add a call of the pass."""
        result = call.outputs[0]
        if call.name in _CREATING_CALLS:
            self._created[id(result)] = result, call.inputs[0] if call.name in _LIKE_CALLS and call.inputs else None
        elif call.name in _VIEW_CALLS and call.inputs and id(call.inputs[0]) in self._created:
            self._created[id(result)] = result, self._created[id(call.inputs[0])][1]
        elif call.name in _JOINING_CALLS:
            self._add_joined(call)
        elif call.name == "linear" or call.name in CONVOLUTION_CALLS:
            self._add_weight(call)

    def _add_joined(self, call: TorchCall) -> None:
        result = call.outputs[0]
        parts = [part for part in call.inputs if part.dim() == result.dim()]  # cat skips empty vectors
        axis = call.kwargs.get("dim", call.kwargs.get("axis", call.args[1] if len(call.args) > 1 else 0))
        constants = [number for number, part in enumerate(parts) if self._is_constant(part)]
        if type(axis) is not int or len(constants) != 1 or len(parts) < 2 or not result.is_floating_point():
            return
        axis, number = axis % result.dim(), constants[0]
        part, model_tensor = parts[number], self._created[id(parts[number])][1]
        start = sum(other.shape[axis] for other in parts[:number])
        replaces = model_tensor is not None and not any(_is_same(other, model_tensor) for other in parts)
        if part.shape[axis] >= _MIN_WIDTH:
            stop, value = start + part.shape[axis], float(part.flatten()[0])
            self._joined[id(result)] = result, axis, _JoinedConstant(call, start, stop, value, replaces)

    def _is_constant(self, part: Tensor) -> bool:
        """Check whether a tensor was created in this pass with one value, which nothing has changed since."""
        if (
            id(part) not in self._created
            or part.numel() == 0
            or part.is_inference()
            or functorch.is_batchedtensor(part)
        ):
            return False
        return part._version == 0 and bool(torch.all(part == part.flatten()[0]))

    def _add_weight(self, call: TorchCall) -> None:
        """Keep the constant that a weight gets; None if another call of the same layer gets other values there."""
        data = call.inputs[0]
        name = next((self._names[id(tensor)] for tensor in call.inputs[1:] if id(tensor) in self._names), None)
        if name is None:
            return
        axis = 1 if call.name in CONVOLUTION_CALLS else data.dim() - 1
        joined = self._joined.get(id(data))
        constant = joined[2] if joined is not None and joined[1] == axis else None
        before = self.constants[name][0] if name in self.constants else constant
        is_same = before is not None and constant is not None and before.place == constant.place
        self.constants[name] = (before if is_same else None), data.shape[axis]
