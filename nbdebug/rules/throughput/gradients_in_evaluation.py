"""P806: evaluation builds autograd graphs that are never used."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.loop_monitor import LoopSummary
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rule_engine.statement_edits import put_loop_in_block
from nbdebug.rules.examples import healthy_classifier, train
from nbdebug.setup import Setup
from nbdebug.source.location import get_location


@rule("P806", "note", affects_learning=False)
def gradients_in_evaluation(
    setup: Setup, loop: LoopSummary, *, least: int = 2, share: float = 0.5
) -> Iterator[Finding]:
    """Evaluation builds autograd graphs that are never used.

    ## What it does
    Checks for each pass over a batch of the validation loader whether gradients are enabled although no backward pass
    follows.

    ## Why it matters
    The graph keeps every activation of the pass in memory, several times what evaluation needs, and recording it takes
    time. Evaluation then runs out of memory at a batch size that would fit.

    ## How it is measured
    Exactly: ``least`` = 2 passes over validation batches with gradients enabled and without a backward pass, and more
    than a ``share`` of one half of all passes over validation batches.

    ## How to fix
    Run the loop over the validation loader under ``torch.no_grad()`` or ``torch.inference_mode()``.

    ## When to ignore
    When evaluation needs gradients of the inputs, as for adversarial robustness.

    ## References
    Documentation of torch.no_grad and torch.inference_mode.
    """
    passes = loop.forward_passes
    if not passes.validation_passes:
        raise NotChecked("no pass over batches of a validation loader was recorded in your loop")
    if not any(parameter.requires_grad for parameter in setup.eager_model.parameters()):
        raise NotChecked("no parameter requires a gradient, so no graph is built")
    if passes.validation_with_graph < least or passes.validation_with_graph <= share * passes.validation_passes:
        return
    yield Finding(
        message=f"{passes.validation_with_graph} of {passes.validation_passes} passes over validation batches built an "
        "autograd graph, but no backward pass used it.",
        where=get_location(passes.lines.get("validation")),
        cause="Gradients are enabled during evaluation; model.eval() does not disable them.",
        fix="Put the loop over the validation loader inside a block with torch.no_grad().",
        edits=put_loop_in_block(
            passes.lines.get("validation"), "with torch.no_grad():", without=loop.stacks.get("backward", ())
        ),
        evidence={"validation passes": passes.validation_passes, "with a graph": passes.validation_with_graph},
    )


def bad() -> Setup:
    """A classifier with a validation loader."""
    return healthy_classifier()


def _train_and_evaluate(setup: Setup, gradients: bool) -> None:
    for _ in range(3):
        train(setup, 1)
        with torch.set_grad_enabled(gradients):
            print(sum(setup.loss_fn(setup.model(x), y).item() for x, y in setup.val_loader))  # type: ignore[misc]


def bad_loop(setup: Setup) -> None:
    """Evaluates with gradients enabled."""
    _train_and_evaluate(setup, True)


def good() -> Setup:
    """The same classifier."""
    return healthy_classifier()


def good_loop(setup: Setup) -> None:
    """Evaluates without gradients."""
    _train_and_evaluate(setup, False)
