"""G406: the loss is finite, but its gradient is not."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

import torch
from torch import Tensor, nn

from nbdebug.finding import Finding
from nbdebug.measurements.non_finite import GradientOrigin
from nbdebug.rule_engine.expression_edits import keep_inside_domain, line_of
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.rules.signal.non_finite_forward import NAN_CONSEQUENCES, describe_samples
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name

_FIXES = {
    "Sqrt": "torch.sqrt(x + 1e-12)   # the derivative at zero is infinite",
    "Pow": "(x + 1e-12) ** p   # below a power of one the derivative at zero is infinite",
    "Acos": "torch.acos(x.clamp(-1 + 1e-6, 1 - 1e-6))   # the derivative at -1 and 1 is infinite",
    "Asin": "torch.asin(x.clamp(-1 + 1e-6, 1 - 1e-6))   # the derivative at -1 and 1 is infinite",
    "Atan2": "torch.atan2(y, x + 1e-12)   # the derivative is undefined where both are zero",
    "Hypot": "torch.sqrt(x * x + y * y + 1e-12)",
    "Std": "torch.sqrt(x.var(dim=-1) + 1e-12)   # the derivative of a standard deviation of zero is infinite",
    "Div": "x / (y + 1e-6)",
    "Log": "torch.log(x.clamp_min(1e-8))",
}
_FALLBACK = (
    "Add a small number to the inputs of this operation, which keeps them away from where its derivative is infinite."
)


@rule("G406", "error")
def non_finite_gradient(gradient_origin: GradientOrigin | None) -> Iterator[Finding]:
    """The loss is finite, but its gradient is NaN or Inf.

    ## What it does
    If the gradient of one of the first batches, or of a step of a watched loop, is not finite although its forward pass
    is, names the first operation of the backward pass that turns a finite gradient into NaN or Inf: a square root or a
    power at zero, an inverse cosine at one, or the distance of a point to itself.

    ## Why it matters
    The printed loss looks correct, and one step later every weight that the gradient reaches is NaN.

    ## How it is measured
    Exactly, by hooks on the operations of the autograd graph of that batch, which is run once more. The reported range
    is that of the inputs or results which the operation saved in its forward pass.

    ## How to fix
    Keep the input of the operation away from points where its derivative is infinite: with a small constant before the
    root, or with a clamp. A ``torch.where`` after it does not help, since zero times infinity is NaN.

    ## When to ignore
    Never: such a batch corrupts the weights.

    ## References
    PyTorch notes on autograd mechanics, gradients for non-differentiable functions; documentation of
    torch.autograd.detect_anomaly.
    """
    if gradient_origin is None:
        return
    node, name = gradient_origin.node, gradient_origin.node.name
    value_range, role = gradient_origin.saved_range, gradient_origin.saved_role
    range_text = f", for {role} from {value_range[0]:.4g} to {value_range[1]:.4g}" if value_range else ""
    critical = gradient_origin.critical_value
    if critical is not None:
        result = _result_name(line_of(node.where), name) if role == "results" else ""
        range_text = f" where {result or 'its ' + role.removesuffix('s')} is exactly {critical:.4g}"
    non_finite, samples = gradient_origin.non_finite_batch, gradient_origin.samples
    yield Finding(
        message=f"The loss of {non_finite.description} is finite, but its gradient is not: in the backward pass, "
        f"{name} turns a finite gradient into "
        f"{gradient_origin.kind}{range_text}{describe_samples(samples, non_finite.batch)}.",
        where=replace(node.where, sample=samples[0] if samples else None, step=non_finite.step),
        cause=f"The derivative of {name} is infinite or undefined at "
        + ("some of these values." if critical is None else "this value."),
        fix=next((act for part, act in _FIXES.items() if name.startswith(part)), _FALLBACK),
        edits=keep_inside_domain(name, line_of(node.where)),
        evidence={
            "operation": name,
            "made": gradient_origin.kind,
            "range": value_range,
            "value": critical,
            "samples": samples[:50],
            "batch": non_finite.number,
        },
        explains=(*NAN_CONSEQUENCES, "G416", "G410", "T601", "T602", "T603", "T608", "E706", "E709"),
    )


def _result_name(line: SourceLine | None, operation: str) -> str:
    """Return the variable that a line assigns the result of an operation to; "" if it does not."""
    statement = covering_statement(line) if line else None
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return ""
    return statement.targets[0].id if call_name(statement.value) == operation.lower() else ""


class DistanceNetwork(nn.Module):
    """A network with square roots of squared distances plus an offset."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        self.offset, self.body, self.head = offset, nn.Linear(4, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        """Return the scores of 3 classes."""
        hidden = self.body(x)
        scores: Tensor = self.head(torch.sqrt((hidden - hidden[:, :1]).square() + self.offset))
        return scores


def _distance_setup(offset: float) -> Setup:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = DistanceNetwork(offset)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss())


def bad() -> Setup:
    """A root of zero."""
    return _distance_setup(0.0)


def good() -> Setup:
    """A root of values above zero."""
    return _distance_setup(1e-6)
