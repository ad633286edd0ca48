"""O514: weight decay on biases and normalization weights."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.parameters import Entry, listed
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, network, points, program
from nbdebug.setup import Setup


@rule("O514", "note")
def weight_decay_on_norm(parameters: list[Entry], optimizers: tuple[torch.optim.Optimizer, ...]) -> Iterator[Finding]:
    """Weight decay pulls at biases and at the weights of normalizations.

    ## What it does
    Lists the trainable vectors (biases, weights of normalizations) in groups whose weight decay is not zero, when
    matrices are decayed too.

    ## Why it matters
    Decay is there to keep matrices small. The weight of a normalization is a scale around one and a bias an offset:
    pulled to zero they lose what they are for, and nothing is regularized by it. The effect is small in most runs.

    ## How it is measured
    Exactly, by the groups and the number of axes of each parameter.

    ## How to fix
    Give vectors a group of their own, with ``weight_decay=0``.

    ## When to ignore
    When your recipe decays everything, as many published ones do.

    ## References
    He et al. 2019, arXiv:1812.01187, section 3.1: no bias decay. Goodfellow, Bengio and Courville 2016, section 7.1.
    """
    decayed = [one for one in parameters if one.parameter.requires_grad and decay(one, optimizers) > 0]
    vectors = [one for one in decayed if one.parameter.dim() < 2]
    if not vectors or len(vectors) == len(decayed):
        return
    strongest = max(decay(one, optimizers) for one in vectors)
    yield Finding(
        message=f"Weight decay {strongest:.3g} pulls at {len(vectors)} biases and normalization weights, expected 0: "
        f"{listed(vectors)}.",
        where=Where(vectors[0].module or None, vectors[0].name),
        cause="All parameters stand in one group.",
        fix=SPLIT.format(kind=type(optimizers[0]).__name__, decay=strongest),
        evidence={"parameters": [one.name for one in vectors], "weight decay": strongest},
    )


SPLIT = """\
vectors = [p for p in model.parameters() if p.ndim < 2]
matrices = [p for p in model.parameters() if p.ndim >= 2]
optimizer = {kind}([{{"params": matrices, "weight_decay": {decay}}}, {{"params": vectors, "weight_decay": 0.0}}])"""


def decay(entry: Entry, optimizers: tuple[torch.optim.Optimizer, ...]) -> float:
    """The strongest weight decay that an optimizer applies to a parameter."""
    groups = [optimizers[i].param_groups[j] for i, j in entry.groups]
    return max((float(group.get("weight_decay", 0.0)) for group in groups), default=0.0)


def bad() -> Setup:
    """Decay on everything."""
    model = network(3)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    return program(model, *points(), nn.CrossEntropyLoss(), optimizers=(optimizer,))


def good() -> Setup:
    """No decay."""
    return classifier()
