"""G404: gradients grow by orders of magnitude, over the steps or towards the input."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location, format_module
from nbdebug.records import Record
from nbdebug.records.layer_signals import (
    MIN_DEPTH_CORRELATION,
    MIN_SNAPSHOTS,
    DepthProfile,
    depth_profile,
    has_learned,
    is_settled,
)
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, regressor, train
from nbdebug.setup import Setup
from nbdebug.statistics.intervals import MAD_TO_SIGMA

_MIN_DEVIATIONS = 6.0
_PATIENCE_STEPS = 20  # steps
_CONSEQUENCES = ("G401", "G402", "G410", "G412", "T602", "T603", "T604", "T605")


@rule("G404", "error")
def exploding_gradient(record: Record, *, decades: float = 2.0, along_depth: float = 4.0) -> Iterator[Finding]:
    """Gradients grow by orders of magnitude, over the steps or from layer to layer towards the input.

    ## What it does
    Follows the norm of the total gradient, as the optimizer receives it, over the steps of your run, and that of each
    layer over the depth of the model. The finding names the step, or the layer, and a clipping threshold.

    ## Why it matters
    A single step along such a gradient moves the weights far from their previous values; after it the loss is worse,
    not finite, or does not decrease any more.

    ## How it is measured
    Over the steps: the largest norm is ``decades`` = 2 powers of ten above the median of the run and of its start, lies
    six deviations above it on the logarithmic scale (robust, by the median absolute deviation), and the loss was
    affected: it is not finite at the end, is ten times as large, or has not decreased in twenty or more steps since. If
    the norm is clipped, the clipped norm is judged. Over the depth: the gradients of the first layers, relative to
    their weights, are ``along_depth`` = 4 powers of ten larger than those of later layers.

    ## How to fix
    Clip the norm at a value that is usual in the run; use a lower learning rate or a warm-up, an initialization that
    fits the activation, an orthogonal recurrent matrix, or normalization.

    ## When to ignore
    When single batches have much larger gradients by nature, and the loss recovers.

    ## References
    Pascanu, Mikolov and Bengio 2013, arXiv:1211.5063: why recurrent gradients explode, and clipping. Rousseeuw and
    Croux 1993: the median absolute deviation. The factor of 100 is a choice.
    """
    steps, norms = record.series("gradient_norm")
    if len(norms) < MIN_SNAPSHOTS:
        raise NotChecked(f"only {len(norms)} gradient norms were recorded; at least {MIN_SNAPSHOTS} are needed")
    burst = _find_burst(steps, norms.astype(np.float64), decades)
    if burst is not None and _loss_was_affected(record, burst.step):
        yield _burst_finding(record, burst)
        return
    try:
        by_layer = depth_profile(record, 1)
    except NotChecked:
        return
    gap = float(np.max(by_layer.relative) - by_layer.relative[-1])
    if (
        gap >= along_depth
        and by_layer.trend <= -MIN_DEPTH_CORRELATION
        and is_settled(record)
        and not has_learned(record)
    ):
        yield _depth_finding(by_layer)


_RECURRENT = ("RNN", "LSTM", "GRU")
_RECURRENT_CAUSE = (
    "Either the backward pass multiplied many factors above 1, as a recurrent network does over a long sequence, or an "
    "earlier step was too large."
)


@dataclass(frozen=True)
class GradientBurst:
    """The largest gradient norm, its step, the usual norm, and a clipping threshold."""

    step: int
    norm: float
    usual: float
    bound: float


def _find_burst(steps: NDArray[np.int64], norms: NDArray[np.float64], decades: float) -> GradientBurst | None:
    """The step at which the norm is far above the usual one of this run; None if there is no such step."""
    is_positive = norms > 0
    steps, norms = steps[is_positive], norms[is_positive]
    finite_norms = norms[np.isfinite(norms)]
    if not len(finite_norms):
        return None
    logs = np.log10(finite_norms)
    usual_log = min(float(np.median(logs)), float(np.median(logs[: max(3, len(logs) // 10)])))
    deviation = (
        max(MAD_TO_SIGMA * float(np.median(np.abs(logs - usual_log))), 0.05)
        if len(finite_norms) >= MIN_SNAPSHOTS
        else 0.0
    )
    threshold = usual_log + max(decades, min(_MIN_DEVIATIONS * deviation, 2 * decades))
    largest = int(np.argmax(norms))
    if not np.isfinite(norms[largest]) and float(logs.max()) < usual_log + 1:
        return None  # a sudden non-finite norm comes from a single operation, which another rule reports
    if norms[largest] < 10**threshold:
        return None
    return GradientBurst(
        int(steps[largest]),
        float(norms[largest]),
        10**usual_log,
        float(np.percentile(finite_norms[logs < threshold], 95)),
    )


def _loss_was_affected(record: Record, step: int) -> bool:
    """Return whether the loss is not finite or much larger at the end, or has not decreased since a step."""
    steps, losses = record.series("loss")
    if not len(losses):
        return False
    final_losses = losses[-max(3, len(losses) // 5) :].astype(np.float64)
    if not np.isfinite(final_losses).all():
        return True
    if float(np.median(final_losses)) > 10 * abs(float(losses[0])):
        return True
    losses_before, losses_after = losses[steps <= step], losses[steps > step]
    if not len(losses_before) or len(losses_after) < _PATIENCE_STEPS:
        return False
    level = min(float(np.median(losses_before[:_PATIENCE_STEPS])), float(np.median(losses_before[-_PATIENCE_STEPS:])))
    min_decrease = 0.05 if len(losses_after) < 5 * _PATIENCE_STEPS else 0.1
    current, first = float(np.median(losses_after[-_PATIENCE_STEPS:])), abs(float(losses[0]))
    return (
        current > level - min_decrease * abs(level)
        if not has_learned(record, 0.8)
        else current > level + min_decrease * first
    )


def _burst_finding(record: Record, burst: GradientBurst) -> Finding:
    description = (
        f"{burst.norm:.2g}, which is {burst.norm / burst.usual:.2g} times the usual {burst.usual:.2g} of this run"
        if np.isfinite(burst.norm)
        else f"not finite; the usual norm of this run is {burst.usual:.2g}"
    )
    losses = record.series("loss")[1]
    clipping = f"torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={burst.bound:.2g})"
    if any(module.kind.startswith(_RECURRENT) for module in record.modules):
        cause, fix = _RECURRENT_CAUSE, f"{clipping}   # before step()"
    else:
        cause = f"Either the steps before it were too large, or the batch of step {burst.step} contains outliers."
        fix = (
            f"Train again with a lower learning rate; if the batch of step {burst.step} contains outliers, correct "
            f"them, or clip before step(): {clipping}."
        )
    return Finding(
        message=f"The gradient norm at step {burst.step} is {description}. "
        f"The loss went from {losses[0]:.3g} to {losses[-1]:.3g}.",
        where=Location(step=burst.step),
        cause=cause,
        fix=fix,
        evidence={
            "step": burst.step,
            "norm": burst.norm,
            "usual": burst.usual,
            "norm over usual": burst.norm / burst.usual,
            "losses": (float(losses[0]), float(losses[-1])),
            "max_norm": burst.bound,
        },
        explains=_CONSEQUENCES,
    )


def _depth_finding(by_layer: DepthProfile) -> Finding:
    largest, shares = int(np.argmax(by_layer.relative)), 10.0**by_layer.relative
    return Finding(
        message=f"The gradient grows towards the input: the ratio of gradient norm to weight norm is "
        f"{shares[largest]:.2g} in {format_module(by_layer.layers[largest])} and {shares[-1]:.2g} in "
        f"{format_module(by_layer.layers[-1])}; the median over all layers is {np.median(shares):.2g}.",
        where=Location(by_layer.layers[largest]),
        cause="In the backward pass, each layer multiplies the gradient by weights that are too large.",
        fix="torch.nn.init.kaiming_normal_(layer.weight, nonlinearity='relu')   # of each layer, with zero biases",
        evidence={
            "layers": list(by_layer.layers),
            "gradient / weight": shares.tolist(),
            "median": float(np.median(shares)),
        },
        explains=_CONSEQUENCES,
    )


def _sgd_setup(rate: float) -> Setup:
    setup = regressor()
    return minimal_setup(
        setup.model, *_all_samples(setup), nn.MSELoss(), optimizers=(torch.optim.SGD(setup.model.parameters(), rate),)
    )


def _all_samples(setup: Setup) -> tuple[torch.Tensor, torch.Tensor]:
    batches = [*setup.train_loader]
    return torch.cat([x for x, _ in batches]), torch.cat([y for _, y in batches])


def _train_loop(setup: Setup) -> None:
    train(setup, 10)


def bad() -> Setup:
    """A learning rate at which each step overshoots further than the previous one."""
    return _sgd_setup(3.0)


def good() -> Setup:
    """A learning rate at which the loss decreases."""
    return _sgd_setup(0.05)


bad_loop = good_loop = _train_loop
