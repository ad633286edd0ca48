"""E712: the evaluations of a loop use the training loader, and nothing uses the validation loader."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.rule_engine.metric_edits import exchange_loaders
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, train
from nbdebug.setup import Setup
from nbdebug.setup.loaders import batch_count
from nbdebug.source.location import get_location


@rule("E712", "warning")
def evaluating_on_training(setup: Setup, loop: LoopSummary, *, least: int = 2, share: float = 0.9) -> Iterator[Finding]:
    """The loop evaluates on the training loader, and never draws a batch of the validation loader.

    ## What it does
    Counts the batches that your own loop draws from each loader, and the passes in eval mode without gradients.

    ## Why it matters
    The score is that of samples that the model was trained on. It keeps rising while the model memorizes them, and says
    nothing about new data.

    ## How it is measured
    Exactly. Reported if the loop draws batches from no other loader than the training loader, and evaluates it at least
    ``least`` = 2 times, with passes for at least the share ``share`` = 0.9 of its batches.

    ## How to fix
    Pass the validation loader to the function that evaluates.

    ## When to ignore
    When this loop only tracks the training score, and the model is validated elsewhere.

    ## References
    T. Hastie, R. Tibshirani, J. Friedman, The Elements of Statistical Learning (2009), section 7.4: optimism of the
    training error rate.
    """
    if setup.val_loader is None or setup.val_loader is setup.train_loader:
        raise NotChecked("there is no validation loader beside the training loader")
    evaluations, batches = loop.training_evaluations, batch_count(setup.train_loader)
    if evaluations.rounds < least or not batches or evaluations.passes < share * batches * evaluations.rounds:
        return
    yield Finding(
        message=f"The loop evaluated {evaluations.passes} batches of the training loader in {evaluations.rounds} "
        "evaluations, and drew no batch of the validation loader.",
        where=get_location(evaluations.line),
        cause="The function that evaluates receives the training loader.",
        fix="Pass the validation loader to the function that evaluates.",
        edits=exchange_loaders(setup, evaluations.line),
        evidence={"evaluations": evaluations.rounds, "batches": evaluations.passes},
    )


def bad() -> Setup:
    """A classifier with separate loaders."""
    return healthy_classifier()


def bad_loop(setup: Setup) -> None:
    """Evaluates the training batches after each epoch."""
    for _ in range(3):
        train(setup, 1)
        _evaluate(setup, setup.train_loader)


def good() -> Setup:
    """The same classifier."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Evaluates both loaders after each epoch."""
    for _ in range(3):
        train(setup, 1)
        _evaluate(setup, setup.train_loader)
        _evaluate(setup, setup.val_loader)


def _evaluate(setup: Setup, loader: Iterable[Any]) -> None:
    setup.model.eval()
    with torch.no_grad():
        for x, _ in loader:
            setup.model(x)
    setup.model.train()
