"""T610: the network learns worse than a simple learner, or its loss remains high on both splits."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor.conclusions import LEARNS_POORLY
from nbdebug.loss_curves.convergence import find_plateau, is_falling_steeply, is_worse_than_chance
from nbdebug.loss_curves.run_summary import RunSummary, settled_run_summary
from nbdebug.measurements.reference import Reference, ReferenceComparison, compare_with_reference
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup

_NEXT_STEPS = """dbg.treatments()   # which small change cures it?
dbg.overfit()      # can the model learn sixteen samples?"""
_MIN_COMPARED_STEPS = 100  # fine-tuning of few steps has not been trained


@rule("T610", "warning")
def underfitting(
    record: Record, reference: Reference | NotChecked, *, poor: float = 0.5, gap: float = 0.1, learned: float = 0.75
) -> Iterator[Finding]:
    """The network learns the training samples worse than a simple learner, or its loss remains high.

    ## What it does
    Compares the score of the network on its own training samples with that of a kernel ridge regression or of random
    trees on the same samples. Without such a reference, it checks whether a run that no longer improves has at least
    half of the loss of a constant prediction.

    ## Why it matters
    A model that does not fit its training samples will not fit others. A simple learner that predicts them better shows
    that the information is in the inputs: more of the same training changes nothing.

    ## How it is measured
    Both score the same training samples, up to 2,000: the network in eval mode after training, the reference each
    sample without having seen it. It is a warning if the reference is better by ``gap`` = 0.1 of accuracy or explained
    variance, or by half of that with at most a third of the network's error; in any case by four standard errors of the
    paired difference. The run must have 100 steps or more, and its last quarter must have gained less than a twentieth
    of the remaining loss. It is a note if the network has reached ``learned`` = three quarters of the reference's gain
    over a constant prediction: more epochs may be all it needs. The loss must be one of torch's own, or equal one: only
    then is the output a prediction. Accuracy must be better balanced over the classes too, since a weighted loss trades
    one for the other. The reference was better by at most 0.01 on 14 of 15 healthy programs; on the other one, with
    weighted classes, only the balanced accuracy was lower. It was better by 0.05 or more on 6 of 11 programs with a
    layer of one unit or a dropout of 0.95.

    If the reference is no better, the labels are that noisy for both, and nothing is reported. If there is no
    reference, a loss at ``poor`` = half of the constant prediction or more on both splits, without a trend of three
    standard errors in the second half of the run, is a note; it is a warning if the loss is above that of the constant
    prediction and the model does not separate the samples. It is not reported at a score of 0.97 or more.

    ## How to fix
    Use a larger model, less dropout or weight decay, a suitable learning rate (O501, O502) or initialization.
    ``dbg.overfit()`` tests whether the model can learn at all.

    ## When to ignore
    When the network solves a harder task on purpose, for example from damaged inputs.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 5.2. Fernández-Delgado and others 2014, Do We Need
    Hundreds of Classifiers to Solve Real World Classification Problems?: kernel methods and random forests.
    """
    summary = settled_run_summary(record)
    comparison = None if isinstance(reference, NotChecked) else compare_with_reference(summary, reference)
    if comparison is not None:
        is_long = summary.step_count >= _MIN_COMPARED_STEPS
        if comparison.is_better(gap) and is_long and not is_falling_steeply(summary):
            yield _worse_than_reference_finding(summary, comparison, learned)
        return
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
        else "Either the steps are too large to find a minimum, or the outputs or targets are on a wrong scale: a bias "
        "alone would reach the loss of a constant prediction.",
        fix=_NEXT_STEPS,
        evidence={
            "steps": summary.step_count,
            "end": summary.end,
            "remaining share": summary.remaining_share,
            "constant prediction": summary.chance,
            "training": _last_value(summary.train.loss),
            "validation": _last_value(summary.val.loss),
            "score": summary.score,
        },
        severity="warning" if is_worthless else "note",
    )


def _worse_than_reference_finding(summary: RunSummary, comparison: ReferenceComparison, learned: float) -> Finding:
    """Report a reference learner that is better on the training samples of the network."""
    metric = comparison.metric
    return Finding(
        message=f"After {summary.step_count} steps, the training {metric} is {comparison.network:.3g}. A simple "
        f"learner ({comparison.learner}) reaches {comparison.reference:.3g} on the same {comparison.rows:,} rows, "
        "although it has not seen the row that it predicts.",
        cause="The inputs hold what the network has not learned: the model is too small or too strongly regularized, "
        "its initialization or learning rate is unsuitable, or it does not receive these inputs and targets in the "
        "loop.",
        fix=_NEXT_STEPS,
        evidence={
            f"network {metric}": comparison.network,
            f"reference {metric}": comparison.reference,
            f"constant {metric}": comparison.constant,
            "error of the difference": comparison.gain_error,
            "rows": comparison.rows,
            "steps": summary.step_count,
            "end": summary.end,
            "constant prediction": summary.chance,
        },
        explains=("T601", "T606", "E709"),
        confirms=(LEARNS_POORLY,),
        severity="note" if comparison.learned_share >= learned else None,
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
