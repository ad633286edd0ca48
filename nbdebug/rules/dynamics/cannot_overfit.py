"""T608: the tiny batch cannot be memorized."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch import nn

from nbdebug.finding import Finding, Where
from nbdebug.registry import rule
from nbdebug.rules.programs import regressor
from nbdebug.setup import Setup

if TYPE_CHECKING:
    from nbdebug.tools.overfit import Overfit

CAUSES = {
    "settings": "The model can learn these examples, your optimizer and its settings cannot.",
    "not finite": "A value in the data, the model or the loss is not finite, or grows until it is not.",
    "no gradient": "No gradient reaches the parameters that would have to move.",
    "capacity": "The model has fewer parameters than these examples have target values.",
    "model": "Something between input and loss keeps outputs from their targets: head, loss, or the path of gradients.",
}
ACTS = {
    "settings": "# look at the learning rate (O501, O502) and at what the optimizer holds (O503, O504):\n"
    "optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)",
    "not finite": "# look for NaN and Inf in the data first (D103):\n"
    "assert all(torch.isfinite(t).all() for t in next(iter(train_loader)))",
    "no gradient": "# which parameters have a gradient after loss.backward()?\n"
    "{name: p.grad is not None and bool(p.grad.any()) for name, p in model.named_parameters()}",
    "capacity": "# make the model wider, or see whether fewer examples can be memorized:\ndbg.overfit(examples=4)",
    "model": "# can the head give what the loss asks for? compare on one batch:\n"
    "output = model(x); print(output.min(), output.max(), output.shape, y.min(), y.max(), y.shape)",
}


@rule("T608", "error")
def cannot_overfit(overfit: Overfit) -> Iterator[Finding]:
    """The model cannot memorize a tiny batch.

    ## What it does
    Reads the tiny-batch test: a few examples, the same tensors at every step, first with your loss and optimizer
    settings, then with Adam from the same weights, at most 300 steps in all. Speaks when the loss stalls well above
    what these examples allow, in train mode and in eval mode.

    ## Why it matters
    A network that cannot learn sixteen examples by heart cannot learn from a whole data set either. The test takes
    seconds and rules out half of what can be wrong.

    ## How it is measured
    Against the attainable floor, found by optimizing a free output by your own loss: so label smoothing, weights,
    soft targets and contradictory examples are counted in. The goal lies a tenth of the way from that floor to the
    best constant output; a fault is only what leaves more than a quarter of that way and has stopped falling.

    ## How to fix
    Follow what was ruled out: what is left is the place to look at. Other findings, such as a softmax in front of the
    loss, say it exactly and rank above this one.

    ## When to ignore
    When the model is not meant to memorize: fewer parameters than examples (then this is a note), or outputs that are
    bound on purpose.

    ## References
    Karpathy 2019, A Recipe for Training Neural Networks: overfit one batch. Zhang et al. 2017, arXiv:1611.03530:
    networks fit any labels.
    """
    if overfit.verdict != "fail":
        return
    dead = overfit.attempts[-1].dead if overfit.attempts else ()
    yield Finding(
        message=overfit.headline,
        where=where(dead) if overfit.cause in ("no gradient", "model") else Where(),
        cause=CAUSES[overfit.cause],
        fix=ACTS[overfit.cause],
        evidence={
            "floor": overfit.floor,
            "best constant output": overfit.chance,
            "goal": overfit.goal,
            "steps": overfit.steps,
            "examples": len(overfit.examples),
            "parameters without gradient": list(dead),
            "ruled out": list(overfit.ruled_out),
        },
        severity="note" if overfit.cause == "capacity" else None,
    )


def where(dead: tuple[str, ...]) -> Where:
    """The first parameter without a gradient, if any."""
    return Where(module=dead[0].rpartition(".")[0] or None, parameter=dead[0]) if dead else Where()


def bad() -> Setup:
    """A sigmoid head for targets of which half are negative."""
    return regressor(nn.Sigmoid())


def good() -> Setup:
    """The same with a linear head."""
    return regressor()
