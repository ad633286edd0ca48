"""X1020: a graph that a backward pass has freed is used again."""

from __future__ import annotations

import ast

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.evaluation import UNKNOWN, Evaluator
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.frames import CrashFrame
from nbdebug.crashes.shared_graphs import SharedTensor, find_shared_tensors, leaves
from nbdebug.crashes.statements import find_carried_state
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.crash.backward_of_many_values import loss_node, loss_tensor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.setup.setup import optimized_parameters
from nbdebug.source.assignments import find_function
from nbdebug.source.edits import (
    append_argument,
    insert_after_statement,
    insert_before,
    node_text,
    replace_node,
    wrap_node,
)
from nbdebug.source.location import SourceLine
from nbdebug.source.search import assignment_targets, call_name, enclosing_scope, read_names


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
    shared = find_shared_tensors(crash, loss)
    explanations = (
        *(_summed_losses(crash, item, message) for item in shared),
        *(_used_by_two_losses(crash, item, message) for item in shared),
        *(_passed_to_two_losses(crash, item, message) for item in shared),
        *(_computed_once(item, loss, message) for item in shared),
        _two_losses(crash, text, message),
    )
    return next(filter(None, explanations), None)


def _backward_calls(crash: Crash) -> list[ast.Call]:
    """Return the calls of backward() in the scope of the one that raised, which come before it."""
    assert crash.own is not None
    scope = enclosing_scope(crash.own.line)
    calls = [n for n in (ast.walk(scope) if scope else ()) if isinstance(n, ast.Call) and call_name(n) == "backward"]
    return sorted((call for call in calls if call.lineno < crash.own.number), key=lambda call: call.lineno)


def _summed_losses(crash: Crash, shared: SharedTensor, message: str) -> CrashCause | None:
    """Explain a sum of the losses of all steps that each step goes backward through."""
    node = loss_node(crash)
    loop = shared.loop_around
    if node is None or loop is None or crash.own is None or shared.owner is not None:
        return None
    for statement in ast.walk(loop):
        added = _added_to(statement, shared.name)
        if added is not None and shared.name in read_names(node):
            file = crash.own.file
            line = SourceLine(file, statement.lineno)  # type: ignore[attr-defined]
            text = node_text(file, added)
            cause = (
                f"{shared.name} sums the losses of all steps, with their graphs, and each step goes backward through "
            )
            cause += "all of them: call backward() on the loss of this step, and add its value."
            edits = (wrap_node(file, added, "{}.detach()"), replace_node(file, node, text))
            return CrashCause(message, cause, edits=edits, line=line)
    return None


def _added_to(statement: ast.AST, name: str) -> ast.Name | None:
    """Return the variable that a statement adds to another one."""
    if isinstance(statement, ast.AugAssign) and ast.unparse(statement.target) == name:
        return statement.value if isinstance(statement.value, ast.Name) else None
    is_sum = isinstance(statement, ast.Assign) and isinstance(statement.value, ast.BinOp)
    if not is_sum or ast.unparse(statement.targets[0]) != name:  # type: ignore[attr-defined]
        return None
    parts = (statement.value.left, statement.value.right)  # type: ignore[attr-defined]
    others = [part for part in parts if ast.unparse(part) != name]
    return others[0] if len(others) == 1 and isinstance(others[0], ast.Name) else None


def _computed_once(shared: SharedTensor, loss: Tensor, message: str) -> CrashCause | None:
    """Explain a tensor that is computed before the loop, whose graph the first step has freed."""
    assignments = shared.assignments()
    if not assignments:
        return _read_in_loop(shared, loss, message)
    file, statement = assignments[0]
    loop = shared.loop_after(statement)
    if loop is None and shared.owner is None and not shared.is_passed_to_loop:
        return None
    line = SourceLine(file, statement.lineno)
    cause = (
        f"{shared.name} is computed once, before the loop (line {statement.lineno}), and each step goes through its "
    )
    cause += "graph, which the first backward pass has freed: use its values (detach()), or compute it in each step."
    if leaves(loss, without=shared.tensor.grad_fn):
        return CrashCause(message, cause, edits=_detach_edits(file, statement, shared.in_container), line=line)
    if shared.owner is not None:
        place = _reader(shared, statement)
    else:
        place = (file, loop.body[0].lineno) if loop is not None else None
    if place is None:
        return CrashCause(message, cause, f"Compute {shared.name} in each step.", line=line)
    return CrashCause(message, cause, edits=(insert_before(*place, node_text(file, statement)),), line=line)


def _reader(shared: SharedTensor, statement: ast.Assign) -> tuple[str, int] | None:
    """Return the file and the first line of the method that reads an attribute, if it can compute it, too."""
    attribute = shared.name.rpartition(".")[2]
    if read_names(statement.value) - {"self", "torch", "nn", "F"}:
        return None
    for kind in type(shared.owner).__mro__:
        for name, method in vars(kind).items():
            code = getattr(method, "__code__", None)
            if name != "__init__" and code is not None and attribute in code.co_names:
                function = find_function(code)
                body = [s for s in getattr(function, "body", ()) if not _is_docstring(s)]
                return (code.co_filename, body[0].lineno) if body else None
    return None


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _read_in_loop(shared: SharedTensor, loss: Tensor, message: str) -> CrashCause | None:
    """Explain a tensor with a graph that an object holds, which each step of a loop reads."""
    loop = shared.loop_around
    if shared.owner is None or loop is None or not leaves(loss, without=shared.tensor.grad_fn):
        return None
    nodes = [node for node in ast.walk(loop) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)]
    reads = [node for node in nodes if ast.unparse(node) == shared.name]
    if not reads:
        return None
    file = shared.frame.file
    cause = f"{shared.name} is computed once, with its graph, and each step goes through that graph, which the first "
    cause += "backward pass has freed: use its values (detach())."
    edits = tuple(wrap_node(file, node, "{}.detach()") for node in reads)
    return CrashCause(message, cause, edits=edits, line=SourceLine(file, reads[0].lineno))


