"""T607: the loss equals that of a constant prediction of the label prior."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor.conclusions import LABELS_UNRELATED, LEARNS_POORLY
from nbdebug.loss_curves.convergence import MIN_STEPS, is_stuck_at_chance
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.measurements.reference import Reference, ReferenceComparison, compare_with_reference
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup


@rule("T607", "error")
def stuck_at_chance(record: Record, reference: Reference | NotChecked) -> Iterator[Finding]:
    """The loss equals that of a constant prediction of the label prior.

    ## What it does
    Compares the final loss of the run with your own loss for a constant prediction: the class frequencies, or the mean
    of the targets.

    ## Why it matters
    The network has learned the label frequencies and nothing about the inputs. Longer training does not help: the
    network does not receive the information that distinguishes samples, or no gradient propagates it.

    ## How it is measured
    The last fifth of the run is not below the constant prediction by more than two standard errors (block bootstrap)
    and at most a seventh above it; its second half decreases by at most a hundredth; and the score on fixed training
    samples, if there is one, is that of the most common class, within chance. It requires thirty steps. A loop that
    minimizes a loss other than ``loss_fn`` is not reported. The constant prediction is the best one for your own loss.
    It is a warning if a kernel ridge regression on up to 2,000 of the training samples is no better than a constant
    either.

    ## How to fix
    Check the findings that rank above it: inputs that do not reach the head (M301), labels unrelated to the inputs
    (D105), a wrong output or loss (L201, L205), a learning rate that is too low (O502) or has killed every unit (O501,
    G401).

    ## When to ignore
    When the inputs contain almost no information about the target, as for future returns.

    ## References
    Karpathy 2019, A Recipe for Training Neural Networks: the input-independent baseline.
    """
    summary = settled_run_summary(record)
    if summary.chance is None:
        raise NotChecked("for the loss that your loop minimizes, the loss of a constant prediction is unknown")
    if summary.step_count < MIN_STEPS:
        raise NotChecked(f"{summary.step_count} steps are too few to detect a stuck loss")
    if not is_stuck_at_chance(summary):
        return
    comparison = None if isinstance(reference, NotChecked) else compare_with_reference(summary, reference)
    is_unlearnable = comparison is not None and not comparison.is_informative
    yield Finding(
        message=f"After {summary.step_count} steps, the loss is {summary.end:.4g}, the mean over the last "
        f"fifth of the steps. A constant prediction, which ignores the input, reaches "
        f"{summary.chance:.4g}.{_describe(comparison)}",
        cause="The targets have no relation to the inputs that a simple learner finds either: they are random or "
        "misaligned, or the relation is complex."
        if is_unlearnable
        else "The output does not depend on the input in any useful way: inputs, labels or gradients are "
        "disconnected, or the steps do not reduce the loss.",
        fix="dbg.overfit()   # if the model cannot learn sixteen samples either, the fault is in the model or the loss",
        evidence={
            "steps": summary.step_count,
            "end": summary.end,
            "standard error": summary.end_error,
            "constant prediction": summary.chance,
            "training score": summary.train.last_score,
            "score of the most common class": summary.majority,
            "rows": comparison and comparison.rows,
            "reference": comparison and (comparison.reference, comparison.constant),
        },
        explains=("T601", "T606", "T608", "T610", "T614", "E702", "E703", "E706", "E709"),
        confirms=(LEARNS_POORLY, LABELS_UNRELATED) if is_unlearnable else (LEARNS_POORLY,),
        severity="warning" if is_unlearnable else None,
    )


def _describe(comparison: ReferenceComparison | None) -> str:
    """Return a sentence about the reference learner; empty without one."""
    if comparison is None:
        return ""
    return (
        f" On the same {comparison.rows:,} training rows, the {comparison.metric} of a simple learner "
        f"({comparison.learner}) is {comparison.reference:.3g}, although it has not seen the row that it predicts. "
        f"The {comparison.metric} of a constant prediction is {comparison.constant:.3g}."
    )


def bad() -> Setup:
    """Random labels, and a network that is too small to memorize them."""
    data = rings(noise=1.0), rings(256, noise=1.0, seed=1)
    return training_setup(mlp(8, 2, 2), *data, torch.nn.CrossEntropyLoss(), lr=1e-2)


def bad_loop(setup: Setup) -> None:
    """Eight epochs."""
    train(setup, 8)


def good() -> Setup:
    """Correct labels."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
