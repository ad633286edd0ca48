"""X1016: a loss gets targets of another dtype than it takes."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import wrap_at_source
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup

_CLASS_LOSSES = ("cross_entropy", "nll_loss", "multi_margin_loss")
_FLOAT_LOSSES = (
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "mse_loss",
    "l1_loss",
    "smooth_l1_loss",
    "huber_loss",
    "kl_div",
    "soft_margin_loss",
)


@crash_rule("X1016")
def target_dtype_mismatch(crash: Crash) -> CrashCause | None:
    """A loss gets targets of another dtype than it takes.

    ## What it does
    Compares the dtypes of the output and the target of the loss that raised.

    ## Why it matters
    The loss cannot run.

    ## How it is measured
    Exactly: class indices are int64, and the targets of a loss of differences have the dtype of the output.

    ## How to fix
    Convert the targets where they are read: ``y.long()`` or ``y.float()``.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    Documentation of torch.nn.CrossEntropyLoss and torch.nn.BCEWithLogitsLoss.
    """
    for function in (*_CLASS_LOSSES, *_FLOAT_LOSSES):
        output, target = crash.local("input", function=function), crash.local("target", function=function)
        if isinstance(output, Tensor) and isinstance(target, Tensor):
            return _explain(crash, function, output, target)
    return None


def _explain(crash: Crash, function: str, output: Tensor, target: Tensor) -> CrashCause | None:
    if function in _CLASS_LOSSES:
        has_probabilities = target.is_floating_point() and target.shape == output.shape
        if _is_one_hot(function, output, target):
            return _one_hot(crash, output, target)
        if target.dtype in (torch.int64, torch.uint8) or has_probabilities:
            return None
        expected, cast = "class indices of dtype int64 (Long)", "{}.long()"
    else:
        if target.dtype == output.dtype or (
            target.is_floating_point() and output.dtype != target.dtype == torch.float32
        ):
            return None
        expected = f"targets of the dtype of the output, {str(output.dtype).removeprefix('torch.')}"
        cast = "{}.double()" if output.dtype is torch.float64 else "{}.float()"
        if not output.is_floating_point():
            return None
    node = crash.argument_node("target", 1)
    text = crash.text(node) if node is not None else "target"
    edits = wrap_at_source(crash, node, cast)
    message = f"The loss {function} takes {expected}; {text} is {describe_tensor(target)}."
    cause = "The targets were read as " + _origin(target) + "."
    evidence = {"output": describe_tensor(output), "target": describe_tensor(target)}
    return CrashCause(message, cause, "" if edits else cast.format("y = y"), edits, evidence=evidence)


def _is_one_hot(function: str, output: Tensor, target: Tensor) -> bool:
    """Return whether targets of cross-entropy are integers in the shape of class probabilities."""
    is_integer = not target.is_floating_point() and not target.is_complex()
    return function == "cross_entropy" and target.dim() > 1 and target.shape == output.shape and is_integer


def _one_hot(crash: Crash, output: Tensor, target: Tensor) -> CrashCause:
    node = crash.argument_node("target", 1)
    text = crash.text(node) if node is not None else "target"
    message = (
        f"cross_entropy takes class indices, or class probabilities as floats; {text} is {describe_tensor(target)}."
    )
    is_one_hot = target.is_meta or bool((target.sum(1) == 1).all())
    cause = (
        f"{text} is one-hot: a row of integers per sample. float() makes probabilities of it, and argmax(1) indices."
    )
    cause = cause if is_one_hot else f"{text} has the shape of the output, so it counts as probabilities: float()."
    edits = wrap_at_source(crash, node, "{}.float()")
    evidence = {"output": describe_tensor(output), "target": describe_tensor(target)}
    return CrashCause(message, cause, "" if edits else "y = y.float()", edits, evidence=evidence)


def _origin(target: Tensor) -> str:
    names = {
        torch.float64: "float64, as NumPy makes numbers",
        torch.float32: "float32",
        torch.int64: "integers (int64)",
    }
    return names.get(target.dtype, str(target.dtype).removeprefix("torch."))


def bad() -> Setup:
    """Class labels that are floating-point numbers."""
    x, y = points()
    return minimal_setup(network(3), x, y.float(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Class labels that are integers."""
    return classifier()
