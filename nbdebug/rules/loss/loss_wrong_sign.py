"""L213: the loss is driven the wrong way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from torch import nn

from nbdebug.evidence.output_parts import Ideal
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.graph import Graph
from nbdebug.graph.search import line_setting
from nbdebug.graph.source import Line, where_of
from nbdebug.record import Record
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network
from nbdebug.setup import Setup
from nbdebug.setup.authors import authored

CONSEQUENCES = ("O501", "O510", "G404", "G410", "G412", "T602", "T604", "T605", "T608", "T610", "E702", "E706", "E709")

DEPTH, LEAST_LOSSES = 1e4, 3


@rule("L213", "error")
def loss_wrong_sign(
    setup: Setup, graph: Graph | NotChecked, ideal_loss: Ideal | NotChecked, record: Record | NotChecked
) -> Iterator[Finding]:
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
    and a variance, each that can be the target is tried alone. Of a loop that is watched: a loss that falls below zero
    to ``DEPTH`` = 10,000 times the size it began with has no floor; likelihoods and cosines stay far above that.

    ## How to fix
    Turn the sign of the loss, or take ``maximize=True`` out of the optimizer.

    ## When to ignore
    In a part that is meant to be fooled, such as the generator of an adversarial pair.

    ## References
    Documentation of torch.optim.SGD, argument ``maximize``.
    """
    if isinstance(record, Record) and (lowest := bottomless(record)):
        yield without_floor(graph, *lowest)
        return
    if isinstance(ideal_loss, NotChecked):
        raise ideal_loss
    up = any(group.get("maximize") for optimizer in setup.optimizers for group in optimizer.param_groups)
    right, wrong = ideal_loss.right, ideal_loss.wrong
    if right == wrong or (right > wrong) == up:
        return
    way = "up" if up else "down"
    name = type(setup.optimizers[0]).__name__ if setup.optimizers else "SGD"
    line = line_setting("maximize", True, authored(setup)) if up else root_line(graph)
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


def bottomless(record: Record) -> tuple[int, float, float] | None:
    """Step and value of the lowest loss, and the size of the first, where it has run down without an end."""
    steps, losses = record.series("loss")
    calm = losses[np.isfinite(losses)].astype(np.float64)
    if len(calm) < LEAST_LOSSES:
        return None
    first = max(float(np.abs(calm[:LEAST_LOSSES]).min()), 1.0)
    lowest = float(calm.min())
    return (int(steps[np.isfinite(losses)][calm.argmin()]), lowest, first) if lowest < -DEPTH * first else None


def without_floor(graph: Graph | NotChecked, step: int, lowest: float, first: float) -> Finding:
    """A loss that is unbounded below."""
    line = root_line(graph)
    where = replace(where_of(line), step=step)
    return Finding(
        message=f"The loss ran down to {lowest:.3g} by step {step}; it began at the size of {first:.3g}. "
        "It has no floor.",
        where=where,
        cause="A term that is to be kept small is subtracted, or its sign is turned: the larger it grows, the better.",
        fix="kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum()   # each term of the loss grows as it gets worse",
        evidence={"lowest": lowest, "first": first, "step": step},
        explains=(*CONSEQUENCES, "T603", "G405", "G406"),
    )


def root_line(graph: Graph | NotChecked) -> Line | None:
    """The line that made the loss, where the graph is known."""
    return graph.root.line if isinstance(graph, Graph) and graph.root else None


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
