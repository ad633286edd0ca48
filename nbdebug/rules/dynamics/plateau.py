"""T606: the loss has stopped decreasing well above zero."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loss_curves import convergence as standing
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup


@rule("T606", "note")
def plateau(record: Record) -> Iterator[Finding]:
    """The loss has stopped decreasing well above zero.

    ## What it does
    Reports the step after which the loss does not improve by more than its noise, if it is far from zero.

    ## Why it matters
    The steps after it are wasted. Either the data do not allow more, and training can stop earlier; or the learning
    rate, the model or the data limit the loss.

    ## How it is measured
    The second half of the run has no trend of three standard errors (block bootstrap); the last change of level, by
    binary segmentation, is in the first two thirds of the run; and the loss is at least a quarter of that of a constant
    prediction. It is not reported if the last quarter of the run improved, nor if the loss differs from its start by
    less than its noise while that of fixed samples fell by a twentieth or more after that change, nor for a loop that
    minimizes something other than a known loss, as with adversaries and rewards: its best value is unknown.

    ## How to fix
    Lower the learning rate by a schedule and check whether the loss decreases further. If not, use a larger model or
    better data.

    ## When to ignore
    When the task is noisy and the loss is at the noise level.

    ## References
    Scott and Knott 1974: binary segmentation; Schwarz 1978: its penalty.
    """
    summary = settled_run_summary(record)
    if summary.step_count < standing.MIN_STEPS:
        raise NotChecked(f"{summary.step_count} steps are too few to detect a plateau")
    if not summary.loss_is_known:
        raise NotChecked("your loop minimizes a loss other than loss_fn, or no loss_fn was given: its floor is unknown")
    if (result := standing.find_plateau(summary)) is None:
        return
    yield Finding(
        message=f"Since step {result.start_step} of {summary.step_count}, "
        f"the loss has not improved by more than its noise; it is at {summary.end_text}.",
        where=Location(step=result.start_step),
        cause="The loss values alone do not show the cause. Possible causes are noise in the labels or inputs, a "
        "learning rate that is too high, and a model that is too small.",
        fix="Lower the learning rate when the loss stops improving, as ReduceLROnPlateau does, or use a larger model.",
        evidence={
            "since": result.start_step,
            "steps": summary.step_count,
            "end": summary.end,
            "share": result.remaining_share,
            "gain of the second half": -summary.second_half.change,
        },
    )


def bad() -> Setup:
    """60% of the labels are random."""
    data = rings(noise=0.6), rings(256, noise=0.6, seed=1)
    return training_setup(mlp(8, 8, 2), *data, torch.nn.CrossEntropyLoss(), lr=2e-2)


def bad_loop(setup: Setup) -> None:
    """Fifteen epochs."""
    train(setup, 15)


def good() -> Setup:
    """Correct labels."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
