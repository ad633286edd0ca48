"""G407: all units of a layer start, and so stay, equal."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.early_steps import STEPS, Early
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup

TABLES = (nn.Embedding, nn.EmbeddingBag)


@rule("G407", "error")
def symmetric_weights(setup: Setup, early_steps: list[Early]) -> Iterator[Finding]:
    """All units of a layer start equal, get equal gradients and stay equal.

    ## What it does
    Looks for weights whose rows, one for each unit, are all the same, and stay the same in the first steps.

    ## Why it matters
    Equal units compute the same and learn the same: a layer of a hundred is worth one. No amount of training breaks it.

    ## How it is measured
    Rows are compared before, and again after four steps of gradient descent on a copy of the weights; units are equal
    when their rows differ by under a thousandth of one step. At least half of the rows must have a twin (the gates of a
    recurrent layer differ from one another even when their units do not). A layer of zeros whose units part in the
    steps (the last one of a residual branch, an adapter, a head) is left alone, and so are embedding tables, whose rows
    move only when they are looked up, and rows that part by dropout.

    ## How to fix
    Draw the weights at random; only biases and last layers may begin at zero.

    ## When to ignore
    Never in a layer that is meant to learn.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 8.4: initial parameters need to break symmetry.
    """
    head = next((name for name, module in reversed(list(setup.eager.named_modules())) if is_head(module)), None)
    for one in early_steps:
        if one.rows is None or one.distinct is None or 2 * one.distinct > one.rows:
            continue
        module = setup.eager.get_submodule(one.entry.module)
        if not isinstance(module, TABLES) and (one.entry.module != head or one.distinct == 1):
            yield finding(one, one.rows, one.distinct)


def finding(one: Early, rows: int, distinct: int) -> Finding:
    """One layer whose units are the same."""
    value = float(one.entry.parameter.detach().flatten()[0])
    return Finding(
        message=f"All {len(one.entry.parameter)} units of {one.entry.name} start with the same weights; after {STEPS} "
        f"steps {distinct} of {rows} compared differ, expected {rows}.",
        where=Where(one.entry.module or None, one.entry.name),
        cause=f"The weights were set to one value ({value:.3g}) instead of drawn at random.",
        fix=f"torch.nn.init.kaiming_uniform_(model.get_parameter({one.entry.name!r}))",
        evidence={"units": len(one.entry.parameter), "compared": rows, "distinct": distinct, "value": value},
        explains=("G408", "G416", "G415", "M307", "L208", "M306", "T601", "T606", "T607", "T608", "T610", "M314"),
    )


def is_head(module: nn.Module) -> bool:
    """Whether a module has a weight of its own, as the last one of a model must have."""
    return any(p.dim() > 1 for p in module.parameters(recurse=False))


def bad() -> Setup:
    """A network of which every weight is one tenth."""
    model = network(3)
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.1)
    return program(model, *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A network drawn at random, with a head of zeros."""
    setup = classifier()
    nn.init.zeros_(setup.model.get_parameter("2.weight"))
    return setup
