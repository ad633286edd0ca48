"""X1019: backward() is called on a tensor that no gradient can reach."""

from __future__ import annotations

import ast
from dataclasses import replace

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.continuation import continues
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import crash_files
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.freezing import unfreeze
from nbdebug.crashes.graph_cuts import GraphCut, find_graph_cuts, is_grad_mode_left_off
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.crash.backward_of_many_values import loss_node, loss_tensor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, syntax_tree


@crash_rule("X1019", explains=("L212",))
def loss_without_graph(crash: Crash) -> CrashCause | None:
    """The loss does not depend on any tensor that requires a gradient, as far as torch knows.

    ## What it does
    Reads the loss, the parameters of the models in the user's frames, and the code that computes the loss, and names
    what cuts the graph: ``detach``, ``item``, ``argmax``, a copy as a new tensor, ``no_grad``, or frozen parameters.

    ## Why it matters
    The backward pass cannot run, and nothing would be trained.

    ## How it is measured
    The loss has no ``grad_fn``. If no parameter requires a gradient, that is the cause; otherwise the expressions that
    the loss is computed from are followed from assignment to assignment, up to the first that cuts the graph.

    ## How to fix
    Compute the loss from the output of the model itself.

    ## When to ignore
    Never: a backward pass without a graph cannot run.

    ## References
    Documentation of torch.autograd, sections on locally disabling gradient computation.
    """
    tensor, node = loss_tensor(crash), loss_node(crash)
    if not isinstance(tensor, Tensor) or tensor.requires_grad or tensor.grad_fn is not None or crash.own is None:
        return None
    if crash.phase != "backward pass" or "grad" not in crash.message:
        return None
    text = crash.text(node) if node is not None else "the loss"
    message = f"{text} has no grad_fn: it is {describe_tensor(tensor)}, and no operation with a gradient made it."
    return (
        _frozen_parameters(crash, message)
        or _disabled_gradients(crash, message)
        or _cut(crash, node, message)
        or CrashCause(
            message,
            "The graph is cut before the loss, by detach(), by no_grad(), or by a conversion to numbers or indices.",
            "Compute the loss from the output of the model itself.",
        )
    )


def _frozen_parameters(crash: Crash, message: str) -> CrashCause | None:
    parameters = [p for model in crash.models for p in model.parameters()]
    if not parameters or any(p.requires_grad for p in parameters):
        return None
    cause = f"All {len(parameters)} parameters of the model have requires_grad=False: everything is frozen."
    line, edits = unfreeze(crash)
    return CrashCause(message, cause, "" if edits else "head.requires_grad_(True)", edits, line=line)


def _disabled_gradients(crash: Crash, message: str) -> CrashCause | None:
    """Explain a grad mode that the program has switched off."""
    if not is_grad_mode_left_off():
        return None
    cause = "Gradients are switched off (set_grad_enabled(False)), and no graph is recorded since."
    for file in sorted(crash_files(crash)):
        for node in ast.walk(syntax_tree(file) or ast.Module([], [])):
            if isinstance(node, ast.Call) and call_name(node) == "set_grad_enabled" and node.args:
                edit = replace_node(file, node.args[0], "True")
                return CrashCause(message, cause, edits=(edit,), line=SourceLine(file, node.lineno))
    return CrashCause(message, cause, "torch.set_grad_enabled(True)")


def _cut(crash: Crash, node: ast.expr | None, message: str) -> CrashCause | None:
    """Explain the expressions that cut the graph."""
    cuts = find_graph_cuts(crash, node) if node is not None else []
    if not cuts:
        return None
    first = cuts[0]
    cause = f"{' '.join(first.text.split())} cuts the graph: {first.reason}."
    if len(cuts) > 1:
        cause += f" {len(cuts) - 1} other expression{'s cut' if len(cuts) > 2 else ' cuts'} it too."
    edits = tuple(dict.fromkeys(edit for cut in cuts for edit in cut.edits))
    return CrashCause(message, cause, edits=_fit_shapes(crash, cuts, edits), line=first.line)


def _fit_shapes(crash: Crash, cuts: list[GraphCut], edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
    """Return the edits, with the probability of a class instead of its index where the shapes need one column."""
    indices = [cut for cut in cuts if cut.name == "argmax" and cut.edits]
    if not indices or continues(crash, edits) is not False:
        return edits
    last = indices[0].edits[-1]
    for text in ("[:, 1]", ".amax(1)", ".amax(1, keepdim=True)"):
        changed = tuple(replace(edit, text=text) if edit is last else edit for edit in edits)
        if continues(crash, changed):
            return changed
    return edits


def bad() -> Setup:
    """A step whose loss is made of a number."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = nn.functional.cross_entropy(setup.model(batch[0]).detach(), batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step with a graph."""
    return classifier()
