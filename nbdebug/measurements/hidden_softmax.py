"""Layers whose input is a softmax, and what they learn if that input has the scale of other activations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.activations import find_layer_input
from nbdebug.measurements.batch_independence import has_batch_axis
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.short_trials import Intervention, TrialPair, run_trials
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MIN_WIDTH, _SUM_TOLERANCE = 4, 1e-3
_STEPS = 60
LAYER_CALLS = frozenset({"linear", "addmm", "mm", "matmul", "conv1d", "conv2d", "conv3d"})


@dataclass(frozen=True)
class HiddenSoftmax:
    """A layer whose input values are shares that sum to one over ``width`` units, and the module that makes them.

    In the changed trial, the layer receives its input times ``width``. A layer without a bias is ``is_mixture``: its
    output is an average of its rows, as in a memory or a codebook.
    """

    where: Location
    layer: Location
    width: int
    is_mixture: bool
    trials: TrialPair


@slow_measurement
def hidden_softmax(setup: Setup, eval_outputs: EvalOutputs, batches: list[Batch], budget: str) -> HiddenSoftmax | None:
    """The first layer that receives shares that sum to one, with two trials of a copy; None if there is none."""
    search = _search_shares(eval_outputs)
    if search.position is None:
        return None
    trials = run_trials(setup, batches, _STEPS, budget, intervention=_ScaledInput(search.position, search.width))
    return HiddenSoftmax(search.where, search.layer, search.width, search.is_mixture, trials)


@dataclass
class _ShareSearch:
    """Finds the first layer of a pass whose input consists of shares that the model itself has computed."""

    size: int
    layer_count: int = 0
    position: int | None = None
    width: int = 0
    is_mixture: bool = False
    where: Location = field(default_factory=Location)
    layer: Location = field(default_factory=Location)
    producers: dict[int, TorchCall] = field(default_factory=dict)

    def record(self, call: TorchCall) -> None:
        """Record a call of the pass."""
        signal, weights = find_layer_input(call.inputs, self.size)
        if signal is not None:
            if self.position is None and call.name in LAYER_CALLS and id(signal) in self.producers:
                self.check(call, signal)
                self.is_mixture = len(weights) == 1
            self.layer_count += 1
        for output in call.outputs:
            if id(output) not in {id(t) for t in call.inputs}:
                self.producers[id(output)] = call

    def check(self, call: TorchCall, signal: Tensor) -> None:
        """Store the layer if its input values are shares."""
        axis = 1 if call.name.startswith("conv") else -1
        if signal.shape[axis] >= _MIN_WIDTH and _are_shares(signal, axis):
            self.position, self.width = self.layer_count, signal.shape[axis]
            self.where, self.layer = self.producers[id(signal)].where, call.where


def _are_shares(values: Tensor, axis: int) -> bool:
    """Return whether values are neither negative nor zeros and ones, and sum to one along an axis."""
    sums = values.sum(axis)
    return (
        bool((values >= 0).all())
        and bool(torch.isclose(sums, torch.ones_like(sums), atol=_SUM_TOLERANCE).all())
        and bool(((values > 0) & (values < 1)).any())
    )


def _search_shares(answers: EvalOutputs) -> _ShareSearch:
    if not has_batch_axis(answers.outputs[0], answers.batch.size):
        raise NotChecked("the batch axis of the output is unknown")
    search, references = _ShareSearch(answers.batch.size), []

    def on_call(call: TorchCall) -> None:
        references.append(call)  # keeps the tensors of the pass, so that each id stays unique
        search.record(call)

    with record_calls(answers.setup.eager_model, on_call):
        answers.predict(answers.batch)
    return search


class _ScaledInput(Intervention):
    """Multiplies the input of one layer of a pass by ``factor``."""

    def __init__(self, position: int, factor: int) -> None:
        super().__init__()
        self._size, self._remaining, self._position, self._factor = 0, -1, position, factor

    def start(self, size: int) -> None:
        """Count the layers of a pass over ``size`` samples from the first one."""
        self._size, self._remaining = size, self._position

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        signal, _ = find_layer_input(tree_tensors((args, kwargs)), self._size) if self._remaining >= 0 else (None, [])
        if signal is not None:
            if self._remaining == 0:
                scaled = signal * self._factor
                args, kwargs = tree_map((args, kwargs), lambda leaf: scaled if leaf is signal else leaf)
            self._remaining -= 1
        return func(*args, **kwargs)
