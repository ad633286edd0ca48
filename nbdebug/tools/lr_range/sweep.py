"""One sweep, its options, its control run, and notes on what affects the curves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from nbdebug.exceptions import SetupError
from nbdebug.options import Groups, Mode
from nbdebug.setup import Batch, Setup
from nbdebug.setup.evaluation_mode import in_mode
from nbdebug.setup.setup import as_optimizers
from nbdebug.setup.user_code import UserCodeErrors
from nbdebug.tools.lr_range.data import QUANTITY_NAMES, Sweep, SweepEnd
from nbdebug.tools.lr_range.recommendation import Recommendation
from nbdebug.tools.lr_range.suggestions import MIN_POINTS, pool_sweeps
from nbdebug.training.divergence import DIVERGENCE_FACTOR, DivergenceDetector, RunningMean, smooth_curve
from nbdebug.training.hyperparameters import Hyperparameter, Quantity
from nbdebug.training.trainer import BatchStream, Trainer
from nbdebug.validation import check_whole_number

StepCallback = Callable[[float, float, float], bool]
_OptimizerFactory = Callable[[Iterable[torch.Tensor]], Optimizer]
_MIN_STEPS, _MAX_STEPS = 10, 10_000
_MAX_SEEDS = 20
_MIN_CONFIRM_STEPS = 20
_DEFAULT_OPTIMIZER = torch.optim.Adam  # the most common choice, and tolerant of its learning rate
_MIN_GAIN = 0.02  # relative loss differences below this are ignored
_DROPOUT_TYPES = nn.modules.dropout._DropoutNd


@dataclass
class SweepRun:
    """A running sweep; ``on_step`` receives value, loss and running mean of each step, and returns whether to stop.

    With ``held_out``, the loss is that of this batch after the step; with ``control``, the losses of another run over
    the same batches, it is the difference.
    """

    setup: Setup
    trainer: Trainer
    hyperparameter: Hyperparameter
    values: Sequence[float]
    on_step: StepCallback
    held_out: Batch | None = None
    control: Sequence[float] = ()
    factor: float = DIVERGENCE_FACTOR
    ended: SweepEnd = "finished"
    steps: int = 0
    guard: DivergenceDetector = field(init=False)

    def __post_init__(self) -> None:
        self.guard = DivergenceDetector(len(self.values), self.factor)
        self.running_mean = RunningMean(len(self.values))
        self.differences: list[float] = []

    def run(self) -> None:
        """Run all steps; an exception of the user's code is raised as SetupError with the step."""
        with torch.enable_grad(), self.user_code_context():
            for value in self.values:
                self.hyperparameter.set(value)
                loss = self.step_loss()
                self.steps += 1
                if not isfinite(loss):
                    self.ended = "not finite"
                elif self.guard.update_and_check(loss):
                    self.ended = "diverged"
                if isfinite(loss) and self.report_step(value, loss):
                    self.ended = "stopped"
                if self.ended != "finished":
                    return

    def report_step(self, value: float, loss: float) -> bool:
        """Report a finite loss, and return whether to stop."""
        if not self.control:
            return self.on_step(value, loss, self.guard.mean)
        self.differences.append(loss - self.control[len(self.differences)])
        return self.on_step(value, self.differences[-1], self.running_mean(self.differences[-1]))

    def user_code_context(self) -> AbstractContextManager[None]:
        """Return the context that attributes exceptions to the user's code."""
        return UserCodeErrors(lambda: f"in step {self.steps} of the range test, at {self.values[self.steps]:.3g}")

    def step_loss(self) -> float:
        """Make one step and return its loss."""
        loss = self.trainer.step()
        return self.held_out_loss(self.held_out) if self.held_out is not None and isfinite(loss) else loss

    @torch.no_grad()
    def held_out_loss(self, batch: Batch) -> float:
        """Return the loss of the validation batch in eval mode."""
        with in_mode(self.setup.eager_model, training=False):
            return float(self.setup.output_and_loss(batch, self.setup.model)[1])

    def to_sweep(self, seed: int) -> Sweep:
        """Return the sweep as plain data."""
        losses = tuple(self.differences if self.control else self.guard.losses)
        return Sweep(seed, tuple(self.values[: len(losses)]), losses, smooth_curve(losses), self.ended)


