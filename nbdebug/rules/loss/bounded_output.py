"""L209: the last activation cannot reach the targets."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor, nn

from nbdebug.evidence.comparisons import Comparison
from nbdebug.finding import Finding
from nbdebug.graph import Pattern
from nbdebug.graph.ranges import BOUNDED, CALLS, Range, range_of
from nbdebug.graph.rewrite import drop
from nbdebug.registry import rule
from nbdebug.rules.programs import regressor
from nbdebug.setup import Setup

LAST = Pattern(BOUNDED, frozenset())
CONSEQUENCES = ("L208", "L210", "G401", "G402", "G403", "G415", "G409", "T601", "T606", "T607", "T608", "T610", "E709")


@rule("L209", "error")
def bounded_output(comparisons: list[Comparison], *, share: float = 0.01, slack: float = 0.01) -> Iterator[Finding]:
    """The last activation cannot reach the targets.

    ## What it does
    Takes the range of the activation that ends the output, such as [0, 1] of a sigmoid or [0, inf) of a ReLU, and
    counts the targets that lie outside.

    ## Why it matters
    The error of these targets can never reach zero. The outputs go to the end of their range, where the gradient
    vanishes, and the rest of the targets suffer with them.

    ## How it is measured
    On the autograd graph and the targets of the first batch, for squared, absolute and Huber errors. Speaks when more
    than ``share`` of the targets lie outside by more than ``slack`` of their own standard deviation.

    ## How to fix
    End in a linear layer, or scale the targets into the range.

    ## When to ignore
    When targets outside are outliers that you mean to cut.

    ## References
    Goodfellow, Bengio and Courville 2016, Deep Learning, section 6.2.2: linear units for means of real values.
    """
    for one in comparisons:
        target = one.target.detach().float()
        margin = slack * float(target.std()) if target.numel() > 1 else 0.0
        for node in LAST.behind(one.nodes):
            reach = range_of(node)
            outside = (target < reach.low - margin) | (target > reach.high + margin)
            if float(outside.float().mean()) <= share:
                continue
            call = CALLS[node.name]
            yield Finding(
                message=message(call, reach, target, outside),
                where=node.where,
                cause=f"{call} ends the output, and no weights can make it give these values.",
                fix=drop(node, {call, call.title(), "ReLU"}, "end in a linear layer, or scale the targets"),
                evidence={"range": str(reach), "share outside": float(outside.float().mean()), **ends(target)},
                explains=CONSEQUENCES,
            )


def message(call: str, reach: Range, target: Tensor, outside: Tensor) -> str:
    """How many targets cannot be reached."""
    low, high = ends(target).values()
    share = float(outside.float().mean())
    return f"{share:.0%} of the targets lie outside {reach}, all that {call} can give: they run from {low} to {high}."


def ends(target: Tensor) -> dict[str, float]:
    """The smallest and the largest target."""
    return {"lowest target": round(float(target.min()), 4), "highest target": round(float(target.max()), 4)}


def bad() -> Setup:
    """A sigmoid head for targets of which half are negative."""
    return regressor(nn.Sigmoid())


def good() -> Setup:
    """The same with a linear head."""
    return regressor()
