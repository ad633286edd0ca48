"""T615: a small change, tried on copies, cures poor learning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch

from nbdebug.finding import Finding
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import healthy_classifier, mlp, rings, training_setup
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.tools.treatments import Treatments

_LOOP_CAUSE = (
    "Something in the loop differs from zero_grad, forward, loss, backward, step, or its schedule stops learning."
)
_LOOP_FIX = """for x, y in train_loader:
    optimizer.zero_grad()
    loss = loss_fn(model(x), y)
    loss.backward()
    optimizer.step()   # put the other statements of your loop back one at a time"""


@rule("T615", "warning")
def curable_training(treatments: Treatments) -> Iterator[Finding]:
    """A small change of data, loss, optimizer or model cures poor learning.

    ## What it does
    Reads the result of ``dbg.treatments()``. Copies of the model are trained as they are, and with each of about twenty
    treatments: standardized inputs or targets, other learning rates, no weight decay, default settings of the
    optimizer, all parameters trained, shuffled or smaller batches, clipped gradients, no dropout, other activations,
    default initialization, normalized layers, a plain loss on logits, Adam. It names the treatment that cures.

    ## Why it matters
    If nothing else explains poor learning, what repairs it tells the cause.

    ## How it is measured
    By the accuracy or the explained variance on validation samples, else by the share of the initial loss that training
    removes. A treatment cures if, with each of the seeds, it reaches more in its steps than any run without treatment
    in four times as many. The difference must exceed what the second half of that run still gained, since learning
    curves gain about as much with each doubling of the steps, and a fifth of what is missing to a score of 1. Of the
    treatments that cure, the smallest change is named that gains three quarters of what the best one gains. Those that
    repair many ailments (other activations, normalized layers, Adam) are named only if no other one cures.

    If your own loop has run for as many steps as those runs without treatment, and the plain loop reaches more by the
    same margin, the loop itself is named.

    ## How to fix
    Apply the treatment to your own setup, and train in full.

    ## When to ignore
    When the setup is slow on purpose, for example a small learning rate for fine-tuning.

    ## References
    Zeller and Hildebrandt 2002, Simplifying and Isolating Failure-Inducing Input: a cause is a difference that, changed
    alone, makes the failure disappear.
    """
    best = treatments.best
    if treatments.verdict == "loop":
        yield Finding(message=treatments.headline, cause=_LOOP_CAUSE, fix=_LOOP_FIX, evidence=_evidence(treatments))
    elif treatments.verdict == "cure" and best is not None:
        yield Finding(
            message=treatments.headline,
            cause=best.treatment.cause,
            fix=best.treatment.fix,
            evidence={**_evidence(treatments), "treatment": best.name, "with treatment": best.score},
        )


def _evidence(treatments: Treatments) -> dict[str, object]:
    from nbdebug.tools.treatments.trial import LONGER

    return {
        "metric": f"{treatments.split} {treatments.metric}",
        "without treatment": treatments.untreated_score,
        "own loop": treatments.trained_score,
        "reference": treatments.reference_score,
        "steps": treatments.steps,
        "steps without treatment": LONGER * treatments.steps,
        "seeds": treatments.seeds,
    }


def bad() -> Setup:
    """A learning rate a thousand times too low."""
    return training_setup(mlp(8, 32, 2), rings(), rings(256, seed=1), torch.nn.CrossEntropyLoss(), lr=2e-5)


def good() -> Setup:
    """The same task with a suitable learning rate."""
    return healthy_classifier()