@dataclass(frozen=True)
class SweepPlan:
    """The values of a sweep, the number of sweeps, and how a step is made.

    ``confirm`` is the number of steps of each confirmation run at rates around the recommended one; 0 for none.
    """

    quantity: Quantity = "lr"
    start: float = 1e-7
    end: float = 10.0
    steps: int = 100
    seeds: int = 3
    mode: Mode = "exp"
    val: bool = False
    groups: Groups = "scale"
    accumulate: int = 1
    max_norm: float | None = None
    confirm: int = 0

    def __post_init__(self) -> None:
        check_whole_number("steps", self.steps, _MIN_STEPS, _MAX_STEPS)
        check_whole_number("seeds", self.seeds, 1, _MAX_SEEDS)
        check_whole_number("accumulate", self.accumulate, 1, _MAX_STEPS)
        _check_choice("mode", self.mode, ("exp", "linear"))
        _check_choice("groups", self.groups, ("scale", "same"))
        for name, value in (("start", self.start), ("end", self.end)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
                raise SetupError(f"{name} is {value!r}; expected a number of at least 0. Leave it out for the default.")
        if self.start >= self.end:
            raise SetupError(f"start is {self.start:g}; expected less than end, {self.end:g}. Swap them.")
        if self.mode == "exp" and self.start == 0:
            raise SetupError("start is 0; expected more than 0 in mode 'exp'. Pass a small number, or mode='linear'.")
        if self.quantity == "momentum" and self.end >= 1:
            raise SetupError(f"end is {self.end:g}; expected a momentum below 1. Pass 0.99.")
        if self.max_norm is not None and not self.max_norm > 0:
            raise SetupError(f"max_norm is {self.max_norm!r}; expected more than 0. Leave it out to disable clipping.")
        if self.confirm != 0 or isinstance(self.confirm, bool):
            check_whole_number("confirm", self.confirm, _MIN_CONFIRM_STEPS, _MAX_STEPS)
        if self.confirm and self.quantity != "lr":
            raise SetupError(f"confirm is {self.confirm}; expected 0 for a {self.quantity}. Leave it out.")

    @property
    def values(self) -> tuple[float, ...]:
        """The swept values in order, including both ends."""
        spacing = np.geomspace if self.mode == "exp" else np.linspace
        return tuple(spacing(self.start, self.end, self.steps).tolist())


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise SetupError(f"{name} is {value!r}; expected one of {', '.join(choices)}. Leave it out for {choices[0]!r}.")


def choose_optimizers(setup: Setup, requested: Any) -> tuple[tuple[Optimizer, ...], bool, str]:
    """Return the optimizers to sweep, whether they are the user's own, and a note about them.

    ``requested`` is an optimizer, a list of them, or a factory such as a class; by default those of the setup, or else
    Adam over all parameters that require a gradient.
    """
    is_factory = isinstance(requested, type) or (callable(requested) and not isinstance(requested, Optimizer))
    optimizers = () if is_factory else as_optimizers(requested) or setup.optimizers
    if optimizers:
        return optimizers, True, ""
    trainable = [p for p in setup.eager_model.parameters() if p.requires_grad]
    if not trainable:
        raise SetupError("model has no parameter that requires a gradient; expected one. Unfreeze a layer.")
    factory: _OptimizerFactory = requested if is_factory else _DEFAULT_OPTIMIZER
    name = getattr(factory, "__name__", type(factory).__name__)
    reason = " as you passed it" if is_factory else ", since no optimizer was given"
    return as_optimizers(factory(trainable)), False, f"the sweeps use {name}{reason}"


def compare_to_control(
    recommendation: Recommendation, quantity: Quantity, sweeps: Sequence[Sweep], current: float, control_loss: float
) -> Recommendation:
    """Adjust a recommendation to the control run, whose mean loss is ``control_loss``; learning rates are unaffected.

    A value is recommended only if its loss is clearly lower than that of the control.
    """
    usable = [sweep for sweep in sweeps if len(sweep.losses) >= MIN_POINTS]
    if quantity == "lr" or not usable or recommendation.verdict not in ("clear", "unclear", "flat"):
        return recommendation
    pooled_curve, name = pool_sweeps(usable), QUANTITY_NAMES[quantity]
    relative_excess = np.asarray(pooled_curve.smooth) / max(control_loss, 1e-12)
    if (
        recommendation.verdict == "clear"
        and relative_excess.min() < -_MIN_GAIN
        and recommendation.recommended is not None
    ):
        sentence = f"A {name} of {recommendation.recommended.value:.2g} does better than yours, {current:.2g}"
        return replace(recommendation, headline=f"{sentence}: its loss is {-relative_excess.min():.0%} lower.")
    worse_values = np.asarray(pooled_curve.values)[relative_excess > _MIN_GAIN]
    reason = (
        f"the loss is higher from {worse_values[0]:.2g} to {worse_values[-1]:.2g}"
        if len(worse_values)
        else "the loss is about the same"
    )
    return Recommendation("flat", f"No {name} that was tried does clearly better than yours, {current:.2g}.", (reason,))


def setup_notes(setup: Setup, optimizers: Sequence[Optimizer], hyperparameter: Hyperparameter) -> Iterator[str]:
    """Yield what the model and the optimizers contribute to the curves."""
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    if any(
        module.p > 0 and module.training for module in setup.eager_model.modules() if isinstance(module, _DROPOUT_TYPES)
    ):
        yield "dropout is on"
    if hyperparameter.quantity != "weight_decay" and (
        weight_decays := _format_nonzero(group.get("weight_decay") for group in groups)
    ):
        yield f"a weight decay of {weight_decays} is active, and its effect grows with the rate"
    if hyperparameter.quantity != "momentum" and (
        momenta := _format_nonzero(group.get("momentum") for group in groups)
    ):
        yield f"a momentum of {momenta} is active"
    if any("betas" in group for group in groups):
        yield "the moving averages of Adam-like optimizers are still warming up in the first steps"
    if any(optimizer.state for optimizer in optimizers):
        yield "your optimizer has stepped before: each sweep starts from its current state"
    if not hyperparameter.is_uniform:
        yield "the values of the parameter groups keep their ratios; the value shown is that of the first group"
    if setup.scheduler is not None:
        yield "the schedule is not stepped; your rate is taken as the highest that the scheduler has set so far"


def _format_nonzero(values: Iterator[Any]) -> str:
    return " and ".join(dict.fromkeys(f"{float(value):.3g}" for value in values if value))


def sweep_notes(sweeps: Sequence[Sweep], steps: int, streams: Sequence[BatchStream]) -> Iterator[str]:
    """Yield what happened during the sweeps."""
    if last_values := [sweep.values[-1] if sweep.values else 0.0 for sweep in sweeps if sweep.ended == "not finite"]:
        counts = f"in {len(last_values)} of {len(sweeps)} sweeps"
        yield f"{counts} the loss was not finite after {max(last_values):.2g}; these values are omitted"
    if (rounds := max((feed.rounds for feed in streams), default=1)) > 1:
        yield f"the loader has few batches: {steps} steps pass over the data up to {rounds} times"
    if skipped := sum(feed.skipped for feed in streams):
        yield f"{skipped} batches of a single sample were skipped, since the model computes batch statistics"
