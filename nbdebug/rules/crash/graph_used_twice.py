"""X1020: a graph that a backward pass has freed is used again."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.creations import append_argument
from nbdebug.crashes.edits import node_text, replace_node, wrap_node
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.loss_graphs import walk_graph
from nbdebug.crashes.statements import find_carried_state
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.crash.backward_of_many_values import loss_node, loss_tensor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, enclosing_scope
from nbdebug.tensors.pytree import tree_tensors


@crash_rule("X1020")
def graph_used_twice(crash: Crash) -> CrashCause | None:
    """A backward pass goes through a graph that an earlier one has freed.

    ## What it does
    Looks for the tensor that joins both passes: a state that one step hands to the next, a tensor that two losses
    share, or one that was computed before the loop.

    ## Why it matters
    The backward pass cannot run. ``retain_graph=True`` would hide it, and let the graph grow from step to step.

    ## How it is measured
    The variables and attributes that hold tensors with a graph, the graph behind the loss, and the assignments of the
    user's code.

    ## How to fix
    Detach the state between steps, add the losses before one backward pass, or compute the shared tensor in each step.

    ## When to ignore
    Never: the graph no longer exists.

    ## References
    Documentation of torch.Tensor.backward, retain_graph.
    """
    loss = loss_tensor(crash)
    if not isinstance(loss, Tensor) or "second time" not in crash.message or crash.own is None:
        return None
    node = loss_node(crash)
    text = crash.text(node) if node is not None else "the loss"
    message = f"The graph behind {text} has been freed by an earlier backward pass."
    if state := find_carried_state(crash):
        cause = f"{state.name} still has the graph of the step before, and the new loss depends on it: detach it."
        return CrashCause(message, cause, edits=state.edits, line=state.line)
    return _shared_tensor(crash, loss, message) or _two_losses(crash, text, message)


def _backward_calls(crash: Crash) -> list[ast.Call]:
    """Return the calls of backward() in the scope of the one that raised, which come before it."""
    assert crash.own is not None
    scope = enclosing_scope(crash.own.line)
    calls = [n for n in (ast.walk(scope) if scope else ()) if isinstance(n, ast.Call) and call_name(n) == "backward"]
    return sorted((call for call in calls if call.lineno < crash.own.number), key=lambda call: call.lineno)


def _shared_tensor(crash: Crash, loss: Tensor, message: str) -> CrashCause | None:
    """Explain a variable in the graph of this loss that an earlier loss also went through, such as generated images."""
    assert crash.own is not None
    nodes = {id(node) for node in walk_graph(loss)}
    shared = {
        name: value
        for name, value in crash.own.variables.items()
        for tensor in tree_tensors(value)
        if tensor.grad_fn is not None and id(tensor.grad_fn) in nodes and tensor is not loss
    }
    scope = enclosing_scope(crash.own.line)
    earlier = _backward_calls(crash)
    reads = [
        node
        for node in (ast.walk(scope) if scope else ())
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in shared
    ]
    for name in shared:
        own = [node for node in reads if node.id == name]
        before = [node for node in own if earlier and node.lineno <= earlier[-1].lineno]
        after = [node for node in own if earlier and earlier[-1].lineno < node.lineno <= crash.own.number]
        if before and after and not _is_loss_name(crash, name):
            line = SourceLine(crash.own.file, after[0].lineno)
            cause = f"{name} was computed once, and both losses go through its graph; the first backward pass freed it."
            if _has_step_between(scope, earlier[-1].lineno, after[0].lineno):
                cause += " Its graph is not needed a second time: detach it."
                return CrashCause(
                    message, cause, edits=(wrap_node(crash.own.file, after[0], "{}.detach()"),), line=line
                )
    outside = [name for name in shared if _is_assigned_before_loop(crash, name) and not _is_loss_name(crash, name)]
    if outside and not earlier:
        cause = f"{outside[0]} is computed once before the loop, and each step goes through its graph."
        fix = f"# compute {outside[0]} inside the loop, or use {outside[0]}.detach()"
        return CrashCause(message, cause, fix)
    return None


def _is_loss_name(crash: Crash, name: str) -> bool:
    value = crash.own.variables[name] if crash.own else None
    return isinstance(value, Tensor) and value.dim() == 0


def _has_step_between(scope: ast.AST | None, first: int, last: int) -> bool:
    calls = [node for node in (ast.walk(scope) if scope else ()) if call_name(node) == "step"]
    return any(first <= getattr(call, "lineno", 0) <= last for call in calls)


def _is_assigned_before_loop(crash: Crash, name: str) -> bool:
    assert crash.own is not None
    scope = enclosing_scope(crash.own.line)
    loops = [
        node
        for node in (ast.walk(scope) if scope else ())
        if isinstance(node, (ast.For, ast.While)) and node.lineno < crash.own.number <= (node.end_lineno or 0)
    ]
    assigned = [
        node
        for node in (ast.walk(scope) if scope else ())
        if isinstance(node, ast.Assign) and name in {ast.unparse(target) for target in node.targets}
    ]
    return bool(loops and assigned) and all(node.lineno < min(loop.lineno for loop in loops) for node in assigned)


def _two_losses(crash: Crash, text: str, message: str) -> CrashCause | None:
    assert crash.own is not None
    earlier = _backward_calls(crash)
    if not earlier:
        return CrashCause(message, "A tensor computed once is used by several steps.", f"# compute {text} in each step")
    call, file = earlier[-1], crash.own.file
    other = node_text(file, call.func.value) if isinstance(call.func, ast.Attribute) else "the other loss"
    cause = (
        f"{other}.backward() in line {call.lineno} freed the graph that {text} shares with it. One backward pass of "
    )
    cause += f"the sum, ({other} + {text}).backward(), goes through it once; retain_graph=True would keep it."
    is_next = isinstance(crash.call, ast.Call) and isinstance(crash.own.statement, ast.Expr)
    if is_next and crash.own.statement is not None and other != text:
        sum_call = replace_node(file, crash.own.statement, f"({other} + {text}).backward()")
        statement = next(iter(_statements(crash, call)), None)
        if statement is not None:
            edits = (replace_node(file, statement, "pass"), sum_call)
            return CrashCause(message, cause, f"({other} + {text}).backward()", edits)
    return CrashCause(message, cause, edits=(append_argument(file, call, "retain_graph=True"),))


def _statements(crash: Crash, call: ast.Call) -> list[ast.Expr]:
    assert crash.own is not None
    scope = enclosing_scope(crash.own.line)
    return [node for node in (ast.walk(scope) if scope else ()) if isinstance(node, ast.Expr) and node.value is call]


def bad() -> Setup:
    """A step that runs backward twice."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        loss = nn.functional.cross_entropy(setup.model(batch[0]), batch[1])
        total = loss * 2
        loss.backward()  # type: ignore[no-untyped-call]
        total.backward()  # type: ignore[no-untyped-call]
        return total

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step with one backward pass."""
    return classifier()
