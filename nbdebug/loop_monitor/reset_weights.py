"""Weights that a loop initializes again, or sets back to its first ones, before each epoch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from nbdebug.loop_monitor.weight_copies import first_values
from nbdebug.loop_monitor.write_trace import WriteTrace
from nbdebug.source.location import SourceLine

_MAX_MATRICES, _MIN_VALUES = 8, 32
_MIN_RESETS = 2
# Correlation of two independent samples of 64 values has a standard deviation of 1/8, and of 32 values of 0.18.
_MAX_CORRELATION = 0.5
_MAX_TRACES = 64  # pauses between the passes of an evaluation, in one of which the weights are written
_MAX_GROUPS = 8  # whose options are compared
_SCHEDULED_OPTIONS = {"lr", "momentum", "betas", "initial_lr"}
_COMPARED_TYPES = (bool, int, float, str, tuple)

_SET_GRADIENT = Tensor.grad.__set__  # type: ignore[union-attr]


@dataclass(frozen=True)
class ResetWeights:
    """Weights that were replaced before each of ``count`` epochs, the first time after ``step`` steps.

    If ``are_first``, they were those of the start of the first epoch. Else they were new ones: ``correlation`` is the
    highest of a matrix before and after it was replaced. ``line`` wrote them.
    """

    count: int
    step: int
    correlation: float
    are_first: bool
    line: SourceLine | None


class _LateTrace(WriteTrace):
    max_uses = _MAX_TRACES

    def record(self, function: Any, args: tuple[Any, ...], line: SourceLine) -> None:
        """Record the line of the first write to a weight, not to its gradient."""
        if function != _SET_GRADIENT:
            super().record(function, args, line)


class ResetWeightsMonitor:
    """Compares the weights at the start of each epoch with those after the last step, and at the starts before.

    Training moves weights, but it makes no independent ones in one pause between two steps. A matrix whose values
    are all equal shows no correlation, and so it is not compared.
    """

    def __init__(self, model: nn.Module) -> None:
        matrices = [p for p in model.parameters() if _is_compared(p)]
        self.parameters = matrices[:: 1 + len(matrices) // _MAX_MATRICES]
        self.latest: Tensor | None = None
        self.epoch_start_values: list[list[Tensor]] = []  # of the first and of the latest epoch
        self.start_step = self.expected_step = -1
        self.steps = self.first_step = self.count = self.unreset_epochs = self.initial_resets = 0
        self.correlation = -1.0
        self.optimizer_resets = 0
        self.optimizer: Optimizer | None = None
        self.optimizer_marks: list[Any] = []
        self.write_trace = _LateTrace()

    def on_step_end(self, optimizer: Optimizer) -> None:
        """Store values of one matrix; trace what follows if an epoch ends, as resets come at equal intervals."""
        self.steps += 1
        if self.is_comparing:
            self.latest = first_values(self.parameters[-1])
            self.optimizer, self.optimizer_marks = optimizer, _optimizer_marks(optimizer)
            self.trace()

    @property
    def is_comparing(self) -> bool:
        """True unless there is no matrix, or an epoch has kept its weights: then there is nothing to report."""
        return bool(self.parameters) and not self.unreset_epochs

    @property
    def is_write_expected(self) -> bool:
        """True if the next epoch begins after the latest step, and the line that writes the weights is unknown."""
        is_expected = self.count > 0 and self.steps == self.expected_step and self.is_comparing
        return is_expected and self.write_trace.line is None

    def trace(self) -> None:
        """Search for the line that writes the weights, until the next forward pass."""
        if self.is_write_expected:
            self.write_trace.open(self.parameters)

    def on_forward_begin(self, is_epoch_start: bool) -> None:
        """Compare the weights at the first training pass of an epoch."""
        self.write_trace.close()
        if is_epoch_start and self.is_comparing and self.start_step != self.steps:
            self.expected_step, self.start_step = 2 * self.steps - max(self.start_step, 0), self.steps
            self.compare([first_values(parameter) for parameter in self.parameters])

    def compare(self, values: list[Tensor]) -> None:
        """Compare the weights of an epoch's start with those before."""
        if self.epoch_start_values and self.latest is not None:
            pause_correlation = _correlation(values[-1], self.latest)
            correlations = [_correlation(*pair) for pair in zip(values, self.epoch_start_values[-1], strict=True)]
            known = [value for value in (pause_correlation, *correlations) if value is not None]
            is_changed = not torch.equal(values[-1], self.latest)
            are_first = is_changed and all(map(torch.equal, values, self.epoch_start_values[0]))
            are_new = pause_correlation is not None and max(known) < _MAX_CORRELATION
            if are_first or are_new:
                self.first_step = self.steps if not self.count else self.first_step
                self.count, self.initial_resets = self.count + 1, self.initial_resets + are_first
                self.correlation = max(self.correlation, *known) if are_new else self.correlation
                self.optimizer_resets += self.is_optimizer_changed
            else:
                self.unreset_epochs += 1
        self.epoch_start_values = [*self.epoch_start_values[:1], values]

    @property
    def is_optimizer_changed(self) -> bool:
        """True if the state of the optimizer was replaced, or its options were changed, since the latest step."""
        marks = _optimizer_marks(self.optimizer) if self.optimizer is not None else []
        return not _are_same(marks, self.optimizer_marks)

    def summary(self) -> ResetWeights | None:
        """Return the resets, if there were two or more, and one before each epoch after the first.

        None if the optimizer was changed, too, at each of them: then each epoch is a training of its own.
        """
        if self.optimizer_resets == self.count:
            return None
        if self.count < _MIN_RESETS or self.unreset_epochs or self.initial_resets not in (0, self.count):
            return None
        return ResetWeights(
            self.count, self.first_step, self.correlation, self.initial_resets > 0, self.write_trace.line
        )


def _is_compared(parameter: nn.Parameter) -> bool:
    is_matrix = parameter.dim() > 1 and parameter.numel() >= _MIN_VALUES
    return is_matrix and parameter.requires_grad and parameter.is_floating_point()


def _optimizer_marks(optimizer: Optimizer) -> list[Any]:
    """Return what shows that the state of an optimizer is replaced, cleared or written, or that an option is changed.

    Rates and momenta that a scheduler may change do not count: it stores the initial rate in each group.
    """
    options = [
        (name, value)
        for group in optimizer.param_groups[:_MAX_GROUPS]
        for name, value in group.items()
        if name != "params" and not ("initial_lr" in group and name in _SCHEDULED_OPTIONS)
    ]
    parameter = next((group["params"][-1] for group in optimizer.param_groups if group["params"]), None)
    state = optimizer.state.get(parameter, {}) if parameter is not None else {}
    tensors = [value for value in state.values() if isinstance(value, Tensor)]
    counts = [len(optimizer.state), *(tensor._version for tensor in tensors)]
    return [optimizer.state, *tensors, *counts, *(part for option in options for part in option)]


def _are_same(values: list[Any], others: list[Any]) -> bool:
    """Return whether containers and tensors are identical, and other values equal."""
    return len(values) == len(others) and all(
        value is other or (isinstance(value, _COMPARED_TYPES) and value == other)
        for value, other in zip(values, others, strict=True)
    )


def _correlation(first: Tensor, second: Tensor) -> float | None:
    """Return the correlation of two samples; None if the values of either are equal or not finite."""
    samples: Sequence[Tensor] = [part.double() - part.double().mean() for part in (first, second)]
    norm = float(samples[0].norm() * samples[1].norm())
    return float(samples[0] @ samples[1]) / norm if 0 < norm < float("inf") else None
