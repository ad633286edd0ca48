"""X1021: a tensor that the backward pass needs has been changed in place."""

from __future__ import annotations

import ast
import re

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.evaluation import Evaluator
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.loss_graphs import changed_nodes, consumers
from nbdebug.crashes.statements import InPlaceChange, find_carried_state, find_in_place_changes
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.crash.backward_of_many_values import loss_tensor
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import covering_statement, last_assignment
from nbdebug.source.edits import insert_after_statement, node_text, replace_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import call_name, enclosing_scope

_PARAMETER_NODES = ("TBackward0", "AsStrided", "AccumulateGrad", "TransposeBackward0")


@crash_rule("X1021")
def changed_in_place(crash: Crash) -> CrashCause | None:
    """A tensor that the backward pass needs was changed in place after it was saved.

    ## What it does
    Finds the node of the graph whose saved tensor has changed, the operation that took its output next, and the
    statement of the user's code that does this operation in place.

    ## Why it matters
    The backward pass cannot run: the value that the gradient needs no longer exists.

    ## How it is measured
    Exactly, by the versions of the saved tensors in the graph behind the loss. The statement is chosen among the
    in-place changes of the user's code by the operation.

    ## How to fix
    Write the result to a new tensor: ``x = x + 1`` instead of ``x += 1``, or change a ``clone()``. A parameter that
    ``optimizer.step()`` has changed means that a graph of an earlier step is used: detach what the steps share.

    ## When to ignore
    Never: the gradient would be wrong.

    ## References
    Documentation of torch.autograd, in-place correctness checks.
    """
    loss = loss_tensor(crash)
    if not isinstance(loss, Tensor) or "modified by an inplace operation" not in crash.message:
        return None
    changed = changed_nodes(loss)
    names = [type(node).__name__ for node in changed]
    shape = re.search(r"\[torch\.\w+ (\[[^\]]*\])\]", crash.message)
    text = f" of shape {shape[1]}" if shape else ""
    made = re.search(r"output \d+ of (\w+)", crash.message)
    maker = made[1] if made else (names[0] if names else "an operation")
    message = f"A tensor{text}, the output of {maker}, was changed in place after the graph had saved it."
    sizes = [int(size) for size in re.findall(r"\d+", shape[1])] if shape else None
    is_parameter = (maker.startswith(_PARAMETER_NODES) or made is None) and _is_size_of_parameter(crash, sizes)
    if is_parameter:
        state = find_carried_state(crash)
        if state is not None:
            cause = (
                f"optimizer.step() has changed the weights in place, and {state.name} still has the graph of the step "
            )
            cause += "before, which needs the old ones: detach it."
            return CrashCause(message, cause, edits=state.edits, line=state.line)
        if explanation := _step_in_function(crash, message):
            return explanation
        if step := _step_between(crash):
            call, edits = step
            cause = f"{crash.text(call)} in line {call.lineno} changes the weights in place, and this backward pass "
            cause += "needs the old ones: call all backward passes before the first step."
            line = SourceLine(crash.own.file, call.lineno) if crash.own is not None else None
            return CrashCause(message, cause, edits=edits, line=line)
    used = [name for node in changed for name in (type(node).__name__, *consumers(loss, node))]
    change = _choose(crash, [maker, *used], sizes)
    if change is None:
        cause = "A parameter is changed between the forward and the backward pass, or a tensor is written to."
        return CrashCause(message, cause, "x = x + 1  # instead of x += 1, in the code before the loss")
    cause = f"{change.subject} is changed in place in line {change.statement.lineno}: {change.line.text.strip()}"
    return CrashCause(message, cause, edits=change.edits, line=change.line)


