"""How a loop changes gradients between the backward pass and the step: own clipping and scaling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import median

import torch
from torch import Tensor

from nbdebug.loop_monitor.gradient_accumulation import TrackedOptimizer, effect_of_limit
from nbdebug.loop_monitor.loss_weights import LossWeights
from nbdebug.loop_monitor.write_trace import WriteTrace
from nbdebug.tensors.sampling import strided_sample, tensor_norms

_MAX_PARAMETERS, _MAX_SAMPLED_VALUES = 64, 256  # of the model; of each gradient
_MIN_COMMON_SHARE = 0.2  # of the values have the common ratio, if gradients are scaled or clipped
_RATIO_TOLERANCE = 1e-3
_MIN_VALUES = 16  # values that are clipped on one side, and larger ones that are not on the other
_MIN_SUM_WEIGHT = 2  # that of a sum over two targets; a mean over those that are not ignored has more than 1
_MIN_NORMS, _FIXED_SHARE = 6, 0.9
_NORM_TOLERANCE = 0.1  # the norm of signs varies with the number of zeros
_MAX_SHARE_OF_ONE_NORM, _SAME_NORM_TOLERANCE = 0.5, 0.01  # before the change
_NEARLY_ALL_VALUES = 0.99  # have the common ratio, if all gradients were scaled by one factor
_sample_values = partial(strided_sample, limit=_MAX_SAMPLED_VALUES)


@dataclass(frozen=True)
class GradientChanges:
    """Counts of the inspected steps whose gradients the loop changed after the backward pass.

    In ``one_sided_steps`` of the ``changed_steps``, it changed only gradients of one sign, and left larger ones of the
    other sign; ``side`` is that sign. ``norms_before`` and ``norms_after`` are the gradient norms at all inspected
    steps. ``update_share`` and ``limit_over_epsilon`` are what a step with the last norm does, as in
    `ClippingSummary`. ``loss_factor`` is the factor between a loss and the root of the backward pass.
    ``has_constant_rate`` tells whether the learning rate was the same at all inspected steps. In ``negated_passes`` of
    the ``weighted_passes``, which started from losses of torch, each of these entered with a negative weight. In
    ``averaged_passes`` of them, none entered with more than that of a mean over the batch. ``divisions_after_clipping``
    are the numbers by which the gradients were divided between a call that clips their norm and the step, for steps
    that change all gradients by one factor.
    """

    changed_steps: int = 0
    one_sided_steps: int = 0
    side: int = 0
    norms_before: tuple[float, ...] = ()
    norms_after: tuple[float, ...] = ()
    update_share: float | None = None
    limit_over_epsilon: float | None = None
    loss_factor: float = 1.0
    has_constant_rate: bool = True
    weighted_passes: int = 0
    negated_passes: int = 0
    averaged_passes: int = 0
    divisions_after_clipping: tuple[float, ...] = ()

    @property
    def fixes_norm(self) -> bool:
        """True if nearly all steps had gradients of one norm that the loop had changed from other norms.

        So do clipping by norm at a limit that nearly all gradients exceed, normalization, and signs of gradients.
        """
        before, after = self.norms_before, self.norms_after
        if len(after) < _MIN_NORMS:
            return False
        norm = median(after)
        fixed = [first for first, last in zip(before, after, strict=True) if _is_near(last, norm, _NORM_TOLERANCE)]
        changed = [first for first in fixed if not _is_near(first, norm, _NORM_TOLERANCE)]
        if norm == 0 or len(changed) < _FIXED_SHARE * len(after):
            return False
        alike = sum(_is_near(first, median(changed), _SAME_NORM_TOLERANCE) for first in changed)
        return alike < _MAX_SHARE_OF_ONE_NORM * len(changed)


class GradientChangeMonitor:
    """Compares samples of the gradients after the backward pass and before the step, at inspected steps."""

    def __init__(self) -> None:
        self.changed_steps = 0
        self.one_sided_steps = {1: 0, -1: 0}
        self.norms: list[tuple[float, float]] = []
        self.samples: dict[int, Tensor] = {}
        self.write_trace = WriteTrace()
        self.last_tracked: TrackedOptimizer | None = None
        self.loss_factor = 1.0
        self.weighted_passes, self.negated_passes, self.averaged_passes = 0, 0, 0
        self.rates: set[float] = set()
        self.divisions_after_clipping: list[float] = []

    def on_backward_end(self, parameters: Sequence[Tensor], loss_weights: LossWeights) -> None:
        """Sample the gradients after a backward pass, and trace who writes to them if they were changed before."""
        self.write_trace.close()
        gradients = {id(p): p.grad for p in parameters[:_MAX_PARAMETERS] if p.grad is not None and _is_dense(p.grad)}
        self.samples = {key: _sample_values(gradient).clone() for key, gradient in gradients.items()}
        if self.changed_steps:
            self.write_trace.open([*parameters, *gradients.values()])
        self.loss_factor = loss_weights.loss_factor()
        weights = loss_weights.values()
        self.weighted_passes += bool(weights)
        self.negated_passes += bool(weights) and max(weights) < 0
        self.averaged_passes += bool(weights) and max(weights) < _MIN_SUM_WEIGHT

    def on_step_begin(self, tracked: TrackedOptimizer) -> None:
        """Compare the gradients with those after the backward pass; synchronizes the device."""
        self.write_trace.close()
        samples, self.samples = self.samples, {}
        pairs = [
            (samples[id(p)], _sample_values(p.grad))
            for p in tracked.parameters
            if id(p) in samples and p.grad is not None and _is_dense(p.grad)
        ]
        if not pairs:
            return
        before, after = (torch.cat([pair[position] for pair in pairs]).double() for position in (0, 1))
        norm_before, norm_after = float(before.norm()), float(after.norm())
        if not (math.isfinite(norm_before) and math.isfinite(norm_after)):
            return
        self.last_tracked = tracked
        self.rates.add(float(tracked.optimizer.param_groups[0]["lr"]))
        self.record_norms(tracked, norm_before, norm_after)
        if torch.equal(before, after):
            return
        self.changed_steps += 1
        self.record_division(tracked, before, after)
        counts = torch.stack([_clipped_counts(first.double(), last.double()) for first, last in pairs]).sum(0).tolist()
        for side, (clipped, larger_on_other_side) in ((1, counts[:2]), (-1, counts[2:])):
            other_clipped = counts[2] if side > 0 else counts[0]
            self.one_sided_steps[side] += not other_clipped and min(clipped, larger_on_other_side) >= _MIN_VALUES

    def record_norms(self, tracked: TrackedOptimizer, sample_before: float, sample_after: float) -> None:
        """Record the norm of all gradients before the step; that after the backward pass follows from the samples."""
        gradients = [p.grad for p in tracked.parameters if p.grad is not None and _is_dense(p.grad)]
        norm = float(torch.stack([value.double() for value in tensor_norms(gradients)]).norm())
        self.norms.append((norm * sample_before / sample_after if sample_after else 0.0, norm))

    def record_division(self, tracked: TrackedOptimizer, before: Tensor, after: Tensor) -> None:
        """Record by how much the gradients shrank after a call that had clipped their norm; synchronizes the device."""
        clip, (_, norm) = tracked.interval.clip, self.norms[-1]
        if clip is None or clip.norm is None or not tracked.interval.is_clipped or not norm:
            return
        ratios = (after / before)[before != 0]
        common = _most_frequent(ratios)
        if ((ratios - common).abs() <= _RATIO_TOLERANCE * common.abs()).double().mean() >= _NEARLY_ALL_VALUES:
            self.divisions_after_clipping.append(min(float(clip.norm), clip.limit) / norm)

    def summary(self) -> GradientChanges:
        """Return all counts; synchronizes the device."""
        side = max(self.one_sided_steps, key=lambda sign: self.one_sided_steps[sign])
        update_share, limit_over_epsilon = (
            effect_of_limit(self.last_tracked, self.norms[-1][1]) if self.last_tracked else (None, None)
        )
        return GradientChanges(
            self.changed_steps,
            self.one_sided_steps[side],
            side,
            tuple(before for before, _ in self.norms),
            tuple(after for _, after in self.norms),
            update_share,
            limit_over_epsilon,
            self.loss_factor,
            len(self.rates) <= 1,
            self.weighted_passes,
            self.negated_passes,
            self.averaged_passes,
            tuple(self.divisions_after_clipping),
        )


def _clipped_counts(before: Tensor, after: Tensor) -> Tensor:
    """Count, for positive and negative values, those clipped, and larger ones of the other sign that are not.

    Not clipped are those with the ratio that most values share, such as one, or the factor of a clipping by norm.
    """
    nonzero = before != 0
    before, after = before[nonzero], after[nonzero]
    if not before.numel():
        return torch.zeros(4, dtype=torch.int64, device=before.device)
    ratios = after / before
    common = _most_frequent(ratios)
    is_common = (ratios - common).abs() <= _RATIO_TOLERANCE * common.abs()
    if common <= 0 or is_common.double().mean() < _MIN_COMMON_SHARE:
        return torch.zeros(4, dtype=torch.int64, device=before.device)
    counts = []
    for sign in (1, -1):
        clipped = before[~is_common & (before * sign > 0)].abs()
        others = before[is_common & (before * sign < 0)].abs()
        larger = (others > clipped.median()).sum() if clipped.numel() else torch.zeros_like(is_common.sum())
        counts += [torch.as_tensor(clipped.numel(), device=before.device), larger]
    return torch.stack(counts)


def _is_near(norm: float, other: float, tolerance: float) -> bool:
    return abs(norm - other) <= tolerance * other


def _most_frequent(ratios: Tensor) -> Tensor:
    """Return the ratio that most values share to three digits."""
    digits = (torch.log(ratios.abs().clamp_min(1e-30)) / _RATIO_TOLERANCE).round()
    return ratios[digits == digits.mode().values].median()


def _is_dense(gradient: Tensor) -> bool:
    return gradient.layout is torch.strided and gradient.is_floating_point()