def _detach_edits(file: str, statement: ast.Assign, in_container: bool) -> tuple[Edit, ...]:
    """Return the edit of an assignment that leaves the graph out."""
    if not in_container:
        if isinstance(statement.targets[0], ast.Tuple):
            names = [ast.unparse(target) for target in assignment_targets(statement)]
            text = ", ".join(f"{name}.detach()" for name in names)
            return (insert_after_statement(file, statement, f"{', '.join(names)} = {text}"),)
        return (wrap_node(file, statement.value, "{}.detach()"),)
    if isinstance(statement.value, (ast.ListComp, ast.GeneratorExp)):
        return (wrap_node(file, statement.value.elt, "{}.detach()"),)
    if isinstance(statement.value, (ast.List, ast.Tuple)):
        return tuple(wrap_node(file, element, "{}.detach()") for element in statement.value.elts)
    return (wrap_node(file, statement.value, "[part.detach() for part in {}]"),)


def _used_by_two_losses(crash: Crash, shared: SharedTensor, message: str) -> CrashCause | None:
    """Explain a tensor that two losses go through, with a step of an optimizer between them."""
    earlier = _backward_calls(crash)
    scope = enclosing_scope(crash.own.line) if crash.own is not None else None
    if not earlier or scope is None or crash.own is None:
        return None
    reads = [
        node
        for node in ast.walk(scope)
        if isinstance(node, (ast.Name, ast.Attribute))
        and isinstance(node.ctx, ast.Load)
        and ast.unparse(node) == shared.name
    ]
    before = [node for node in reads if node.lineno <= earlier[-1].lineno]
    after = [node for node in reads if earlier[-1].lineno < node.lineno <= crash.own.number]
    steps = [n for n in ast.walk(scope) if isinstance(n, ast.Call) and call_name(n) == "step"]
    steps = [call for call in steps if earlier[-1].lineno <= call.lineno <= crash.own.number]
    if not before or not after or not steps:
        return None
    stepped = [crash.value(call.func.value) for call in steps if isinstance(call.func, ast.Attribute)]
    trained = {id(p) for o in stepped if isinstance(o, torch.optim.Optimizer) for p in optimized_parameters(o)}
    # The loss before trains other parameters than those that made the tensor: it needs only its values.
    needs_values = not trained & leaves(shared.tensor)
    nodes = before if needs_values else after
    line = SourceLine(crash.own.file, nodes[-1 if needs_values else 0].lineno)
    cause = f"{shared.name} was computed once, and both losses go through its graph; the first backward pass freed it. "
    cause += f"The loss in line {line.number} trains other parameters than those that made it: detach it there."
    edits = tuple(wrap_node(crash.own.file, node, "{}.detach()") for node in nodes if node.lineno == line.number)
    return CrashCause(message, cause, edits=edits, line=line)


def _passed_to_two_losses(crash: Crash, shared: SharedTensor, message: str) -> CrashCause | None:
    """Explain a tensor that a function passes to two others, each of which goes backward and steps."""
    frame, scope = shared.frame, enclosing_scope(shared.frame.line)
    if frame is crash.own or shared.owner is not None or scope is None or crash.own is None or shared.in_container:
        return None
    calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call) and node.lineno <= frame.number]
    passing = [
        (call, argument)
        for call in sorted(calls, key=lambda call: call.lineno)
        for argument in call.args
        if ast.unparse(argument) == shared.name and _goes_backward(frame, call)
    ]
    if len(passing) < 2 or passing[-1][0].lineno != frame.number:
        return None
    own_scope = enclosing_scope(crash.own.line)
    steps = [node for node in (ast.walk(own_scope) if own_scope is not None else ()) if isinstance(node, ast.Call)]
    owners = [crash.value(n.func.value) for n in steps if isinstance(n.func, ast.Attribute) and call_name(n) == "step"]
    trained = {id(p) for o in owners if isinstance(o, torch.optim.Optimizer) for p in optimized_parameters(o)}
    trains_maker = bool(trained & leaves(shared.tensor))
    call, argument = passing[-2] if trains_maker else passing[-1]
    cause = f"{shared.name} was computed once, and both {ast.unparse(passing[-2][0].func)} and "
    cause += f"{ast.unparse(passing[-1][0].func)} go backward through its graph, which the first of them frees. "
    cause += f"{ast.unparse(call.func)} trains other parameters than those that made it: pass {shared.name}.detach()."
    return CrashCause(message, cause, edits=(wrap_node(frame.file, argument, "{}.detach()"),))


def _goes_backward(frame: CrashFrame, call: ast.Call) -> bool:
    """Return whether a function or method that a frame calls has a backward pass in its code."""
    function = Evaluator(frame).value(call.func)
    if function is UNKNOWN and isinstance(call.func, ast.Attribute):
        function = getattr(type(Evaluator(frame).value(call.func.value)), call.func.attr, None)
    code = getattr(function, "__code__", None)
    return code is not None and "backward" in code.co_names


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
