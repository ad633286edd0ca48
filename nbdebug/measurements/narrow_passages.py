"""Layers that reduce each sample to a single number, and normalizations that reduce it to none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.activations import LayerSpread, SampleSpread, find_layer_input
from nbdebug.measurements.batch_independence import has_batch_axis
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.tensors.pytree import tree_map, tree_tensors

_SELF_NORMALIZATIONS = {"layer_norm", "group_norm", "instance_norm"}  # by the statistics of each sample
_ROUNDING = 1e-6


@dataclass(frozen=True)
class NarrowPassage:
    """The call that makes a single number of each sample, the layer that widens it, and the values before and after."""

    call: str
    where: Location
    widened_by: Location
    input_values: int
    output_values: int


@measurement
def constant_normalizations(eval_outputs: EvalOutputs) -> list[TorchCall]:
    """Normalizations that return one value for everything, although what they normalize varies.

    That is how a normalization of single values ends: each is its own mean.
    """
    calls: list[TorchCall] = []
    if _SELF_NORMALIZATIONS.isdisjoint(eval_outputs.called_functions):
        return calls

    def record(call: TorchCall) -> None:
        is_normalization = call.name in _SELF_NORMALIZATIONS and call.inputs and call.inputs[0].numel() > 1
        if is_normalization and _is_constant(call.outputs[0]) and not _is_constant(call.inputs[0]):
            calls.append(call)

    with record_calls(eval_outputs.setup.eager_model, record):
        eval_outputs.predict(eval_outputs.batch)
    return calls


def _is_constant(values: Tensor) -> bool:
    """Return whether all values are equal to rounding."""
    low, high = torch.aminmax(values.detach().float())
    return float(high - low) <= _ROUNDING * max(float(high.abs()), float(low.abs()))


@measurement
def narrow_passages(eval_outputs: EvalOutputs, sample_spread: SampleSpread) -> list[NarrowPassage]:
    """Calls whose single number per sample decides the output alone, although a later layer expands it again.

    Decided by intervention: if the number is the same for all samples, so is the output.
    """
    size, output = eval_outputs.batch.size, eval_outputs.outputs[0]
    input_values = sum(t.numel() // size for t in eval_outputs.inputs.values() if has_batch_axis(t, size))
    if input_values < 2:
        raise NotChecked("the input is a single number per sample")
    layers = sample_spread.passes[0].layers
    return [
        NarrowPassage(*_find_producer(eval_outputs, position), layer.where, input_values, output.numel() // size)
        for position, layer in enumerate(layers)
        if _widens_one_number(layer) and _decides_output(eval_outputs, position)
    ]


def _widens_one_number(layer: LayerSpread) -> bool:
    """Return whether a weight matrix turns one number per sample into several."""
    return layer.width == 1 and layer.output_width > 1 and layer.name in ("linear", "addmm", "mm", "matmul")


def _decides_output(answers: EvalOutputs, position: int) -> bool:
    """Return whether all samples get one output if the input of the layer at ``position`` is their mean."""
    before = answers.outputs[0]
    with _EqualSamples(answers.batch.size, position):
        after = answers.predict(answers.batch)[0]
    return _largest_difference(after) <= answers.noise < _largest_difference(before)


def _largest_difference(output: Tensor) -> float:
    low, high = torch.aminmax(output, dim=0)
    return float((high - low).max())


class _EqualSamples(TorchFunctionMode):
    """Replaces the input of one layer by its mean over the samples; layers are counted as ``sample_spread`` does."""

    def __init__(self, size: int, position: int) -> None:
        super().__init__()
        self._size, self._remaining = size, position

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        signal, _ = find_layer_input(tree_tensors((args, kwargs)), self._size)
        if signal is not None:
            if self._remaining == 0:
                mean = signal.mean(0, keepdim=True).expand_as(signal)
                args, kwargs = tree_map((args, kwargs), lambda leaf: mean if leaf is signal else leaf)
            self._remaining -= 1
        return func(*args, **kwargs)


@dataclass
class _ProducerSearch:
    """Follows the single numbers of one pass back to the call that made them of something wider."""

    size: int
    remaining: int
    producers: dict[int, TorchCall] = field(default_factory=dict)
    producer: TorchCall | None = None

    def record(self, call: TorchCall) -> None:
        """Record a call of the pass."""
        signal, _ = find_layer_input(call.inputs, self.size)
        if signal is not None:
            if self.remaining == 0:
                self.producer = self.producers.get(id(signal))
            self.remaining -= 1
        if call.outputs[0].numel() == self.size:
            earlier = (self.producers[id(t)] for t in call.inputs if id(t) in self.producers and t.numel() == self.size)
            self.producers[id(call.outputs[0])] = next(earlier, call)


def _find_producer(answers: EvalOutputs, position: int) -> tuple[str, Location]:
    """Return the name and the location of the call that made the single numbers."""
    search = _ProducerSearch(answers.batch.size, position)
    references: list[TorchCall] = []  # keeps the tensors of the pass, so that each id stays unique

    def on_call(call: TorchCall) -> None:
        references.append(call)
        search.record(call)

    with record_calls(answers.setup.eager_model, on_call):
        answers.predict(answers.batch)
    return ("the input", Location()) if search.producer is None else (search.producer.name, search.producer.where)
