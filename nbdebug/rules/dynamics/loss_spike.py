"""T605: sudden spikes of the loss."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding, Location
from nbdebug.loss_curves import RunSummary
from nbdebug.loss_curves.run_summary import get_run_summary
from nbdebug.loss_curves.stability import find_spikes
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import mlp, train, training_setup, waves
from nbdebug.setup import Setup

_MAX_STEPS_LISTED = 5  # spikes listed in a message

_MIN_LEARNED_SHARE = 0.5  # of the initial loss, in a run that its spike did not harm


@rule("T605", "warning")
def loss_spike(record: Record) -> Iterator[Finding]:
    """The loss spikes at single steps.

    ## What it does
    Reports the steps, and their batches within the epoch, at which the loss is far above the surrounding steps.

    ## Why it matters
    A batch whose loss is many times that of the others contains samples that are wrong or out of range; one step on it
    can undo many others.

    ## How it is measured
    A spike exceeds the running median of fifteen steps by ten times the local spread, exceeds twice the loss of the
    first steps, and exceeds three times the level that all steps but one per epoch stay below. The start of the run is
    excluded, and so is an increase that persists. The last batch of an epoch is excluded if it has at most half as many
    samples as the others: the mean of few samples varies. A single spike, of one or several steps, is a note if the
    run ended no higher than it was before, or converged.

    ## How to fix
    Inspect the samples of the reported batches. Clip gradients; use a loss that is less sensitive to outliers.

    ## When to ignore
    When rare samples are meant to have such a large loss.

    ## References
    Chowdhery et al. 2022, arXiv:2204.02311, section 5.1: spikes come from a batch and a state of the weights together.
    """
    summary = get_run_summary(record)
    if summary.step_count < 30:
        raise NotChecked(f"{summary.step_count} steps are too few to distinguish a spike from the start of training")
    positions = find_spikes(summary)
    if not positions or len(positions) > 3 + len(summary.loss) * max(0.05, 1.5 / max(summary.steps_per_epoch, 1)):
        return
    steps = [int(summary.steps[position]) for position in positions]
    worst = max(positions, key=lambda position: summary.loss[position])
    is_one_event = positions[-1] - positions[0] == len(positions) - 1
    has_recovered = is_one_event and _has_recovered(summary, positions[0], positions[-1])
    yield Finding(
        message=f"The loss spikes at {len(steps)} of {summary.step_count} steps: "
        f"{_list_steps(steps, summary.steps_per_epoch)}. The highest value is {summary.loss[worst]:.4g}, where "
        f"{_typical_loss(summary, worst):.4g} is typical.",
        where=Location(step=int(summary.steps[worst])),
        cause="Either the batches of these steps contain outliers, or the steps before them were too large.",
        fix=f"Look for outliers in the batch of step {int(summary.steps[worst])}, and correct or remove them; if it "
        "has none, train with a lower learning rate.",
        severity="note" if has_recovered else None,
        evidence={
            "steps": steps[:50],
            "of": summary.step_count,
            "steps per epoch": summary.steps_per_epoch,
            "batches": [(step - 1) % max(summary.steps_per_epoch, 1) + 1 for step in steps[:_MAX_STEPS_LISTED]],
            "highest": float(summary.loss[worst]),
            "typical": _typical_loss(summary, worst),
        },
    )


def _has_recovered(summary: RunSummary, first: int, last: int) -> bool:
    """Return whether the run ended no higher than it was before its only spike, and learned."""
    before, after = summary.loss[max(0, first - 8) : first], summary.loss[last + 8 :]
    has_ended_well = summary.end <= float(np.median(before)) or summary.has_converged
    return len(after) >= 8 and has_ended_well and summary.learned_share > _MIN_LEARNED_SHARE


def _typical_loss(summary: RunSummary, position: int) -> float:
    """Return the median loss of the surrounding steps."""
    neighbors = sorted(summary.loss[max(0, position - 8) : position + 9].tolist())
    return float(neighbors[len(neighbors) // 2])


def _list_steps(steps: list[int], per_epoch: int) -> str:
    """List the first steps, with their batch within the epoch if epochs are known."""
    batch = f" (batch {{}} of {per_epoch})" if per_epoch else ""
    texts = [
        f"{step}{batch.format((step - 1) % per_epoch + 1) if per_epoch else ''}" for step in steps[:_MAX_STEPS_LISTED]
    ]
    more = f" and {len(steps) - _MAX_STEPS_LISTED} more" if len(steps) > _MAX_STEPS_LISTED else ""
    return ", ".join(texts) + more


def _regression_with_outlier(outlier: float) -> Setup:
    """A regression with one target set to ``outlier`` unless it is 0."""
    model = mlp(4, 32, 1)
    x, y = waves()
    y[100] = y[100] if outlier == 0 else outlier
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    return training_setup(model, (x, y), waves(256, seed=1), torch.nn.MSELoss(), optimizer=optimizer)


def bad() -> Setup:
    """One target is a hundred times as large as the others."""
    return _regression_with_outlier(80.0)


def bad_loop(setup: Setup) -> None:
    """Twelve epochs, with clipped gradients."""
    train(setup, 12, clip=0.5)


def good() -> Setup:
    """All targets have a similar size."""
    return _regression_with_outlier(0.0)


def good_loop(setup: Setup) -> None:
    """Thirty epochs."""
    train(setup, 30)
