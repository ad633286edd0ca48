"""T614: the loss was still decreasing when training ended."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.empty_epochs import EmptyEpochs
from nbdebug.loss_curves.convergence import find_final_descent
from nbdebug.loss_curves.run_summary import get_run_summary
from nbdebug.records import Record
from nbdebug.rule_engine.loop_edits import repeat_outermost_loop
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup
from nbdebug.source.location import get_location


@rule("T614", "note")
def stopped_early(record: Record, loop: LoopSummary | NotChecked) -> Iterator[Finding]:
    """The loss was still decreasing when training ended.

    ## What it does
    Checks whether the loss still decreased by more than its noise in the last quarter of the run: a note. It is a
    warning if the decrease had not started to slow and most of the way remained. Also reports epochs in which the
    training loader yields no batch after one in which it did: an error, since training then ended before the loop did.

    ## Why it matters
    The same program would reach a better loss if it ran longer. Comparisons at that point compare the speed of the
    start, not the final quality.

    ## How it is measured
    The linear trend of the last quarter decreases by three standard errors (block bootstrap) and by a fiftieth of the
    remaining loss. It is steep if it decreases by a twelfth of the remaining loss and by four standard errors, no
    earlier quarter gained 1.5 times as much, and a quarter of the loss of a constant prediction remains; or if almost
    nothing was learned so far and the gain is a fiftieth. It is not reported at a score of 0.97 or more, nor for a loss
    that is above its start, as when two networks compete. An epoch is empty if the loader ends before its first batch;
    if the checks have read batches of a stream that can be read only once, two empty epochs are needed.

    ## How to fix
    Return a new iterator from ``__iter__`` in each epoch. Otherwise train longer, or raise the learning rate if each
    epoch is expensive (O502).

    ## When to ignore
    When the run was only a trial, or was ended on purpose.

    ## References
    Prechelt 1998, Early Stopping, But When? Neural Networks: Tricks of the Trade.
    """
    if isinstance(loop, LoopSummary) and loop.empty_epochs is not None:
        yield _empty_finding(loop.empty_epochs)
        return
    if not record.about.get("finished", True):
        raise NotChecked("the run is still in progress")
    if record.about.get("interrupted"):
        raise NotChecked("you stopped the run yourself")
    summary = get_run_summary(record)
    if (decrease := find_final_descent(summary)) is None:
        return
    yield Finding(
        message=f"The run ended at step {summary.step_count} while the loss was still decreasing. It ended at "
        f"{summary.end_text}. In the last quarter of the steps, it fell by {decrease.gain:.0%} of its final "
        f"value ({decrease.sigmas:.0f} standard errors).",
        where=Location(step=summary.step_count),
        cause="Either the loop has too few epochs, or the learning rate is too low for them.",
        fix="Train for five times as many epochs, and check where the loss settles.",
        evidence={
            "gain of the last quarter": decrease.gain,
            "standard errors": decrease.sigmas,
            "end": summary.end,
            "remaining share": summary.remaining_share,
            "steps": summary.step_count,
            "score": summary.score,
        },
        explains=("T610", "E709") if decrease.is_steep else (),
        edits=repeat_outermost_loop(loop.lines.get("backward"), 5) if isinstance(loop, LoopSummary) else (),
        severity="warning" if decrease.is_steep else None,
    )


def _count(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"


def _empty_finding(empty: EmptyEpochs) -> Finding:
    """Report epochs without a batch."""
    before = (
        f"an epoch of {_count(empty.batches, 'batch', 'batches')}"
        if empty.batches
        else f"the checks had read {_count(empty.read_ahead, 'batch', 'batches')}"
    )
    held = (
        f"The attribute {empty.iterator} of the dataset is an iterator" if empty.iterator else "The loader is a stream"
    )
    return Finding(
        message=f"The training loader yielded no batch in {_count(empty.epochs, 'epoch', 'epochs')}, after {before}. "
        "No step can follow in an empty epoch.",
        where=get_location(empty.line),
        cause=f"{held} that can be read only once, and it is not created again for the next epoch.",
        fix="# return a new iterator from __iter__ of the dataset, in place of one that __init__ has created",
        evidence={
            "empty epochs": empty.epochs,
            "batches before": empty.batches,
            "batches read ahead": empty.read_ahead,
            "iterator": empty.iterator,
        },
        explains=("T606", "T607", "T610", "T601", "O502", "E702", "E703", "E705", "E706", "E709"),
        aspect="empty epochs",
        severity="error",
    )


def bad() -> Setup:
    """A learning rate that is too low for six epochs."""
    model = mlp(8, 32, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    return training_setup(
        model, rings(1024), rings(256, seed=1), torch.nn.CrossEntropyLoss(), optimizer=optimizer, batch_size=64
    )


def bad_loop(setup: Setup) -> None:
    """Six epochs."""
    train(setup, 6)


def good() -> Setup:
    """A sufficiently high learning rate."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
