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
from nbdebug.measurements.activations import SampleSpread, find_layer_input
from nbdebug.measurements.batch_independence import has_batch_axis
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import measurement
from nbdebug.tensors.pytree import tree_map, tree_tensors

_SELF_NORMALIZATIONS = {"layer_norm", "group_norm", "instance_norm"}  # by the statistics of each sample
_LAYER_CALLS = frozenset({"linear", "addmm", "mm", "matmul"})
_ROUNDING = 1e-6


@dataclass(frozen=True)
class NarrowPassage:
    """The call that makes a single number of each sample, the layer that uses it, and the values before and after.

    Unless ``is_widened``, that layer makes a single number again.
    """

    call: str
    where: Location
    used_by: Location
    is_widened: bool
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
    """Calls whose single number per sample decides the output alone, although a later layer uses it.

    Decided by intervention: if the number is the same for all samples, so is the output. If the later layer makes a
    single number too, as a scale of the output does, the number must be that of a hidden unit.
    """
    size, output = eval_outputs.batch.size, eval_outputs.outputs[0]
    input_values = sum(t.numel() // size for t in eval_outputs.inputs.values() if has_batch_axis(t, size))
    if input_values < 2:
        raise NotChecked("the input is a single number per sample")
    passages: list[NarrowPassage] = []
    for position, layer in enumerate(sample_spread.passes[0].layers):
        if layer.width != 1 or layer.name not in _LAYER_CALLS or not _decides_output(eval_outputs, position):
            continue
        search, is_widened = _search_producer(eval_outputs, position), layer.output_width > 1
        if is_widened or search.is_hidden_unit:
            widths = (input_values, output.numel() // size)
            passages.append(NarrowPassage(*search.place, layer.where, is_widened, *widths))
    return passages


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
    """Follows the single numbers of one pass back to the call that made them of something wider.

    ``signal`` holds the numbers as they reach the layer at ``position``.
    """

    size: int
    position: int
    layer_count: int = 0
    producers: dict[int, TorchCall] = field(default_factory=dict)
    layer_numbers: dict[int, int] = field(default_factory=dict)
    producer: TorchCall | None = None
    signal: Tensor | None = None

    def record(self, call: TorchCall) -> None:
        """Record a call of the pass."""
        signal, _ = find_layer_input(call.inputs, self.size)
        if signal is not None:
            if self.layer_count == self.position:
                self.signal, self.producer = signal, self.producers.get(id(signal))
            self.layer_numbers[id(call)] = self.layer_count
            self.layer_count += 1
        if call.outputs[0].numel() == self.size:
            earlier = (self.producers[id(t)] for t in call.inputs if id(t) in self.producers and t.numel() == self.size)
            self.producers[id(call.outputs[0])] = next(earlier, call)

    @property
    def place(self) -> tuple[str, Location]:
        """The name and the location of the call that made the single numbers."""
        return ("the input", Location()) if self.producer is None else (self.producer.name, self.producer.where)

    @property
    def is_hidden_unit(self) -> bool:
        """Whether a layer makes the numbers, and an activation loses some of them or follows no other layer.

        Without an activation, or after other layers, a single weight only scales the output.
        """
        if self.producer is None or self.signal is None or self.producer.name not in _LAYER_CALLS:
            return False
        before, after = (values.detach().flatten().double() for values in (self.producer.outputs[0], self.signal))
        is_first = self.layer_numbers.get(id(self.producer)) == 0
        return not _is_affine(before, after) and (is_first or len(torch.unique(after)) < len(torch.unique(before)))


def _is_affine(before: Tensor, after: Tensor) -> bool:
    """Return whether a straight line maps some numbers to others, to rounding."""
    deviations, results = before - before.mean(), after - after.mean()
    slope = deviations @ results / deviations.square().sum().clamp_min(torch.finfo(torch.double).tiny)
    return float((results - slope * deviations).norm()) <= _ROUNDING * float(after.norm())


def _search_producer(answers: EvalOutputs, position: int) -> _ProducerSearch:
    """Return the search for the call that made the input of a layer."""
    search = _ProducerSearch(answers.batch.size, position)
    references: list[TorchCall] = []  # keeps the tensors of the pass, so that each id stays unique

    def on_call(call: TorchCall) -> None:
        references.append(call)
        search.record(call)

    with record_calls(answers.setup.eager_model, on_call), torch.no_grad():
        answers.predict(answers.batch)
    return search
