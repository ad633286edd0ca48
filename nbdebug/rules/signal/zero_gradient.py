"""G416: the gradient of a connected parameter is exactly zero."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from nbdebug.evidence.early_steps import STEPS, Early
from nbdebug.evidence.gradient_ends import End
from nbdebug.evidence.parameters import listed
from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier, points, program
from nbdebug.setup import Setup


@rule("G416", "error")
def zero_gradient(early_steps: list[Early], gradient_ends: list[End], loss: Tensor) -> Iterator[Finding]:
    """Parameters have a path to the loss, and their gradient is exactly zero.

    ## What it does
    Lists modules all of whose parameters get a gradient of exactly zero from each of the first batches, with the
    operation that turns a gradient into zeros: units that are all off, a dropout that drops all, a clamp, a rounding, a
    softmax over one value, a factor of zero.

    ## Why it matters
    The graph looks whole and no error is raised, and still nothing before that operation ever learns.

    ## How it is measured
    Over up to four batches, with a step of gradient descent on a copy of the weights after each, so that what a zero
    layer hides at the first step only (residual branches, adapters) is not accused. The operation is the nearest one
    on the way to the loss that is handed a gradient and hands on zeros alone. When no parameter gets any and the loss
    is zero, as with a margin that all samples keep, it is a note.

    ## How to fix
    Change the operation at the line that is named: a smooth or leaky one, a rate below one, a range that is not left.

    ## When to ignore
    When the part is used by rare samples alone, none of which stood in the first batches.

    ## References
    Lu et al. 2019, arXiv:1903.06733: dying ReLU and initialization. PyTorch notes on autograd mechanics.
    """
    rest = any(one.largest > 0 for one in early_steps)
    satisfied = not rest and abs(float(loss)) < 1e-12
    for one in gradient_ends:
        yield finding(one, satisfied)


def finding(end: End, satisfied: bool) -> Finding:
    """Modules whose gradient ends at one operation."""
    place = end.node.where if end.node else Where()
    last = end.entries[-1]
    where = place if place.line or place.module else Where(last.module or None, last.name)
    stop = f"{end.node.name} hands on zeros alone" if end.node else "every batch gives them zeros"
    return Finding(
        message=f"The gradient is exactly 0 in {STEPS} steps for {len(end.entries)} parameters that the loss depends "
        f"on ({listed(end.entries)}): {stop}.",
        where=where,
        cause="The loss is zero on these batches."
        if satisfied
        else "That operation is flat at every value it is given.",
        fix="# nothing to learn from these batches; are they too easy?" if satisfied else advice(end),
        evidence={"parameters": [one.name for one in end.entries], "operation": end.node.name if end.node else None},
        explains=() if satisfied else ("G401", "G403", "G414", "M307", "M306", "G415", "T601", "T607", "T608", "M314"),
        severity="note" if satisfied else None,
    )


def advice(end: End) -> str:
    """What to write at the operation that stops the gradient."""
    name = end.node.name if end.node else ""
    if name in ("Threshold", "Relu", "Clamp", "ClampMin", "ClampMax", "Hardtanh"):
        return "x = torch.nn.functional.leaky_relu(x)  # here; and scale what comes in"
    if name in ("Round", "Sign", "Floor", "Ceil", "Trunc"):
        return "x = x + (x.round() - x).detach()  # a gradient that passes straight through"
    return "# take out the factor of zero in this line: a dropout rate of 1, a mask of zeros, a saturated value"


class Rounded(nn.Module):
    """A network that rounds its hidden layer."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of rounded values."""
        logits: Tensor = self.head(torch.round(self.body(x)))
        return logits


def bad() -> Setup:
    """A hidden layer that is rounded."""
    return program(Rounded(), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A hidden layer that is not."""
    return classifier()
