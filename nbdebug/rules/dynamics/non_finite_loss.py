"""T603: the loss of a training loop is NaN or Inf."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.records import Record
from nbdebug.replay import Replay
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, network, points, train
from nbdebug.setup import Setup

_LOSSES_REPORTED = 20  # number of loss values reported before the first non-finite one
_LOWER_RATE_FIX = "Train with the learning rate that dbg.lr_range() suggests, or clip the gradients before each step."
_CHECK_OPTIMIZER_FIX = (
    "# the previous gradient was finite: check the optimizer's lr and eps, and code that writes to the weights"
)
_WATCH_AGAIN_FIX = "# watch the loop again without budget=: only the loss of the step in which it started was recorded"
_ASSERT_FINITE_FIX = "assert loss.isfinite(), 'stop before the step'   # before backward(), to preserve the weights"


@rule("T603", "error")
def non_finite_loss(record: Record, incident: Replay | NotChecked | None, *, growth: float = 1e3) -> Iterator[Finding]:
    """The loss is NaN or Inf.

    ## What it does
    Searches for steps of your loop whose loss was NaN or Inf. If the forward pass of the first one could be recorded,
    it is replayed from the same batch, weights and random state, and the responsible operation and its line are
    reported.

    ## Why it matters
    The next step sets every weight that the gradient reaches to NaN. The model learns nothing from then on, however
    long the run continues.

    ## How it is measured
    On the loss of every step. A step that a GradScaler skipped does not count. If the loss had grown by a factor of
    ``growth`` = 1,000 before, or the largest weight had, the run had diverged, and the operation that finally
    overflowed is not the cause.

    ## How to fix
    Fix the reported operation. After a divergence: a lower learning rate, a warm-up, or a limit on the norm of the
    gradient. Then restart from an earlier checkpoint, since the weights are lost.

    ## When to ignore
    A single Inf of a loss that is masked out afterwards, if the gradient is known to be finite.

    ## References
    IEEE 754; I. Goodfellow, Y. Bengio and A. Courville, Deep Learning (2016), section 8.2.4, on exploding gradients.
    """
    steps, losses = record.series("loss")
    wrong = np.isinf(losses) & ~np.isin(steps, _skipped_steps(record))
    if not len(steps):
        raise NotChecked("no loss was recorded")
    if not wrong.any():
        return
    first_position = int(wrong.argmax())
    first, past = int(steps[first_position]), np.abs(losses[:first_position][np.isfinite(losses[:first_position])])
    replay = incident if isinstance(incident, Replay) and incident.step <= first else None
    has_grown = len(past) > 0 and bool(past[-1] > min(growth * past[0], max(past[0], growth * np.median(past))))
    cause, fix = _cause_and_fix(replay, has_grown, past)
    non_finite_count, steps_since = int(wrong[first_position:].sum()), len(wrong) - first_position
    count_text = f"{'all' if non_finite_count == steps_since else non_finite_count} of the {steps_since} steps"
    replayed_finding = replay.finding if replay and not has_grown else None
    yield Finding(
        message=f"The loss is not finite since step {first}: NaN or Inf at {count_text} from there on."
        if wrong[-1]
        else f"The loss was NaN or Inf at {count_text} from step {first} on, and was finite again at the end.",
        where=replace(replayed_finding.where, step=first) if replayed_finding else Location(step=first),
        cause=cause,
        fix=fix,
        evidence={
            "step": first,
            "steps": int(wrong.sum()),
            "loss before": [float(value) for value in past[-_LOSSES_REPORTED:]],
            "replayed step": replay.step if replay else None,
            "operation": replay.operation if replay else None,
            "largest weight": list(replay.largest_weights) if replay else None,
        },
        explains=("T601", "T602", "T604", "T605", "T606", "T607", "T608", "T609", "T610", "M307", "E706", "E709"),
        severity=None if wrong[-1] else "warning",
    )


def _skipped_steps(record: Record) -> NDArray[np.int64]:
    steps, skipped = record.series("skipped")
    return steps[skipped > 0]


def _cause_and_fix(replay: Replay | None, has_grown: bool, past: NDArray[np.float32]) -> tuple[str, str]:
    """Return cause and fix."""
    if has_grown or (replay and replay.diverged):
        growth_text = (
            f"the loss had grown from {past[0]:.3g} to {past[-1]:.3g}" if has_grown else "the weights had grown"
        )
        weight_text = (
            f", the largest weight from {replay.largest_weights[0]:.3g} to {replay.largest_weights[1]:.3g}"
            if replay
            else ""
        )
        return f"The run had diverged: {growth_text}{weight_text}, until the values overflowed.", _LOWER_RATE_FIX
    if replay and replay.finding:
        return replay.finding.cause, replay.finding.fix
    if replay:
        is_unrecorded = replay.loss_only_steps and (replay.non_finite_weights or replay.rerun_loss is None)
        return (
            replay.verdict,
            _WATCH_AGAIN_FIX
            if is_unrecorded
            else _CHECK_OPTIMIZER_FIX
            if replay.non_finite_weights
            else _ASSERT_FINITE_FIX,
        )
    return (
        "Either an operation gave NaN or Inf in this step, such as a division by 0 or a logarithm of 0, or its batch "
        "contains such values.",
        _ASSERT_FINITE_FIX,
    )


def bad() -> Setup:
    """Squared error, with a learning rate at which each step overshoots further."""
    model = network(1)
    return minimal_setup(
        model, *_regression_points(), nn.MSELoss(), optimizers=(torch.optim.SGD(model.parameters(), lr=50.0),)
    )


def good() -> Setup:
    """The same task with a suitable learning rate."""
    model = network(1)
    return minimal_setup(
        model, *_regression_points(), nn.MSELoss(), optimizers=(torch.optim.SGD(model.parameters(), lr=0.05),)
    )


def _regression_points() -> tuple[Tensor, Tensor]:
    """Points and a real-valued target for each."""
    x, _ = points()
    return x, x.sum(1, keepdim=True) / 2


def _train_three_epochs(setup: Setup) -> None:
    """Three epochs of forward, backward and step."""
    train(setup, 3)


bad_loop = good_loop = _train_three_epochs
