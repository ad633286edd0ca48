"""X1037: anomaly mode has found a gradient that is NaN."""

from __future__ import annotations

import ast
import re

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.edits import node_text, replace_node
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.loss_graphs import walk_graph
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.crash.backward_of_many_values import loss_tensor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine, get_line_from_traceback
from nbdebug.source.search import call_name, call_subject, syntax_tree


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
    return CrashCause(message, cause, fixes.get(name, "x = x.clamp(min=1e-8)"), _shifted(line, name), line=line)


def _line(node: object) -> SourceLine | None:
    metadata = getattr(node, "metadata", {})
    entries = metadata.get("traceback_", ())
    return get_line_from_traceback(entries) if entries else None


def _shifted(line: SourceLine | None, name: str) -> tuple[Edit, ...]:
    """Return the edit that adds a small number to the argument of the operation."""
    tree = syntax_tree(line.file) if line is not None else None
    if line is None or tree is None or name not in ("Sqrt", "Log", "Pow"):
        return ()
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.lineno == line.number]
    own = [call for call in calls if call_name(call) == name.lower()]
    if len(own) != 1:
        return ()
    subject = call_subject(own[0])
    if subject is None:
        return ()
    return (replace_node(line.file, subject, f"({node_text(line.file, subject)} + 1e-8)"),)


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
