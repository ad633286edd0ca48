"""X1037: anomaly mode has found a gradient that is NaN."""

from __future__ import annotations

import re
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.loss_graphs import walk_graph
from nbdebug.crashes.safer_operations import safer_operations
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.crash.backward_of_many_values import loss_tensor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine, get_line_from_traceback

_MAX_STEPS = 4


@crash_rule("X1037")
def anomalous_gradient(crash: Crash) -> CrashCause | None:
    """Anomaly mode stopped the backward pass at an operation whose gradient is NaN.

    ## What it does
    Reads the name of the operation and, from the graph behind the loss, the line of the user that ran it forward.

    ## Why it matters
    Every weight that the gradient reaches becomes NaN at the next step.

    ## How it is measured
    The nodes of the graph keep the traceback of their forward call under anomaly mode.

    ## How to fix
    Keep the operation away from where its derivative is infinite: ``sqrt(x + eps)``, ``log(x.clamp(min=eps))``.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.autograd.detect_anomaly.
    """
    match = re.search(r"Function '(\w+)' returned nan values", crash.message)
    loss = loss_tensor(crash)
    if match is None or not isinstance(loss, Tensor):
        return None
    operation = match[1]
    lines = [line for node in walk_graph(loss) if type(node).__name__ == operation and (line := _line(node))]
    line = lines[0] if lines else None
    name = operation.removesuffix("Backward0").removesuffix("Backward1")
    message = f"The gradient of {name.lower()} ({operation}) is NaN" + (f": {line.text.strip()}." if line else ".")
    reasons = {
        "Sqrt": "The derivative of sqrt is infinite at 0; times a zero gradient, it is NaN.",
        "Log": "The derivative of log is infinite at 0.",
        "Div": "A division by 0, or 0 · ∞ in the branch that where() does not choose.",
        "Pow": "The derivative of a power below 1 is infinite at 0.",
        "LinalgVectorNorm": "The derivative of a norm is undefined at 0.",
    }
    cause = reasons.get(name, "Its derivative is infinite or undefined at a value of this batch.")
    cause += " With torch.where, both branches get a gradient, and 0 · nan is nan."
    fixes = {"Sqrt": "torch.sqrt(x + 1e-8)", "Log": "torch.log(x.clamp(min=1e-8))", "Div": "a / (b + 1e-8)"}
    chain = [node for node in walk_graph(loss) if type(node).__name__ == operation]
    places = [line, *(place for node in chain for place in _lines_nearer_to_loss(loss, node))]
    line, edits = next(((place, edits) for place in places if place and (edits := safer_operations(place))), (line, ()))
    before = {place for node in chain for place in _lines_before(node) if place and place != line}
    edits = (*edits, *(edit for place in before for edit in safer_operations(place)))
    return CrashCause(message, cause, "" if edits else fixes.get(name, "x = x.clamp(min=1e-8)"), edits, line=line)


def _lines_nearer_to_loss(loss: Tensor, node: Any) -> list[SourceLine | None]:
    """Return the lines of the operations that take the output of a node, which made its incoming gradient."""
    nodes = [*walk_graph(loss)]
    current, lines = {id(node)}, []
    for _ in range(_MAX_STEPS):
        takers = [n for n in nodes if any(id(parent) in current for parent, _ in n.next_functions)]
        lines += [_line(taker) for taker in takers]
        current = {id(taker) for taker in takers}
    return lines


def _lines_before(node: Any) -> list[SourceLine | None]:
    """Return the lines of the operations that made what a node takes."""
    nodes, lines = [node], []
    for _ in range(_MAX_STEPS):
        nodes = [parent for node in nodes for parent, _ in node.next_functions if parent is not None]
        lines += [_line(parent) for parent in nodes]
    return lines


def _line(node: object) -> SourceLine | None:
    metadata = getattr(node, "metadata", {})
    entries = metadata.get("traceback_", ())
    return get_line_from_traceback(entries) if entries else None


def bad() -> Setup:
    """A square root of zero, under anomaly mode."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        with torch.autograd.set_detect_anomaly(True):
            loss = (setup.model(batch[0]) * 0).sqrt().mean()
            loss.backward()
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
