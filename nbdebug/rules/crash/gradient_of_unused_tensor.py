"""X1050: a gradient is asked for with respect to a tensor that the result does not depend on."""

from __future__ import annotations

import ast
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.loss_graphs import walk_graph
from nbdebug.crashes.shared_graphs import leaves
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import own_statements
from nbdebug.source.edits import replace_node
from nbdebug.source.search import enclosing_scope
from nbdebug.tensors.pytree import tree_tensors


@crash_rule("X1050")
def gradient_of_unused_tensor(crash: Crash) -> CrashCause | None:
    """A gradient is asked for with respect to a tensor that the output was not computed from.

    ## What it does
    Looks for each input in the graph behind the output, and for the leaf that both come from: a slice or a copy of a
    tensor is another tensor, and the output depends on it only if it was computed from it.

    ## Why it matters
    There is no path from the output to the input, so there is no gradient.

    ## How it is measured
    Exactly, by the nodes of the graph.

    ## How to fix
    Compute the output from the tensors that it is differentiated by, or differentiate by the tensor that was used.

    ## When to ignore
    Where a missing gradient is expected: pass ``allow_unused=True``.

    ## References
    Documentation of torch.autograd.grad, allow_unused.
    """
    outputs, inputs = crash.local("outputs", function="grad"), crash.local("inputs", function="grad")
    tensors, started = tree_tensors(inputs), tree_tensors(outputs)
    if not tensors or not started or "not have been used" not in crash.message:
        return None
    behind = {id(node) for output in started for node in walk_graph(output)}
    reached = {leaf for output in started for leaf in leaves(output)}
    nodes = _input_nodes(crash, len(tensors))
    unused = [
        (crash.text(node) if node is not None else f"input {position}", tensor)
        for position, (node, tensor) in enumerate(zip(nodes, tensors, strict=True))
        if (id(tensor.grad_fn) not in behind if tensor.grad_fn is not None else id(tensor) not in reached)
    ]
    if not unused:
        return None
    name, tensor = unused[0]
    output = crash.argument_node("outputs", 0)
    text = crash.text(output) if output is not None else "The output"
    message = f"{text} does not depend on {name}, {describe_tensor(tensor)}, so it has no gradient with respect to it."
    if (common := _common_leaf(crash, tensor, reached)) is None:
        return CrashCause(message, f"{name} was not used to compute {text}.", "Compute the output from it.")
    cause = f"{name} is computed from {common[0]} (a slice or a copy of it), and {text} was computed from {common[0]} "
    cause += f"itself, not from {name}."
    edits = _use_parts(crash, common, nodes, tensors)
    fix = "" if edits else f"Differentiate by {common[0]} and take the part of its gradient."
    return CrashCause(message, cause, fix, edits)


def _input_nodes(crash: Crash, count: int) -> list[ast.expr | None]:
    node = crash.argument_node("inputs", 1)
    parts = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
    return [*parts] if len(parts) == count else [None] * count


def _common_leaf(crash: Crash, tensor: Tensor, reached: set[int]) -> tuple[str, Tensor] | None:
    """Return the variable, with its value, that a tensor and the output both come from."""
    shared = leaves(tensor) & reached
    for frame in crash.user_frames():
        for name, value in {**frame.frame.f_globals, **frame.variables}.items():
            if isinstance(value, Tensor) and id(value) in shared:
                return name, value
    return None


def _use_parts(crash: Crash, common: tuple[str, Tensor], nodes: list[Any], tensors: list[Tensor]) -> tuple[Edit, ...]:
    """Return the edit that computes the output from the inputs, put together again, instead of their common leaf."""
    scope = enclosing_scope(crash.own.line) if crash.own is not None else None
    if scope is None or crash.own is None or not all(isinstance(node, ast.Name) for node in nodes):
        return ()
    names, joined = [node.id for node in nodes], None
    for axis in range(1, common[1].dim()):
        try:
            whole = torch.cat([tensor.detach() for tensor in tensors], dim=axis)
        except RuntimeError:
            continue
        if whole.shape == common[1].shape and bool((whole == common[1]).all()):
            joined = f"torch.cat([{', '.join(names)}], dim={axis})"
    statements = [s for s in own_statements(scope) if s.lineno < crash.own.number and isinstance(s, ast.Assign)]
    made = [s for s in statements if set(names) & {getattr(p, "id", "") for t in s.targets for p in ast.walk(t)}]
    if joined is None or not made:
        return ()
    after = max(statement.lineno for statement in made)
    reads = [
        node
        for statement in statements
        if statement.lineno > after
        for node in ast.walk(statement.value)
        if isinstance(node, ast.Name) and node.id == common[0]
    ]
    return tuple(replace_node(crash.own.file, node, joined) for node in reads)


def bad() -> Setup:
    """A gradient with respect to a slice of the input."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        inputs = batch[0].clone().requires_grad_()
        first = inputs[:, :1]
        scores = setup.model(inputs)
        torch.autograd.grad(scores.sum(), first)
        return nn.functional.cross_entropy(scores, batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step without gradients of inputs."""
    return classifier()
