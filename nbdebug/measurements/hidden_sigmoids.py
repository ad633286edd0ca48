"""Sigmoids between layers, and what the model learns if their outputs are centered and as steep as their inputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import TorchCall, record_calls
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Location
from nbdebug.measurements.activations import find_layer_input
from nbdebug.measurements.hidden_softmax import LAYER_CALLS
from nbdebug.measurements.loss_reference import ExpectedLoss
from nbdebug.measurements.perturbation import EvalOutputs
from nbdebug.measurements.registry import slow_measurement
from nbdebug.measurements.short_trials import Intervention, TrialPair, run_trials
from nbdebug.records import Record
from nbdebug.setup import Batch, Setup

_SIGMOID_CALLS = frozenset({"sigmoid", "special_expit", "expit"})
_MIN_COUNT = 2  # of sigmoids in a row; with one, the layer behind it still learns at its own pace
_STEPS = 100


@dataclass(frozen=True)
class HiddenSigmoids:
    """Sigmoids whose outputs are nothing but the inputs of layers, by the place of the first one.

    In the changed trial, they are centered at zero and have the slope 1 there, as tanh does: the same functions can be
    learned. The loss of a constant prediction is infinite if it is unknown.
    """

    count: int
    where: Location
    constant_loss: float
    trials: TrialPair

    def is_hindered(self, progress: float) -> bool:
        """Return whether the model gains less than a share of what it gains with the change."""
        return self.trials.is_hindered(progress, self.constant_loss)


@slow_measurement
def hidden_sigmoids(
    setup: Setup,
    eval_outputs: EvalOutputs,
    expected_loss: ExpectedLoss | NotChecked,
    record: Record | NotChecked,
    batches: list[Batch],
    budget: str,
) -> HiddenSigmoids | None:
    """The sigmoids between layers of a model that has several, with two trials of a copy; None for another."""
    if not isinstance(record, NotChecked):
        raise NotChecked("these trials run only before training")
    if _SIGMOID_CALLS.isdisjoint(eval_outputs.called_functions):
        return None
    search = _SigmoidSearch(eval_outputs.batch.size)
    with record_calls(eval_outputs.setup.eager_model, search.record), torch.no_grad():
        eval_outputs.predict(eval_outputs.batch)
    hidden = sorted(search.layer_inputs - search.factors)
    if len(hidden) < _MIN_COUNT:
        return None
    trials = run_trials(setup, batches, _STEPS, budget, intervention=_CenteredSigmoids(hidden), is_suspected=True)
    constant_loss = expected_loss.prior if isinstance(expected_loss, ExpectedLoss) else float("inf")
    return HiddenSigmoids(len(hidden), search.calls[hidden[0]].where, constant_loss, trials)


@dataclass
class _SigmoidSearch:
    """Finds which sigmoids of a pass, by number, are the input of layers, and which have another use, as gates do."""

    size: int
    calls: list[TorchCall] = field(default_factory=list)
    layer_inputs: set[int] = field(default_factory=set)
    factors: set[int] = field(default_factory=set)
    _origins: dict[int, int] = field(default_factory=dict)
    _references: list[TorchCall] = field(default_factory=list)  # keeps the tensors, so that each id stays unique

    def record(self, call: TorchCall) -> None:
        """Record a call of the pass."""
        self._references.append(call)
        signal, _ = find_layer_input(call.inputs, self.size)
        for number, value in [(self._origins[id(t)], t) for t in call.inputs if id(t) in self._origins]:
            if signal is value and call.name in LAYER_CALLS:
                self.layer_inputs.add(number)
            elif _has_equal_values(call.outputs[0], value):  # a view, or dropout in eval mode
                self._origins[id(call.outputs[0])] = number
            else:
                self.factors.add(number)
        if call.name in _SIGMOID_CALLS:
            self._origins[id(call.outputs[0])] = len(self.calls)
            self.calls.append(call)


def _has_equal_values(first: Tensor, second: Tensor) -> bool:
    return first.numel() == second.numel() and torch.equal(first.flatten(), second.flatten())


class _CenteredSigmoids(Intervention):
    """Centers the outputs of some sigmoids of a pass, by number, and gives them the slope 1."""

    def __init__(self, numbers: list[int]) -> None:
        super().__init__()
        self._numbers, self._number = frozenset(numbers), 0

    def start(self, size: int) -> None:
        """Count the sigmoids of a pass from the first one."""
        self._number = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "").strip("_") not in _SIGMOID_CALLS:
            return result
        self._number += 1
        return 4 * (result - 0.5) if self._number - 1 in self._numbers else result
