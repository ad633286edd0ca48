"""T610: training and validation loss both remain high."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loss_curves.convergence import find_plateau, is_worse_than_chance
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup


@rule("T610", "warning")
def underfitting(record: Record, *, poor: float = 0.5) -> Iterator[Finding]:
    """Training and validation loss both remain high.

    ## What it does
    Checks whether a run that no longer improves has at least half of the loss of a constant prediction, on both splits.
    It is a warning if the loss is above that of the constant prediction and the model does not separate the samples;
    otherwise a note, since label noise looks the same.

    ## Why it matters
    A model that does not fit its training samples will not fit others. More of the same training changes nothing.

    ## How it is measured
    The second half of the run has no trend of three standard errors (block bootstrap), and fixed samples of both
    splits, in eval mode, agree. It is not reported at a score of 0.97 or more.

    ## How to fix
    Use a larger model, more informative features, or a suitable learning rate (O501, O502). ``dbg.overfit()`` tests
    whether the model can learn at all.

    ## When to ignore
    When the labels are that noisy: compare with a simple baseline, or with human performance.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 5.2.
    """
    summary = settled_run_summary(record)
    if summary.chance is None:
        raise NotChecked("for the loss that your loop minimizes, the loss of a constant prediction is unknown")
    plateau_result, is_worthless = find_plateau(summary, poor), is_worse_than_chance(summary)
    if plateau_result is None and not is_worthless:
        return
    if len(summary.val.loss) and summary.val.loss[-1] > 1.5 * summary.train.loss[-1]:
        return
    yield Finding(
        message=f"After {summary.step_count} steps, the loss is at {summary.end_text} and no longer decreases.",
        cause="The model is too small for the task, the learning rate is unsuitable, or the labels are noise."
        if not is_worthless
        else "The network is worse than a constant prediction.",
        fix="dbg.overfit()   # can the model learn sixteen samples?",
        evidence={
            "end": summary.end,
            "constant prediction": summary.chance,
            "training": _last_value(summary.train.loss),
            "validation": _last_value(summary.val.loss),
            "score": summary.score,
        },
        severity="warning" if is_worthless else "note",
    )


def _last_value(values: object) -> float | None:
    items = list(values)  # type: ignore[call-overload]
    return float(items[-1]) if items else None


def bad() -> Setup:
    """A linear model for a task that requires a hidden layer."""
    return training_setup(mlp(8, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=2e-2)


def bad_loop(setup: Setup) -> None:
    """Fifteen epochs."""
    train(setup, 15)


def good() -> Setup:
    """The same task with a hidden layer."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
