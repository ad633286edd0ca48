"""T601: the loss does not change by more than its noise."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loss_curves.convergence import MIN_STEPS, is_flat, smallest_change
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup


@rule("T601", "warning")
def flat_loss(record: Record, loop: LoopSummary | NotChecked) -> Iterator[Finding]:
    """The loss does not change by more than its noise.

    ## What it does
    Checks whether the loss of a whole run ended where it started, while it is far from a good value.

    ## Why it matters
    The model learned nothing. The weights cannot change, the steps are too small, or they do not reduce the loss.

    ## How it is measured
    Relative to this run alone: the linear trend over all steps changes by less than three of its standard errors (block
    bootstrap) or by less than a fiftieth of the level, and the last fifth is at the level of the first steps, to four
    standard errors or a fiftieth. It requires thirty steps. It is not reported for a loss below half of the loss of a
    constant prediction, a high score, training samples that are classified better than by chance, a loss of fixed
    samples that fell by a twentieth or more, of training and validation, or a loop that minimizes something other than
    the known loss, as with adversaries and rewards, nor if several optimizers take turns with a backward pass for each
    of their steps; without a known loss nothing is.

    ## How to fix
    Check the findings that rank above it: parameters that never change (O503, M301), a learning rate that is too low
    (O502) or too high (O501), labels unrelated to the inputs (D105). Then run the tiny-batch test: ``dbg.overfit()``.

    ## When to ignore
    When the model was trained before, or the loss is meant to stay constant, as in a game of two networks.

    ## References
    Karpathy 2019, A Recipe for Training Neural Networks. Künsch 1989: the block bootstrap.
    """
    summary = settled_run_summary(record)
    if summary.step_count < MIN_STEPS:
        raise NotChecked(f"{summary.step_count} steps are too few to distinguish a flat loss from a slow one")
    if not summary.loss_is_known:
        raise NotChecked("your loop minimizes a loss other than loss_fn, or no loss_fn was given")
    if isinstance(loop, LoopSummary) and loop.alternates_losses:
        raise NotChecked("several optimizers take turns, each with a loss of its own")
    if not is_flat(summary):
        return
    yield Finding(
        message=f"The loss did not change: it was {summary.start:.4g} at the start and {summary.end:.4g} after "
        f"{summary.step_count} steps; a difference below {smallest_change(summary):.2g} (4 standard errors or 2% of "
        "the start) counts as none.",
        cause="The optimizer steps do not change anything that the loss depends on, or do not reduce it.",
        fix="dbg.overfit()   # can this model learn sixteen samples at all?",
        evidence={
            "start": summary.start,
            "end": summary.end,
            "steps": summary.step_count,
            "standard error": summary.end_error,
            "smallest change": smallest_change(summary),
            "standard errors": 4,
            "change": summary.full_trend.change,
            "share of constant prediction": summary.remaining_share,
        },
        explains=("T606", "T610", "T614"),
    )


def bad() -> Setup:
    """SGD with a learning rate that is a million times too low."""
    model = mlp(8, 16, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    return training_setup(model, rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), optimizer=optimizer)


def bad_loop(setup: Setup) -> None:
    """Five epochs."""
    train(setup, 5)


def good() -> Setup:
    """The same task with a suitable learning rate."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
