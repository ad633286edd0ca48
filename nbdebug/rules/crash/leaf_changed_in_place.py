"""X1022: a tensor that requires a gradient is changed in place."""

from __future__ import annotations

import ast
import linecache

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup


@crash_rule("X1022")
def leaf_changed_in_place(crash: Crash) -> CrashCause | None:
    """A parameter, or another leaf that requires a gradient, is changed in place outside of no_grad.

    ## What it does
    Reads the tensor that the user's statement changes.

    ## Why it matters
    The statement cannot run: autograd would record the update of the weights as a part of the model.

    ## How it is measured
    Exactly: the tensor is a leaf that requires a gradient.

    ## How to fix
    Change it inside ``with torch.no_grad():``, or make a new tensor.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.no_grad.
    """
    if "leaf" not in crash.message or "in-place" not in crash.message or crash.own is None:
        return None
    tensors = [(node, value) for node, value in crash.tensors if value.is_leaf and value.requires_grad]
    node, tensor = tensors[0] if tensors else (None, None)
    text = crash.text(node) if node is not None else "A tensor"
    shape = f" ({describe_tensor(tensor)})" if isinstance(tensor, Tensor) else ""
    message = f"{text}{shape} is a leaf that requires a gradient, and this statement changes it in place."
    cause = "Updates of weights must not be recorded: they belong inside torch.no_grad()."
    statement = crash.own.statement
    if statement is None or isinstance(statement, (ast.For, ast.While, ast.With, ast.If)):
        return CrashCause(message, cause, "Put this statement inside a block with torch.no_grad().")
    return CrashCause(message, cause, edits=(_inside_no_grad(crash.own.file, statement),))


def _inside_no_grad(file: str, statement: ast.stmt) -> Edit:
    first, last = statement.lineno, statement.end_lineno or statement.lineno
    lines = linecache.getlines(file)[first - 1 : last]
    indentation = lines[0][: len(lines[0]) - len(lines[0].lstrip())]
    body = "".join(f"    {line}" for line in lines).rstrip("\n")
    return Edit(file, first, 0, last, len(lines[-1].rstrip("\n")), f"{indentation}with torch.no_grad():\n{body}")


def bad() -> Setup:
    """A step that changes a weight by hand."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        weight = setup.model[0].weight  # type: ignore[index]
        weight -= 0.1
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that changes no weight by hand."""
    return classifier()
