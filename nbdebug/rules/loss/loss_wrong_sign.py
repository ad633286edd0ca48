"""L213: the loss is driven the wrong way."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.output_parts import Ideal
from nbdebug.finding import Finding
from nbdebug.graph import Graph
from nbdebug.graph.search import line_setting
from nbdebug.graph.source import where_of
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network
from nbdebug.setup import Setup
from nbdebug.setup.authors import authored

CONSEQUENCES = ("O501", "O510", "G404", "G410", "G412", "T602", "T604", "T605", "T608", "T610", "E702", "E706", "E709")


@rule("L213", "error")
def loss_wrong_sign(setup: Setup, graph: Graph, ideal_loss: Ideal) -> Iterator[Finding]:
    """The optimizer drives the loss the wrong way.

    ## What it does
    Asks your loss for the value of a perfect answer to the first batch and for that of the opposite one, and looks
    whether the optimizer, which descends unless ``maximize`` is set, is led to the perfect one.

    ## Why it matters
    The model learns to be wrong, ever surer. A likelihood or a score without its minus sign, a ``maximize=True`` that
    was left on: the loss runs to minus infinity, or up without end.

    ## How it is measured
    For class labels, yes-or-no targets and real values of the shape of the output: the loss of the targets themselves
    (as logits or probabilities) against the loss of their opposite. Where the output has several parts, such as a mean
    and a variance, each that can be the target is tried alone.

    ## How to fix
    Turn the sign of the loss, or take ``maximize=True`` out of the optimizer.

    ## When to ignore
    In a part that is meant to be fooled, such as the generator of an adversarial pair.

    ## References
    Documentation of torch.optim.SGD, argument ``maximize``.
    """
    up = any(group.get("maximize") for optimizer in setup.optimizers for group in optimizer.param_groups)
    right, wrong = ideal_loss.right, ideal_loss.wrong
    if right == wrong or (right > wrong) == up:
        return
    way = "up" if up else "down"
    name = type(setup.optimizers[0]).__name__ if setup.optimizers else "SGD"
    line = line_setting("maximize", True, authored(setup)) if up else graph.root.line if graph.root else None
    yield Finding(
        where=where_of(line),
        message=f"The loss is driven {way}: from {right:.4g} for a perfect answer to {wrong:.4g} for a wrong one.",
        cause="maximize=True is set, and the loss is one to make small."
        if up
        else "A better answer has a larger loss.",
        fix=f"optimizer = {name}(model.parameters(), lr=...)  # without maximize=True" if up else "loss = -loss",
        evidence={"loss of a perfect answer": right, "loss of a wrong answer": wrong, "maximize": up},
        explains=CONSEQUENCES,
    )


def bad() -> Setup:
    """Cross-entropy that is maximized."""
    model = network(3)
    up = torch.optim.SGD(model.parameters(), lr=0.1, maximize=True)
    setup = classifier(optimizers=(up,))
    setup.model = model
    return setup


def good() -> Setup:
    """A likelihood that is maximized."""
    cross_entropy = nn.CrossEntropyLoss()
    setup = bad()
    setup.loss_fn = lambda output, target: -cross_entropy(output, target)
    return setup
