"""T604: the loss oscillates without settling."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loss_curves.run_summary import settled_run_summary
from nbdebug.loss_curves.stability import find_oscillation
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import mlp, train, training_setup, waves
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import rate_factor_fix


@rule("T604", "warning")
def oscillating_loss(record: Record, loop: LoopSummary | NotChecked, setup: Setup | NotChecked) -> Iterator[Finding]:
    """The loss oscillates without settling.

    ## What it does
    Divides the run into sixteen segments and counts how often the mean of a segment is far above that of the previous
    one.

    ## Why it matters
    A loss that keeps rising again overshoots the minimum: the learning rate or the momentum is too high, or gradients
    accumulate.

    ## How it is measured
    An increase counts if it is a quarter of the level and three standard errors of both segments (block bootstrap).
    Three such increases after the first fifth are too many, unless the last segments are well below the first. It
    requires sixty steps, a loss of at least a fifth of that of a constant prediction, and a run in which no other
    weights are loaded.

    ## How to fix
    Lower the learning rate or the momentum; clear the gradients between steps; reduce the learning rate by a schedule.

    ## When to ignore
    When the task itself changes during the run: restarts, curricula, moving targets.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 8.3.
    """
    if isinstance(loop, LoopSummary) and loop.weight_replacements:
        raise NotChecked("other weights were loaded during the run, as before each fold of a cross-validation")
    summary = settled_run_summary(record)
    if summary.step_count < 60:
        raise NotChecked(f"{summary.step_count} steps are too few to distinguish oscillations from noise")
    if (oscillation := find_oscillation(summary)) is None:
        return
    yield Finding(
        message="The loss oscillates: its mean over one sixteenth of the run was at least 25% above that of the "
        f"previous sixteenth {oscillation.rises} times (by at most {oscillation.largest:.0%}). It ended at "
        f"{summary.end_text}.",
        cause="Either the steps are so large that the weights overshoot the minimum in both directions, or the batches "
        "differ much, as those of data in a meaningful order.",
        fix=rate_factor_fix(setup, 0.1),
        evidence={
            "rises": oscillation.rises,
            "at least": 0.25,
            "largest": oscillation.largest,
            "end": summary.end,
            "remaining share": summary.remaining_share,
        },
        explains=("T605", "T606", "T610"),
    )


def bad() -> Setup:
    """A regression."""
    return training_setup(mlp(4, 32, 1), waves(), waves(256, seed=1), torch.nn.MSELoss(), lr=5e-3)


def bad_loop(setup: Setup) -> None:
    """Thirty epochs without zero_grad()."""
    for x, y in [*setup.train_loader] * 30:
        setup.loss_fn(setup.model(x), y).backward()  # type: ignore[misc]
        setup.optimizers[0].step()


def good() -> Setup:
    """The same regression."""
    return bad()


def good_loop(setup: Setup) -> None:
    """Thirty epochs."""
    train(setup, 30)
