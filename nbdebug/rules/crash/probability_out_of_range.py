"""X1039: a loss that takes probabilities gets values outside of 0…1."""

from __future__ import annotations

import ast

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import find_layer_creation
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.formatting import format_value
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import node_text, replace_node, wrap_node


@crash_rule("X1039")
def probability_out_of_range(crash: Crash) -> CrashCause | None:
    """Binary cross-entropy gets an output or a target outside [0, 1].

    ## What it does
    Reads the smallest and the largest value of output and target of ``binary_cross_entropy``.

    ## Why it matters
    The loss is the logarithm of a probability and cannot be computed.

    ## How it is measured
    Exactly, by the values.

    ## How to fix
    Keep the outputs as they are, and take the loss with logits, or apply ``sigmoid`` first; scale targets to [0, 1].

    ## When to ignore
    Never: the loss cannot be computed.

    ## References
    Documentation of torch.nn.BCELoss and torch.nn.BCEWithLogitsLoss.
    """
    output, target = crash.local("input", function=_LOSS), crash.local("target", function=_LOSS)
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or "between 0 and 1" not in crash.message:
        return None
    evidence = {"output": _range(output), "target": _range(target)}
    if not _is_outside(output):
        message = f"The targets of binary_cross_entropy are {describe_tensor(target)}, {_range(target)}."
        return CrashCause(
            message, "The loss takes targets from 0 to 1.", "Scale the targets to 0…1.", evidence=evidence
        )
    message = f"binary_cross_entropy takes probabilities; its input is {describe_tensor(output)}, {_range(output)}."
    if not bool(output.isfinite().all()):
        message += " It holds NaN or infinite values."
        return CrashCause(message, "The model computes values that are not finite.", evidence=evidence)
    if _is_outside(target):
        evidence["target"] += ", outside of 0…1 too"
    cause = "The output has no sigmoid, so it holds logits: take the loss that expects them."
    return CrashCause(message, cause, edits=_with_logits(crash), evidence=evidence)


_LOSS = "binary_cross_entropy"


def _is_outside(tensor: Tensor) -> bool:
    return not bool(((tensor >= 0) & (tensor <= 1)).all())


def _range(tensor: Tensor) -> str:
    low, high = torch.aminmax(tensor.detach())
    return f"from {format_value(float(low))} to {format_value(float(high))}"


def _with_logits(crash: Crash) -> tuple[Edit, ...]:
    """Return the edit that takes the loss with logits, where it is called or created."""
    if crash.own is None or crash.call is None:
        return ()
    if isinstance(crash.layer, nn.BCELoss):
        creation = find_layer_creation(crash, crash.layer)
        function = creation.call.func if creation is not None else None
        if creation is not None and function is not None and node_text(creation.file, function).endswith("BCELoss"):
            name = node_text(creation.file, function).removesuffix("BCELoss") + "BCEWithLogitsLoss"
            return (replace_node(creation.file, function, name),)
    if isinstance(crash.call.func, (ast.Attribute, ast.Name)) and crash.operation == _LOSS:
        text = crash.text(crash.call.func)
        if isinstance(crash.call.func, ast.Attribute):
            return (replace_node(crash.own.file, crash.call.func, f"{text}_with_logits"),)
    return (wrap_node(crash.own.file, crash.input_node, "{}.sigmoid()"),) if crash.input_node is not None else ()


def bad() -> Setup:
    """Logits in a loss of probabilities."""
    x, y = points()
    setup = minimal_setup(network(1), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        return nn.functional.binary_cross_entropy(3 * setup.model(batch[0])[:, 0], (batch[1] > 0).float())

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A loss of logits."""
    return classifier()