def _step_in_function(crash: Crash, message: str) -> CrashCause | None:
    """Explain a step of an optimizer in a function that is called between a forward pass and its backward pass."""
    for frame in list(crash.user_frames())[1:]:
        call, scope = frame.node, enclosing_scope(frame.line)
        if not isinstance(call, ast.Call) or scope is None or frame.statement is None:
            continue
        for argument in call.args:
            made = last_assignment(frame.line, argument.id) if isinstance(argument, ast.Name) else None
            statement = covering_statement(made) if made is not None else None
            is_tensor = isinstance(Evaluator(frame).value(argument), Tensor)
            if made is None or not isinstance(statement, ast.Assign) or not is_tensor:
                continue
            between = [
                node
                for node in ast.walk(scope)
                if isinstance(node, ast.Expr)
                and made.number < node.lineno < frame.number
                and call_name(node.value) == call_name(call)
            ]
            if not between:
                continue
            text, name = node_text(frame.file, between[-1]), ast.unparse(argument)
            cause = f"{text} in line {between[-1].lineno} steps an optimizer, which changes weights in place, between "
            cause += f"the forward pass of {name} and its backward pass: compute {name} after that step."
            edits = (
                replace_node(frame.file, statement, "pass"),
                insert_after_statement(frame.file, between[-1], node_text(frame.file, statement)),
            )
            return CrashCause(message, cause, edits=edits, line=SourceLine(frame.file, between[-1].lineno))
    return None


def _is_size_of_parameter(crash: Crash, sizes: list[int] | None) -> bool:
    """Return whether a parameter, or its transpose, has some sizes; True if they are unknown."""
    values = [value for frame in crash.user_frames() for value in frame.variables.values()]
    parameters: list[Tensor] = [parameter for model in crash.models for parameter in model.parameters()]
    parameters += [value for value in values if isinstance(value, Tensor) and value.is_leaf and value.requires_grad]
    return sizes is None or any(sizes in ([*p.shape], [*p.shape][::-1]) for p in parameters)


def _step_between(crash: Crash) -> tuple[ast.Call, tuple[Edit, ...]] | None:
    """Return the step of an optimizer between two backward passes of a function, and the edits that move it behind."""
    scope = enclosing_scope(crash.own.line) if crash.own is not None else None
    if scope is None or crash.own is None or crash.own.statement is None:
        return None
    calls = [node for node in ast.walk(scope) if isinstance(node, ast.Call) and node.lineno < crash.own.number]
    first = max((call.lineno for call in calls if call_name(call) == "backward"), default=None)
    steps = [call for call in calls if call_name(call) == "step" and first is not None and call.lineno > first]
    if not steps:
        return None
    file, call = crash.own.file, steps[0]
    statement = covering_statement(SourceLine(file, call.lineno))
    if not isinstance(statement, ast.Expr):
        return None
    removed = replace_node(file, statement, "pass")
    return call, (removed, insert_after_statement(file, crash.own.statement, node_text(file, statement)))


def _choose(crash: Crash, operations: list[str], sizes: list[int] | None) -> InPlaceChange | None:
    """Return the in-place change that fits the operations of the graph and the shape of the tensor best."""
    candidates = [change for change in find_in_place_changes(crash) if not change.subject.startswith("optimizer")]
    words = " ".join(operations).lower().replace("_", "")

    def rank(change: InPlaceChange) -> tuple[int, bool, int]:
        name = change.operation.lower().replace("_", "")
        shape = _shape(crash, change)
        fits = 0 if shape is not None and shape == sizes else 1 if shape is None else 2
        return (fits, name not in words, change.statement.lineno)

    return min(candidates, key=rank, default=None)


def _shape(crash: Crash, change: InPlaceChange) -> list[int] | None:
    """Return the shape of what a statement changes, if a frame still holds it or it is certainly no tensor's."""
    for frame in crash.user_frames():
        try:
            value = Evaluator(frame).value(ast.parse(change.subject, mode="eval").body)
        except SyntaxError:
            return None
        if isinstance(value, Tensor):
            return [*value.shape]
        if isinstance(value, (int, float, str)):
            return [-1]
    return None


def bad() -> Setup:
    """A step that changes the output of a sigmoid."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        scores = setup.model(batch[0]).sigmoid()
        scores += 1
        loss = nn.functional.cross_entropy(scores, batch[1])
        loss.backward()  # type: ignore[no-untyped-call]
        return loss

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step without in-place changes."""
    return classifier()
