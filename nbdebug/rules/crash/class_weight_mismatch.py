"""X1042: a loss has more or fewer class weights than the output has classes."""

from __future__ import annotations

import ast

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import node_text, replace_node
from nbdebug.source.search import call_name, syntax_tree


@crash_rule("X1042")
def class_weight_mismatch(crash: Crash) -> CrashCause | None:
    """A loss has more or fewer class weights than the output has classes.

    ## What it does
    Compares the weights of the loss that raised with the classes of the output.

    ## Why it matters
    The loss cannot run.

    ## How it is measured
    Exactly, by the shapes.

    ## How to fix
    Pass one weight for each class. Weights from counts lack the classes without samples: count with
    ``torch.bincount(labels, minlength=classes)``.

    ## When to ignore
    Never: the loss needs a weight for each class.

    ## References
    Documentation of torch.nn.CrossEntropyLoss: weight is a tensor of size C.
    """
    for function in ("cross_entropy", "nll_loss"):
        output, weight = crash.local("input", function=function), crash.local("weight", function=function)
        if not isinstance(output, Tensor) or not isinstance(weight, Tensor) or not output.dim():
            continue
        classes = output.shape[1 if output.dim() > 1 else 0]
        if weight.numel() == classes:
            return None
        message = f"The loss has {weight.numel()} class weights, and the output {classes} classes: "
        message += f"{describe_tensor(output)}."
        cause = "The loss needs one weight for each class. A count of labels lacks the classes without samples."
        edits = _count_all_classes(crash, classes)
        return CrashCause(message, cause, "" if edits else f"Pass {classes} weights.", edits)
    return None


def _count_all_classes(crash: Crash, classes: int) -> tuple[Edit, ...]:
    """Return the edit with which the only count of classes in the user's files includes classes without samples."""
    calls = [
        (file, node)
        for file in sorted(crash_files(crash))
        for node in ast.walk(syntax_tree(file) or ast.Module([], []))
        if isinstance(node, ast.Call) and call_name(node) == "bincount"
    ]
    if len(calls) != 1:
        return ()
    file, call = calls[0]
    named = next((keyword.value for keyword in call.keywords if keyword.arg == "minlength"), None)
    if named is not None:
        return (replace_node(file, named, str(classes)),)
    # A class without samples would get an infinite weight.
    text = node_text(file, call)
    return (replace_node(file, call, f"{text[:-1]}, minlength={classes}).clamp(min=1)"),)


def _setup_with_weights(count: int) -> Setup:
    x, y = points()
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss(weight=torch.ones(count)))


def bad() -> Setup:
    """Two weights for three classes."""
    return _setup_with_weights(2)


def good() -> Setup:
    """Three weights for three classes."""
    return _setup_with_weights(3)
