"""Gradient accumulation in a loop: cleared gradients, repeated steps and clipping."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from types import FrameType

import torch
from torch import Tensor, nn

from nbdebug.hooks.training_events import ClippingCall
from nbdebug.loop_monitor.event_stacks import StackCounter, user_stack
from nbdebug.loop_monitor.loss_weights import LossWeights
from nbdebug.loop_monitor.schedules import ThinnedStream
from nbdebug.loop_monitor.write_trace import is_plain_tensor
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.setup.source_lines import creation_line
from nbdebug.source.location import SourceLine, get_calling_line
from nbdebug.tensors.sampling import has_nonzero_value, tensor_norms

_MAX_MOMENTUM = 0.999
_NEARLY_ALL = 0.9
_MIN_REPEATED_STEPS = 3  # before the lines that create the optimizers are searched


@torch.no_grad()
def nonzero_gradients(parameters: Sequence[Tensor]) -> list[bool]:
    """Return whether each parameter has a nonzero gradient; synchronizes the device.

    On the CPU, the first values of most gradients suffice. On a device, computes all norms at once. Values are
    inspected only for a norm of zero, since squares of tiny values underflow.
    """
    gradients = [_dense_values(p.grad) for p in parameters]
    if all(gradient is None or (is_plain_tensor(gradient) and gradient.is_cpu) for gradient in gradients):
        return [gradient is not None and has_nonzero_value(gradient) for gradient in gradients]
    nonempty = [gradient for gradient in gradients if gradient is not None and gradient.numel()]
    norms = iter(_fetch_numbers(tensor_norms(nonempty)) if nonempty else ())
    nonzero = []
    for gradient in gradients:
        if gradient is None or not gradient.numel():
            nonzero.append(False)
        else:
            nonzero.append(next(norms) != 0 or bool(gradient.any()))
    return nonzero


def _dense_values(gradient: Tensor | None) -> Tensor | None:
    """Return a gradient; the values of a sparse one."""
    if gradient is None or not gradient.is_sparse:
        return gradient
    return gradient.coalesce().values()


class GradientVersions:
    """Gradients and their versions before a backward pass, to detect afterwards whether it added to any."""

    def __init__(self, parameters: Sequence[Tensor]) -> None:
        grads = [p.grad for p in parameters]
        versions = [0 if gradient is None else gradient._version for gradient in grads]
        self.previous_gradients = list(zip(parameters, grads, versions, strict=True))

    @property
    def have_changed(self) -> bool:
        """True if any gradient was replaced or changed in place."""
        return any(
            p.grad is not previous_gradient or (previous_gradient is not None and previous_gradient._version != version)
            for p, previous_gradient, version in self.previous_gradients
        )


def _fetch_numbers(values: Sequence[Tensor]) -> tuple[float, ...]:
    """Fetch scalars from a device in one transfer."""
    return (
        tuple(torch.stack([value.detach().float().to(values[0].device) for value in values]).tolist()) if values else ()
    )


@dataclass
class StepInterval:
    """Events since the last step of an optimizer; ``cleared`` is None if the gradients were not inspected.

    If the interval is ``inspected``, ``passes`` counts the backward passes that reached its parameters.
    ``scaled_passes`` of them started from a loss scaled by a GradScaler, ``undivided_passes`` from a loss that was not
    divided; ``largest_weights`` are those of the losses in each pass. ``lines`` are their lines in the user's code.
    ``closure_passes`` ran inside the step, in its closure; ``uncleared_closure_passes`` of them began with the
    gradients of another one. ``batches`` counts drawn batches, and ``parts`` the passes of the model that took other
    rows of a batch than the earlier ones. ``is_clipped`` tells whether gradients were clipped after a backward pass.
    ``unscaled`` and ``stepped_by_scaler`` tell whether a GradScaler unscaled the gradients and made the step.
    """

    cleared: bool | None = None
    has_backward: bool = False
    cleared_after_backward: bool = False
    inspected: bool = True
    passes: int = 0
    scaled_passes: int = 0
    undivided_passes: int = 0
    largest_weights: list[float] = field(default_factory=list)
    batches: int = 0
    parts: int = 0
    unscaled: bool = False
    stepped_by_scaler: bool = False
    skipped: bool = False
    clip: ClippingCall | None = None
    is_clipped: bool = False
    lines: set[SourceLine | None] = field(default_factory=set)
    is_stepping: bool = False
    closure_passes: int = 0
    uncleared_closure_passes: int = 0
    has_closure_gradients: bool = False

    def on_cleared(self) -> None:
        """Record that the gradients were cleared."""
        self.cleared, self.has_closure_gradients = True, False
        self.cleared_after_backward = self.has_backward

    def on_backward_begin(self, is_empty: bool) -> None:
        """Record at the start of a backward pass whether the gradients are empty."""
        self.cleared = bool(self.cleared) or is_empty

    def forget_passes(self, is_empty: bool) -> None:
        """Forget the passes of an interval whose gradients were cleared without a step: they do not accumulate."""
        if is_empty and self.passes:
            self.passes = self.scaled_passes = self.undivided_passes = 0
            self.parts = min(self.parts, 1)  # that of the pass that begins
            self.largest_weights.clear()
            self.lines.clear()

    def on_backward_end(self) -> None:
        """Record the end of a backward pass."""
        self.has_backward, self.cleared_after_backward = True, False
        self.has_closure_gradients = self.is_stepping


@dataclass
class TrackedOptimizer:
    """An optimizer with its current interval, the ``previous`` one, and counts over all finished intervals.

    ``uncleared_step_line`` is the user's line of the first step with gradients of an earlier one. ``was_clipped`` tells
    whether the gradients of the last step were clipped.
    """

    optimizer: torch.optim.Optimizer
    interval: StepInterval = field(default_factory=StepInterval)
    previous_interval: StepInterval = field(default_factory=StepInterval)
    gradient_versions: GradientVersions | None = None
    steps: int = 0
    checked_intervals: int = 0
    uncleared_intervals: int = 0
    uncleared_step_line: SourceLine | None = None
    cleared_after_backward: int = 0
    closure_steps: int = 0
    uncleared_closure_steps: int = 0
    skipped_steps: int = 0
    was_clipped: bool = False

    @property
    def parameters(self) -> list[Tensor]:
        """All parameters of the optimizer."""
        return optimized_parameters(self.optimizer)

    def shares_parameters_with(self, module: nn.Module) -> bool:
        """Check whether the optimizer holds a parameter of a module."""
        parameter_ids = {id(p) for p in self.parameters}
        return any(id(p) in parameter_ids for p in module.parameters())

    @property
    def has_gradients(self) -> bool:
        """True if any gradient is nonzero; synchronizes the device."""
        return any(nonzero_gradients(self.parameters))

    def on_backward_begin(self) -> None:
        """Record the start of an inspected backward pass."""
        interval = self.interval
        if not interval.cleared or interval.passes:
            is_empty = not self.has_gradients
            interval.on_backward_begin(is_empty)
            interval.forget_passes(is_empty)
        interval.closure_passes += interval.is_stepping
        interval.uncleared_closure_passes += interval.has_closure_gradients and self.has_gradients
        self.gradient_versions = GradientVersions(self.parameters)

    def count_pass(self, is_scaled: bool, loss_weights: LossWeights, line: SourceLine | None) -> None:
        """Record the end of a backward pass; count it if it added to the gradients of this optimizer."""
        self.interval.on_backward_end()
        gradient_versions, self.gradient_versions = self.gradient_versions, None
        self.interval.inspected &= gradient_versions is not None
        if gradient_versions is not None and gradient_versions.have_changed:
            self.interval.passes += 1
            self.interval.scaled_passes += is_scaled
            self.interval.undivided_passes += loss_weights.is_undivided()
            self.interval.largest_weights.append(max(loss_weights.values(), default=0.0))
            self.interval.lines.add(line)

    @property
    def adds_to_gradients(self) -> bool:
        """True unless no backward pass added to the gradients, which are then assigned, not accumulated."""
        return self.interval.passes > 0 or not self.interval.inspected

    def on_step_begin(self) -> None:
        """Record the start of a step."""
        self.interval.is_stepping = True
        self.cleared_after_backward += self.interval.cleared_after_backward and not self.has_gradients

    def on_step_end(self, frame: FrameType | None = None) -> None:
        """Record the end of a step that was called on a frame, and start a new interval.

        The first step has no previous step to compare with.
        """
        self.steps += 1
        self.closure_steps += self.interval.closure_passes > 1
        self.uncleared_closure_steps += self.interval.uncleared_closure_passes > 0
        if self.steps > 1 and self.interval.cleared is not None and self.adds_to_gradients:
            self.checked_intervals += 1
            self.uncleared_intervals += not self.interval.cleared
            if not self.interval.cleared and self.uncleared_step_line is None:
                self.uncleared_step_line = get_calling_line(frame)
        self.was_clipped = self.interval.is_clipped
        self.previous_interval, self.interval = self.interval, StepInterval()

    def on_untracked_step_end(self) -> None:
        """Record the end of a step whose events were only counted, and reset the interval."""
        self.steps += 1
        self.was_clipped, interval = self.interval.is_clipped, self.interval
        interval.has_backward, interval.batches, interval.parts = False, 0, 0
        interval.clip, interval.is_clipped = None, False

    def on_step_skipped(self) -> None:
        """Record that a GradScaler skipped the step because of a non-finite gradient."""
        self.skipped_steps += 1
        self.interval.skipped = True
        self.previous_interval, self.interval = self.interval, StepInterval()


def repeated_parameters(tracked_optimizers: Iterable[TrackedOptimizer]) -> frozenset[int]:
    """Return the identities of the parameters that one optimizer holds more than once."""
    counts = [Counter(id(p) for p in tracked.parameters) for tracked in tracked_optimizers]
    return frozenset(key for count in counts for key, number in count.items() if number > 1)


@dataclass(frozen=True)
class DoubleUpdates:
    """All ``steps``, those (``repeated``) that updated parameters again from one gradient, and the parameters' ids.

    ``optimizers`` are the two that first did so, in the order of their steps, and ``creation_lines`` the lines that
    create them.
    """

    steps: int = 0
    repeated: int = 0
    shared_parameters: frozenset[int] = frozenset()
    optimizers: tuple[torch.optim.Optimizer, ...] = ()
    creation_lines: tuple[SourceLine | None, ...] = ()


class DoubleUpdateCounter:
    """Counts the steps. A step inside another belongs to an optimizer that wraps another one, and counts once."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.steps = self.repeated = 0
        self.shared_parameters: set[int] = set()
        self.stepped_since_backward: list[TrackedOptimizer] = []
        self.stacks, self.optimizers = StackCounter(), tuple[torch.optim.Optimizer, ...]()
        self.creation_lines: tuple[SourceLine | None, ...] = ()
        self.current_steps: list[TrackedOptimizer] = []
        self.parameter_ids: dict[int, frozenset[int]] = {}

    def track_optimizer(self, tracked: TrackedOptimizer) -> None:
        """Track an optimizer."""
        self.parameter_ids[id(tracked)] = frozenset(id(p) for p in tracked.parameters)

    def forget(self, tracked: TrackedOptimizer) -> None:
        """Forget an optimizer that has been replaced."""
        self.parameter_ids.pop(id(tracked), None)
        self.stepped_since_backward = [other for other in self.stepped_since_backward if other is not tracked]

    def on_backward_end(self) -> None:
        """Record a backward pass, which provides new gradients."""
        self.stepped_since_backward.clear()

    def on_step_begin(self, tracked: TrackedOptimizer) -> None:
        """Record the start of a step."""
        self.current_steps.append(tracked)

    def on_step_end(self, tracked: TrackedOptimizer, frame: FrameType | None = None) -> None:
        """Record the end of a step, which was called on a frame."""
        if tracked in self.current_steps:
            self.current_steps.remove(tracked)
        if self.current_steps or len(self.parameter_ids) < 2:
            return
        self.steps += 1
        own, others = self.parameter_ids[id(tracked)], [o for o in self.stepped_since_backward if o is not tracked]
        sharing = [other for other in others if own & self.parameter_ids[id(other)]]
        if sharing:
            self.repeated += 1
            self.stacks.add("repeated step", user_stack(frame))
            self.optimizers = self.optimizers or (sharing[0].optimizer, tracked.optimizer)
            if self.repeated == _MIN_REPEATED_STEPS:  # while variables of the user's functions hold them
                self.creation_lines = tuple(creation_line(self.setup, optimizer) for optimizer in self.optimizers)
        self.shared_parameters |= own & _union(self.parameter_ids[id(other)] for other in sharing)
        self.stepped_since_backward.append(tracked)

    def summary(self) -> DoubleUpdates:
        """Return all counts."""
        shared = frozenset(self.shared_parameters)
        return DoubleUpdates(self.steps, self.repeated, shared, self.optimizers, self.creation_lines)


