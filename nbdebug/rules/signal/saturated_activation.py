"""G402: sigmoids, tanhs or attentions are pinned at their ends."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import nn

from nbdebug.evidence.saturation import Saturated
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import points, program
from nbdebug.setup import Setup

WIDEST = 0.75


@rule("G402", "warning")
def saturated_activation(saturation: list[Saturated], *, most: float = WIDEST) -> Iterator[Finding]:
    """Sigmoids or tanhs inside the model, or the softmax of an attention, are pinned at their ends.

    ## What it does
    Reads what each hidden sigmoid and tanh, and each softmax over scores of attention, gave for the first batch. Speaks
    when more than ``most`` of its values (for a softmax: of its rows) lie where the slope is under a hundredth of the
    largest one. Names the first such activation of the model and counts the others.

    ## Why it matters
    What lies before a pinned activation gets next to no gradient. An attention that puts all its weight on one place
    can hardly learn to look elsewhere.

    ## How it is measured
    On the first batch, before training: a sigmoid beyond -6 and 6, a tanh beyond -3 and 3, a softmax with all but half
    a hundredth on one of several places that are not masked. Activations at the end of the model are left to the rules
    about losses.

    ## How to fix
    Scale what comes in: inputs to mean 0 and standard deviation 1, weights by ``nn.init.xavier_uniform_``, and scores
    of attention by ``1 / sqrt(d)``.

    ## When to ignore
    When a gate begins closed, or an attention sharp, on purpose.

    ## References
    Glorot and Bengio 2010, Understanding the difficulty of training deep feedforward neural networks. Vaswani et al.
    2017, arXiv:1706.03762, section 3.2.1: dividing by sqrt(d), since large scores leave softmax without a gradient.
    """
    pinned = [one for one in saturation if one.share > most]
    if pinned:
        yield finding(pinned[-1], len(pinned), most)


def finding(one: Saturated, count: int, most: float) -> Finding:
    """The activation that is nearest to the input."""
    call = one.node.name.lower()
    what, fix = ("values", "x = norm(x)  # before this call: nn.LayerNorm, or inputs that are standardized")
    if call == "softmax":
        what, fix = "rows", "scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])"
    more = f" ({count - 1} more activations are)" if count > 1 else ""
    return Finding(
        message=f"{one.share:.0%} of the {what} of a {call} are pinned at their ends before training{more}; expected "
        f"at most {most:.0%}.",
        where=one.node.where,
        cause="The scores are not divided by the root of their length, or what they are made of is large."
        if call == "softmax"
        else "What it is given is large: unscaled inputs, or large initial weights.",
        fix=fix,
        evidence={"share": one.share, "activations": count, "call": call},
        explains=("G403", "G409", "T601", "T606", "T607", "T608", "T610"),
    )


def activated(scale: float) -> Setup:
    """A network of tanhs whose first weights are drawn at a scale."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
        nn.init.normal_(model.get_parameter("0.weight"), std=scale)
    return program(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """Weights a hundred times too large."""
    return activated(50.0)


def good() -> Setup:
    """Weights by the width of the input."""
    return activated(0.5)
