"""T602: the loss increases."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.loss_curves.run_summary import get_run_summary
from nbdebug.loss_curves.stability import find_divergence
from nbdebug.records import Record
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, train, training_setup
from nbdebug.setup import Setup
from nbdebug.setup.optimizer_code import setting_fix
from nbdebug.setup.setup import maximizing_optimizer
from nbdebug.setup.source_lines import option_line
from nbdebug.source.location import get_location

_MORE_CAUSES = (
    "Check the sign of the loss, then lower the learning rate, and clear the gradients before each backward()."
)


@rule("T602", "error")
def diverging_loss(setup: Setup, record: Record, loop: LoopSummary | NotChecked) -> Iterator[Finding]:
    """The loss increases during training.

    ## What it does
    Checks whether the loss rises over the run and over its second half, to above both its initial value and the loss of
    a constant prediction.

    ## Why it matters
    The optimizer steps increase the loss: their sign is wrong, they are too large, or they do not follow the gradient
    of this loss.

    ## How it is measured
    The last fifth of the run must exceed both baselines by a tenth and by four standard errors (block bootstrap), and
    also the lowest tenth of the run. A loss that cannot be compared with a constant prediction, such as that of
    moving targets or of a growing queue of negatives, must have increased tenfold. Such a loss is not judged if several
    optimizers step, since an adversary may raise it.

    ## How to fix
    Check the sign of the loss (L213) and ``maximize=``. Then lower the learning rate (O501), clear the gradients (O505)
    and clip them.

    ## When to ignore
    When the loss is meant to increase, for example if the weight of one of its terms is raised during the run.

    ## References
    PyTorch documentation of torch.optim, ``maximize``.
    """
    summary = get_run_summary(record)
    if summary.chance is None and isinstance(loop, LoopSummary) and not loop.has_one_optimizer:
        raise NotChecked("several optimizers step, and no loss of a constant prediction is known")
    if (divergence := find_divergence(summary)) is None:
        return
    maximizing = maximizing_optimizer(setup)
    line = option_line(setup, maximizing, "maximize", True) if maximizing is not None else None
    yield Finding(
        message=f"The loss increased from {summary.start:.4g} at the first steps to a mean of {divergence.end:.4g} in "
        "the last fifth of the run.",
        where=replace(get_location(line), step=summary.step_count),
        cause="The loss values alone do not show the cause. Possible causes are a wrong sign of the loss, a learning "
        "rate that is too high, and gradients that are not cleared."
        if maximizing is None
        else "maximize=True is set, so the optimizer steps increase the loss.",
        fix=_MORE_CAUSES if maximizing is None else setting_fix(setup, "maximize", False),
        evidence={
            "start": summary.start,
            "lowest": divergence.lowest,
            "end": divergence.end,
            "constant prediction": summary.chance,
        },
        explains=("T604", "T605", "T606", "T607", "T610"),
    )


def bad() -> Setup:
    """An optimizer that maximizes the loss."""
    model = mlp(8, 16, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, maximize=True)
    return training_setup(model, rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), optimizer=optimizer)


def bad_loop(setup: Setup) -> None:
    """Five epochs."""
    train(setup, 5)


def good() -> Setup:
    """The same optimizer minimizes the loss."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Twenty epochs."""
    train(setup, 20)