def _union(sets: Iterable[frozenset[int]]) -> frozenset[int]:
    return frozenset().union(*sets)


@dataclass(frozen=True)
class ClippingSummary:
    """Counts of the calls that clip gradients of the monitored optimizers.

    ``late_calls`` had no backward pass between them and the previous step; ``missed_calls`` are those of them with a
    finite limit after a step whose gradients had not been clipped. Of the ``checked_calls``, whose backward
    pass was inspected, ``scaled_calls`` clipped gradients that a GradScaler had scaled and not yet unscaled.
    ``calls_without_parameters`` had an empty parameter list. ``norms`` and ``limits`` are those of evenly spread calls
    that clip by norm. ``update_share`` is the step size at the limit relative to the weight norm under plain gradient
    descent (None for other optimizers). ``limit_over_epsilon`` is the limit for one gradient value divided by the
    epsilon of an adaptive optimizer (None for others).
    """

    calls: int = 0
    late_calls: int = 0
    missed_calls: int = 0
    checked_calls: int = 0
    scaled_calls: int = 0
    calls_without_parameters: int = 0
    norms: tuple[float, ...] = ()
    limits: tuple[float, ...] = ()
    update_share: float | None = None
    limit_over_epsilon: float | None = None

    @property
    def acts_in_nearly_all_calls(self) -> bool:
        """True if the norm exceeds the limit in nearly all calls that clip by norm."""
        exceeding = sum(norm > limit for norm, limit in zip(self.norms, self.limits, strict=True))
        return exceeding >= _NEARLY_ALL * max(len(self.norms), 1)


