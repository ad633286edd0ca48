"""X1052: a distribution or a loss gets a scale, a probability or a variance that it does not allow."""

from __future__ import annotations

import ast
import inspect

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.repairs import wrap_operand
from nbdebug.formatting import format_value
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup

_POSITIVE = "torch.nn.functional.softplus({}) + 1e-6"


@crash_rule("X1052")
def constraint_violated(crash: Crash) -> CrashCause | None:
    """A distribution gets a parameter that it is not defined for, or a Gaussian loss a negative variance.

    ## What it does
    Reads the values of the parameter and the constraint of the distribution, and names the function that maps any
    output of a model into it.

    ## Why it matters
    The distribution is undefined. The output of a linear layer can have any sign.

    ## How it is measured
    Exactly, by the values.

    ## How to fix
    Pass ``softplus(x)`` or ``exp(x)`` for what must be positive, ``sigmoid(x)`` for a probability, ``softmax(x)`` for
    probabilities that sum to 1, or pass logits.

    ## When to ignore
    Never: the distribution is undefined.

    ## References
    Documentation of torch.distributions.constraints, and of torch.nn.GaussianNLLLoss.
    """
    variance = crash.local("var", function="gaussian_nll_loss")
    if isinstance(variance, Tensor) and bool((variance < 0).any()):
        return _explain(crash, "gaussian_nll_loss", "var", variance, "positive", crash.argument_node("var", 2))
    frame = next((f for f in reversed(crash.torch_frames) if f.is_in("distributions/distribution")), None)
    if frame is None or frame.function != "__init__":
        return None
    name, value, owner = (frame.variables.get(key) for key in ("param", "value", "self"))
    if not isinstance(name, str) or not isinstance(value, Tensor):
        return None
    kind = type(owner)
    names = [*inspect.signature(kind.__init__).parameters][1:]  # type: ignore[misc]
    node = crash.argument_node(name, names.index(name)) if name in names else None
    return _explain(crash, kind.__name__, name, value, _allowed(frame.variables.get("constraint")), node)


def _allowed(constraint: object) -> str:
    """Return what a constraint allows, in one word."""
    text = f"{type(constraint).__name__} {constraint}".lower()
    words = (("simplex", "simplex"), ("unit", "unit"), ("greaterthan", "positive"), ("positive", "positive"))
    if "interval" in text and getattr(constraint, "lower_bound", None) == 0:
        return "unit"
    return next((allowed for word, allowed in words if word in text), "")


def _explain(
    crash: Crash, owner: str, name: str, value: Tensor, allowed: str, node: ast.expr | None
) -> CrashCause | None:
    low, high = torch.aminmax(value.detach())
    text = crash.text(node) if node is not None else name
    message = f"{owner} takes {_EXPECTED.get(allowed, 'finite numbers')} for {name}; {text} is {describe_tensor(value)}"
    message += f", from {format_value(float(low))} to {format_value(float(high))}."
    evidence = {"argument": text, "value": describe_tensor(value), "range": (float(low), float(high))}
    if not bool(value.isfinite().all()):
        message += " It has NaN or infinite values."
        return CrashCause(message, "What is computed before is not finite.", evidence=evidence)
    template, reason = _CHANGES.get(allowed, ("", ""))
    if not template or node is None:
        cause = f"{text} is outside of what {owner} allows."
        return CrashCause(message, cause, "Map it into the allowed range.", evidence=evidence)
    cause, edits = f"{text} can have any value: {reason}.", wrap_operand(crash, node, template)
    return CrashCause(message, cause, edits=edits, evidence=evidence)


_EXPECTED = {"positive": "positive numbers", "unit": "numbers from 0 to 1", "simplex": "probabilities that sum to 1"}
_CHANGES = {
    "positive": (_POSITIVE, "softplus (or exp) makes it positive"),
    "unit": ("{}.sigmoid()", "sigmoid maps it to 0…1; logits= takes it as it is"),
    "simplex": ("{}.softmax(-1)", "softmax makes it probabilities; logits= takes it as it is"),
}


def bad() -> Setup:
    """A normal distribution of which the model gives the scale."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        scores = setup.model(batch[0])
        noise = torch.distributions.Normal(0.0, scores - 5.0)
        return nn.functional.cross_entropy(noise.rsample(), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step without distributions."""
    return classifier()
