"""G405: the first operation whose result is NaN or Inf while its inputs were finite."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor

from nbdebug.evidence.non_finite import NonFinite
from nbdebug.finding import Finding
from nbdebug.graph.origins import Origin
from nbdebug.registry import rule
from nbdebug.rules.programs import classifier
from nbdebug.setup import Batch, Setup

REPAIRS = {
    "log": "torch.log(x.clamp_min(1e-8))   # or log_softmax, logsigmoid, log1p, which need no such care",
    "log2": "torch.log2(x.clamp_min(1e-8))",
    "log10": "torch.log10(x.clamp_min(1e-8))",
    "div": "x / (y + 1e-8)   # or y.clamp_min(1e-8)",
    "reciprocal": "1 / x.clamp_min(1e-8)",
    "sqrt": "torch.sqrt(x.clamp_min(0) + 1e-12)",
    "rsqrt": "torch.rsqrt(x + 1e-12)",
    "pow": "x.clamp_min(1e-8) ** p",
    "exp": "torch.exp(x.clamp(max=20))   # or logsumexp, softmax, softplus, which need no such care",
    "softmax": "mask[mask.all(dim=-1)] = False   # leave at least one entry of each row unmasked, or drop the row",
    "acos": "torch.acos(x.clamp(-1 + 1e-6, 1 - 1e-6))",
    "asin": "torch.asin(x.clamp(-1 + 1e-6, 1 - 1e-6))",
    "mean": "# nothing is left to average here: skip what is empty",
    "to_copy": "x.float()   # or bfloat16: float16 ends at 65504",
    "std": "x.std(unbiased=False)   # one value has no sample deviation",
    "var": "x.var(unbiased=False)   # one value has no sample variance",
}
DEAD = ("G401", "G402", "G409", "G411", "G412", "G413", "G414")  # what is said of layers that hold NaN
CONSEQUENCES = (*DEAD, "G406", "T601", "T602", "T603", "T608", "L208", "M307", "E706", "E709")


@rule("G405", "error")
def non_finite_forward(non_finite: NonFinite | None) -> Iterator[Finding]:
    """The first operation whose result is NaN or Inf although its inputs were finite.

    ## What it does
    Where the loss of one of the first batches, or of a step of a watched loop, or its gradient, is not finite, it runs
    that batch again and watches every operation. It names the first that made NaN or Inf of finite numbers and whose
    result reaches the loss, your line, the range of its input, and the samples it happened in. NaN that is masked out
    of the loss afterwards still ruins the gradient. Infinity that a mask put in is no fault until something makes NaN
    of it.

    ## Why it matters
    One step later every weight is NaN, and nothing says where it began.

    ## How it is measured
    Exactly, under a dispatch mode that sees each operation of torch, in the modes the model is in. As long as all is
    finite, it costs forward and backward pass of four batches.

    ## How to fix
    Keep the input of the operation inside its domain, or use the stable form that torch has for the pair of operations.

    ## When to ignore
    Never: such a batch ruins the weights.

    ## References
    IEEE 754; N. Higham, Accuracy and Stability of Numerical Algorithms (2002).
    """
    if non_finite is not None and non_finite.origin is not None:
        yield finding(non_finite, non_finite.origin)


def finding(seen: NonFinite, origin: Origin) -> Finding:
    """The operation, its place, and what it was given."""
    samples = responsible(seen, origin)
    return Finding(
        message=f"The {seen.what} of {seen.named} is not finite: {origin.operation} gives {origin.made} for "
        f"finite inputs from {origin.low:.4g} to {origin.high:.4g}{among(samples, seen.batch)}.",
        where=replace(origin.where, sample=samples[0] if samples else None, step=seen.step),
        cause=f"{origin.operation} is not finite everywhere, and these inputs are where it is not.",
        fix=next((act for name, act in REPAIRS.items() if name in origin.operation), "x = x.clamp(-1e4, 1e4)"),
        evidence={
            "operation": origin.operation,
            "made": origin.made,
            "input range": [origin.low, origin.high],
            "shape": origin.shape,
            "samples": samples[:50],
            "batch": seen.number,
            "loss": seen.loss,
        },
        explains=CONSEQUENCES,
    )


def among(samples: list[int], batch: Batch) -> str:
    """Some samples as the end of a phrase; nothing where none are known."""
    if not samples:
        return ""
    more = ", …" if len(samples) > 5 else ""
    return f", in sample {', '.join(map(str, samples[:5]))}{more}{' of the batch' if batch.indices is None else ''}"


def responsible(seen: NonFinite, origin: Origin) -> list[int]:
    """The samples of the batch in which it happened, where the result has one entry for each and some are fine."""
    size = seen.batch.size
    if not origin.shape or origin.shape[0] != size or len(origin.rows) == size:
        return []
    return [seen.batch.sample(row) for row in origin.rows]


def by_hand(logits: Tensor, target: Tensor) -> Tensor:
    """Cross-entropy by a softmax that underflows, and its logarithm."""
    chosen = torch.softmax(logits * 1e4, dim=1)[torch.arange(len(target)), target]
    return -torch.log(chosen).mean()


def in_one(logits: Tensor, target: Tensor) -> Tensor:
    """The same by the stable form."""
    return -torch.log_softmax(logits, dim=1)[torch.arange(len(target)), target].mean()


def bad() -> Setup:
    """The logarithm of a probability that is zero."""
    return classifier(loss_fn=by_hand)


def good() -> Setup:
    """The logarithm of a softmax in one operation."""
    return classifier(loss_fn=in_one)