class ClippingMonitor:
    """Counts clipping calls."""

    def __init__(self) -> None:
        self.calls = self.late_calls = self.missed_calls = self.checked_calls = self.scaled_calls = 0
        self.calls_without_parameters = 0
        self.norms: ThinnedStream[tuple[Tensor, float]] = ThinnedStream()
        self.last_tracked: TrackedOptimizer | None = None
        self.stacks = StackCounter()

    def record_call(self, clip: ClippingCall, tracked: TrackedOptimizer | None, frame: FrameType | None = None) -> None:
        """Record a call on a frame; ``tracked`` is the optimizer of the clipped parameters, None if it is unknown."""
        self.calls_without_parameters += not clip.parameters
        if not clip.parameters or (tracked is not None and not tracked.interval.has_backward):
            self.stacks.add("misplaced clip", user_stack(frame))
        if tracked is None:
            return
        self.calls += 1
        self.last_tracked, interval = tracked, tracked.interval
        self.late_calls += not interval.has_backward
        is_missed = tracked.steps > 0 and not tracked.was_clipped and math.isfinite(clip.limit)
        self.missed_calls += is_missed and not interval.has_backward
        self.checked_calls += interval.passes > 0
        if interval.scaled_passes > 0 and not interval.unscaled:
            self.scaled_calls += 1
            self.stacks.add("scaled clip", user_stack(frame))
        interval.clip, interval.is_clipped = clip, interval.is_clipped or interval.has_backward
        if clip.norm is not None and interval.has_backward:
            self.norms.add((clip.norm, clip.limit))

    def summary(self) -> ClippingSummary:
        """Return all counts; synchronizes the device."""
        norms = _fetch_numbers([norm for norm, _ in self.norms.items])
        limits = tuple(limit for _, limit in self.norms.items)
        update_share, limit_over_epsilon = (
            effect_of_limit(self.last_tracked, max(limits)) if self.last_tracked and limits else (None, None)
        )
        return ClippingSummary(
            self.calls,
            self.late_calls,
            self.missed_calls,
            self.checked_calls,
            self.scaled_calls,
            self.calls_without_parameters,
            norms,
            limits,
            update_share,
            limit_over_epsilon,
        )


def effect_of_limit(tracked_optimizer: TrackedOptimizer, limit: float) -> tuple[float | None, float | None]:
    """Return the relative step size of plain gradient descent at the limit, and the limit over Adam's epsilon.

    Momentum multiplies a constant gradient by 1 / (1 - momentum).
    """
    group, weights = (
        tracked_optimizer.optimizer.param_groups[0],
        [p.detach() for p in tracked_optimizer.parameters if p.numel()],
    )
    if isinstance(tracked_optimizer.optimizer, torch.optim.SGD):
        weight_norm = sum(norm * norm for norm in _fetch_numbers(tensor_norms(weights))) ** 0.5
        learning_rate = max(float(group["lr"]), float(group.get("initial_lr", 0.0)))
        momentum = min(float(group["momentum"]), _MAX_MOMENTUM)
        return learning_rate * limit / (1 - momentum) / max(weight_norm, 1e-12), None
    if "betas" in group and group.get("eps"):
        value_count = sum(weight.numel() for weight in weights)
        return None, limit / value_count**0.5 / float(group["eps"])
    return None, None
