"""G406: the loss is finite, and its gradient is not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbdebug.evidence.gradient_origin import GradientOrigin
from nbdebug.finding import Finding
from nbdebug.registry import rule
from nbdebug.rules.programs import points, program
from nbdebug.rules.signal.non_finite_forward import DEAD, among
from nbdebug.setup import Setup

REPAIRS = {
    "Sqrt": "torch.sqrt(x + 1e-12)   # its slope at zero is infinite",
    "Pow": "(x + 1e-12) ** p   # below a power of one the slope at zero is infinite",
    "Acos": "torch.acos(x.clamp(-1 + 1e-6, 1 - 1e-6))   # its slope at -1 and 1 is infinite",
    "Asin": "torch.asin(x.clamp(-1 + 1e-6, 1 - 1e-6))   # its slope at -1 and 1 is infinite",
    "Atan2": "torch.atan2(y, x + 1e-12)   # it has no slope where both are zero",
    "Hypot": "torch.sqrt(x * x + y * y + 1e-12)",
    "Std": "torch.sqrt(x.var(…) + 1e-12)   # the slope of a deviation of zero is infinite",
    "Div": "x / (y + 1e-6)",
    "Log": "torch.log(x.clamp_min(1e-8))",
}


@rule("G406", "error")
def non_finite_gradient(gradient_origin: GradientOrigin | None) -> Iterator[Finding]:
    """The loss is finite, and its gradient is NaN or Inf.

    ## What it does
    Where the gradient of one of the first batches, or of a step of a watched loop, is not finite although its forward
    pass is, names the first operation of the backward pass that makes NaN or Inf of a finite gradient: a square root or
    a power at zero, an inverse cosine at one, a distance of a point to itself.

    ## Why it matters
    The printed loss looks right, and one step later every weight that the gradient reaches is NaN.

    ## How it is measured
    Exactly, by hooks on the operations of the autograd graph of that batch, run once more. The range is that of what
    the operation kept of its forward pass.

    ## How to fix
    Keep the input of the operation away from where its slope is infinite: by a small constant before the root, or by a
    clamp. A ``torch.where`` behind it does not help, since zero times infinity is NaN.

    ## When to ignore
    Never: such a batch ruins the weights.

    ## References
    PyTorch notes on autograd mechanics, gradients for non-differentiable functions; documentation of
    torch.autograd.detect_anomaly.
    """
    if gradient_origin is None:
        return
    node, name = gradient_origin.node, gradient_origin.node.name
    reach = gradient_origin.reach
    span = f", for values from {reach[0]:.4g} to {reach[1]:.4g}" if reach else ""
    seen, samples = gradient_origin.seen, gradient_origin.samples
    yield Finding(
        message=f"The loss of {seen.named} is finite, its gradient is not: on the way back, {name} "
        f"makes {gradient_origin.made} of a finite gradient{span}{among(samples, seen.batch)}.",
        where=replace(node.where, sample=samples[0] if samples else None, step=seen.step),
        cause=f"The slope of {name} is infinite, or no number, at some of these values.",
        fix=next((act for part, act in REPAIRS.items() if name.startswith(part)), "x = x.clamp(-1e4, 1e4)"),
        evidence={
            "operation": name,
            "made": gradient_origin.made,
            "range": reach,
            "samples": samples[:50],
            "batch": seen.number,
        },
        explains=(*DEAD, "G416", "G410", "T601", "T602", "T603", "T608", "E706", "E709"),
    )


class Measured(nn.Module):
    """A network that takes the distance of its hidden units from the first one."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self.least, self.body, self.head = least, nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of roots of squares; ``least`` is added under each root."""
        hidden = self.body(x)
        scores: Tensor = self.head(torch.sqrt((hidden - hidden[:, :1]).square() + self.least))
        return scores


def measured(least: float) -> Setup:
    """The same network each time, on points of three classes."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Measured(least)
    return program(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """A root of zero."""
    return measured(0.0)


def good() -> Setup:
    """A root of what is never zero."""
    return measured(1e-6)
