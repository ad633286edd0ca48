"""T612: the loss repeats a pattern in every epoch."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loop_monitor.reset_weights import ResetWeights
from nbdebug.loss_curves import stability
from nbdebug.loss_curves.run_summary import get_run_summary
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup
from nbdebug.source.location import get_location

_MIN_EPOCHS, _MIN_BATCHES = 3, 6


@rule("T612", "warning")
def epoch_rhythm(record: Record, loop: LoopSummary | NotChecked) -> Iterator[Finding]:
    """The loss repeats a pattern in every epoch.

    ## What it does
    Aligns the loss of all epochs and checks whether they share the same low-frequency pattern. Also compares the
    weights at the start of each epoch with those after the step before, and with those at the starts of earlier epochs.

    ## Why it matters
    Samples in a meaningful order, such as sorted by class, move the weights back and forth: the model fits the last
    samples of the epoch and forgets the others. A state that is carried through an epoch, or stale statistics, cause
    the same pattern. If the weights are initialized again before each epoch, the model forgets all that it has learned.

    ## How it is measured
    It requires three epochs of six batches. The residual of each epoch, after subtracting its mean and the learning
    trend, correlates with those of the others by 0.6. Half of the variance of the pattern is in the slowest sixth of
    its frequencies (periodogram), or the loss of fixed training samples between epochs is three times the loss of the
    batches during training. The slow swing is at least half of the typical loss, and a twentieth of the loss of a
    constant prediction: a state that starts at zero in each epoch leaves a small one in a run that learned. A fixed
    order of similar batches repeats only fast differences between batches, which do not count. An order from easy to
    hard does not count either: after it, the loss of the fixed samples is not above the mean loss of the batches of the
    epoch.

    Weights count as reset if they change between the last step of each epoch and the first pass of the next one, while
    one optimizer trains them in all epochs. They must be either equal to those at the start of the first epoch, or
    new: up to 64 values of each of up to eight matrices have a correlation below 0.5 with their values at the start of
    the previous epoch, and the last matrix also with its values after the last step. This requires three epochs. A
    run whose learning rate rises tenfold to its end, as in a learning rate range test, is not reported.

    It is a note if the order may be intended: a recurrent model may carry its state from batch to batch, and a list of
    batches is not shuffled.

    ## How to fix
    ``DataLoader(dataset, shuffle=True)``; reset hidden states at the start of each epoch, but initialize weights once.

    ## When to ignore
    When the order is intended, as in a curriculum or a time series.

    ## References
    Bengio 2012, arXiv:1206.5533, section 3.1: the order of examples.
    """
    if isinstance(loop, LoopSummary) and loop.reset_weights:
        yield _reset_finding(loop.reset_weights)
        return
    summary = get_run_summary(record)
    if summary.steps_per_epoch < _MIN_BATCHES or len(summary.loss) < _MIN_EPOCHS * summary.steps_per_epoch:
        raise NotChecked(f"needs at least {_MIN_EPOCHS} epochs of at least {_MIN_BATCHES} batches")
    if not summary.loss_is_known:
        raise NotChecked("your loop minimizes a loss other than loss_fn, or no loss_fn was given: its targets may move")
    if (rhythm := stability.find_epoch_periodicity(summary)) is None:
        return
    yield Finding(
        message=f"The loss repeats a pattern every {summary.steps_per_epoch} steps (one epoch): its amplitude "
        f"is {rhythm.amplitude:.3g}, and the correlation between the {rhythm.periods} epochs is "
        f"{rhythm.agreement:.2f}.",
        cause="A hidden state is carried through each epoch, or the samples are in a meaningful order."
        if record.about.get("may_carry_state")
        else "The samples are in a meaningful order, for example sorted by class.",
        fix="If the samples do not follow each other in time, create the train loader with shuffle=True."
        if record.about.get("may_carry_state")
        else "Create the train loader with shuffle=True.",
        evidence={
            "period": summary.steps_per_epoch,
            "epochs": rhythm.periods,
            "swing": rhythm.amplitude,
            "agreement": rhythm.agreement,
            "slow": rhythm.slow_share,
        },
        explains=("T604", "T605"),
        severity="note" if record.about.get("may_carry_state") else None,
    )


def _reset_finding(reset: ResetWeights) -> Finding:
    """Report epochs that do not begin with the trained weights, at the line that replaces these."""
    change = (
        "Each time, they were reset to their values at the start of the first epoch."
        if reset.are_first
        else f"The correlation of a weight matrix with its previous values is at most {reset.correlation:.2g}."
    )
    return Finding(
        message=f"The weights were replaced before {reset.count} epochs, the first time after step {reset.step}. "
        f"{change} Each epoch therefore starts without what the earlier epochs learned.",
        where=get_location(reset.line),
        cause="The loop over the epochs restores the initial weights."
        if reset.are_first
        else "The loop over the epochs initializes the layers again.",
        fix="Initialize or load the weights once, before the loop over the epochs.",
        evidence={"epochs": reset.count, "step": reset.step, "correlation": reset.correlation},
        explains=("T601", "T604", "T605", "T606", "T607", "T610", "T611", "T614", "G410", "O502", "E709"),
    )


def bad() -> Setup:
    """Data sorted by class, and a learning rate at which the model forgets the first class."""
    x, y = rings()
    order = y.argsort(stable=True)
    model = mlp(8, 32, 2)
    options = {"optimizer": torch.optim.SGD(model.parameters(), lr=0.2), "batch_size": 16, "shuffle": False}
    return training_setup(model, (x[order], y[order]), rings(256, seed=1), torch.nn.CrossEntropyLoss(), **options)


def bad_loop(setup: Setup) -> None:
    """Eight epochs."""
    train(setup, 8)


def good() -> Setup:
    """Shuffled data."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
