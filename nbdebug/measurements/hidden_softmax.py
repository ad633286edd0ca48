"""Layers whose input is a softmax, and what they learn if that input has the scale of other activations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import cycle
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.activations import find_layer_input
from nbdebug.measurements.batch_independence import has_batch_axis
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve, seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_map, tree_tensors
from nbdebug.training.model_copy import copy_obstacle, trainable_setup
from nbdebug.training.trainer import Trainer

_MIN_WIDTH, _SUM_TOLERANCE = 4, 1e-3
_STEPS = 60
_MAX_PRODUCTS = 2e7  # of parameters and samples of a batch, so that both trials are short on any machine
_LAYER_CALLS = frozenset({"linear", "addmm", "mm", "matmul", "conv1d", "conv2d", "conv3d"})


@dataclass(frozen=True)
class HiddenSoftmax:
    """A layer whose input values are shares that sum to one over ``width`` units, and the module that makes them.

    ``initial_loss`` and ``loss`` are those of the first batches, before and after a trial of some steps. The losses
    with ``scaled`` are those of a trial in which the layer receives its input times ``width``. A layer without a bias
    is ``is_mixture``: its output is an average of its rows, as in a memory or a codebook.
    """

    where: Location
    layer: Location
    width: int
    is_mixture: bool
    steps: int
    initial_loss: float
    loss: float
    scaled_initial_loss: float
    scaled_loss: float


@slow_measurement
def hidden_softmax(setup: Setup, eval_outputs: EvalOutputs, batches: list[Batch]) -> HiddenSoftmax | None:
    """The first layer that receives shares that sum to one, with two trials of a copy; None if there is none."""
    search = _search_shares(eval_outputs)
    if search.position is None:
        return None
    if len(setup.optimizers) != 1 or setup.step_fn is not None:
        raise NotChecked("a trial needs one optimizer and a loss of the output")
    parameters = sum(p.numel() for p in setup.eager_model.parameters())
    if parameters * max(batches[0].size, 1) > _MAX_PRODUCTS:
        raise NotChecked("the model and its batches are too large for two trials")
    with Preserve(*setup.mutable_objects), torch.enable_grad():
        if obstacle := copy_obstacle(setup, batches[0]):
            raise NotChecked(obstacle)
        losses = _run_trial(setup, batches, None)
        scaled_losses = _run_trial(setup, batches, _ScaledInput(search.position, search.width))
    rounds = len(batches)
    means = [sum(part) / rounds for values in (losses, scaled_losses) for part in (values[:rounds], values[-rounds:])]
    if not all(map(math.isfinite, means)):
        raise NotChecked("the loss of a trial is not finite")
    return HiddenSoftmax(search.where, search.layer, search.width, search.is_mixture, _STEPS, *means)


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
            if self.position is None and call.name in _LAYER_CALLS and id(signal) in self.producers:
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


class _ScaledInput(TorchFunctionMode):
    """Multiplies the input of one layer of a pass by ``factor``; ``start`` begins a pass."""

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


def _run_trial(setup: Setup, batches: Sequence[Batch], scaled_input: _ScaledInput | None) -> list[float]:
    """Return the losses of a copy of the model, trained on some batches with the user's optimizer."""
    seed_all(0)
    losses = []
    with trainable_setup(setup, in_place=False) as trial:
        optimizers = trial.rebuild_optimizers(setup.optimizers, has_scheduler=setup.scheduler is not None)
        trainer = Trainer(trial.setup, optimizers, cycle(batches))
        if trainer.has_closures:
            raise NotChecked("a trial needs an optimizer that does not evaluate the loss itself")
        for step in range(_STEPS):
            if scaled_input is not None:
                scaled_input.start(batches[step % len(batches)].size)
            with scaled_input or nullcontext():
                losses.append(trainer.step())
    return losses
