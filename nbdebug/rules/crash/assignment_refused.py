"""X1047: a tensor is assigned to a parameter or a gradient that cannot hold it."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import outermost_place
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import returned_by_function
from nbdebug.source.edits import wrap_node
from nbdebug.source.producers import part_producer
from nbdebug.source.scopes import Expression, file_scope


@crash_rule("X1047")
def assignment_refused(crash: Crash) -> CrashCause | None:
    """A tensor is assigned to a parameter, which takes parameters, or to ``grad``, which has a shape and a dtype.

    ## What it does
    Reads the value and what it is assigned to, and finds the expression that makes it.

    ## Why it matters
    The assignment cannot run: a parameter is a leaf that the optimizer changes, and a gradient fits its tensor entry by
    entry.

    ## How it is measured
    Exactly, by the types, shapes, dtypes and devices.

    ## How to fix
    Assign ``nn.Parameter(value)``, or compute with the value in ``forward``; transpose or convert the gradient.

    ## When to ignore
    Never: the assignment cannot run.

    ## References
    Documentation of torch.nn.parameter.Parameter, and of torch.Tensor.grad.
    """
    statement = crash.own.statement if crash.own is not None else None
    target = statement.targets[0] if isinstance(statement, ast.Assign) and len(statement.targets) == 1 else None
    if not isinstance(target, ast.Attribute) or not isinstance(statement, ast.Assign):
        return None
    if crash.has_torch_function("__setattr__"):
        return _parameter(crash, target, statement.value)
    owner, value = crash.value(target.value), crash.value(statement.value)
    if target.attr == "grad" and isinstance(owner, Tensor) and isinstance(value, Tensor):
        return _gradient(crash, target, statement.value, owner, value)
    return None


def _parameter(crash: Crash, target: ast.Attribute, node: ast.expr) -> CrashCause | None:
    module, name, value = (crash.local(key, function="__setattr__") for key in ("self", "name", "value"))
    is_parameter = isinstance(module, nn.Module) and name in vars(module).get("_parameters", {})
    if not is_parameter or not isinstance(value, Tensor) or crash.own is None:
        return None
    kind, text = type(module).__name__, crash.text(target)
    message = f"{text} is a parameter of a {kind}; {crash.text(node)} is a tensor, {describe_tensor(value)}."
    cause = "A computed tensor is no leaf that an optimizer can change. nn.Parameter(…) makes one of it, which shares "
    cause += "its values now, and has a gradient of its own."
    if value.grad_fn is not None:
        cause += (
            " For one weight with one gradient, leave it out of the module, and compute with it in forward, such as "
        )
        cause += "nn.functional.linear(x, weight.t())."
    return CrashCause(message, cause, edits=(wrap_node(crash.own.file, node, "nn.Parameter({})"),))


def _gradient(crash: Crash, target: ast.Attribute, node: ast.expr, owner: Tensor, value: Tensor) -> CrashCause | None:
    text = crash.text(target.value)
    name = next((n for model in crash.models for n, p in model.named_parameters() if p is owner), "")
    shown = f"{text} ({name})" if name and name != text else text
    message = f"The gradient of {shown} has its shape and dtype, {describe_tensor(owner)}; {crash.text(node)} is "
    message += f"{describe_tensor(value)}."
    if value.shape != owner.shape:
        is_transposed = value.dim() == 2 and value.shape == owner.shape[::-1]
        cause = "It is the transpose of the gradient." if is_transposed else "The shapes differ."
        edits = _change(crash, node, "{}.t()") if is_transposed else ()
        fix = "" if edits else f"Give the gradient the shape {[*owner.shape]}."
        return CrashCause(message, cause, fix, edits)
    if value.dtype != owner.dtype or value.device != owner.device:
        return CrashCause(message, f"Convert it: to({text}).", edits=_change(crash, node, f"{{}}.to({text})", False))
    return None


def _change(crash: Crash, node: ast.expr, template: str, is_followed: bool = True) -> tuple[Edit, ...]:
    """Return the edit of a gradient: where a function returns it, if it is an entry of a dictionary, else here."""
    assert crash.own is not None
    key = crash.value(node.slice) if isinstance(node, ast.Subscript) else None
    place = outermost_place(crash, node.value) if isinstance(node, ast.Subscript) else None
    if place is not None and isinstance(key, str) and is_followed:
        frame, expression = place
        is_call = isinstance(expression, ast.Call) and isinstance(expression.func, ast.Name)
        made = returned_by_function(frame.file, expression.func.id) if is_call else expression  # type: ignore[attr-defined]
        if made is not None:
            entry = part_producer(Expression(file_scope(frame.file), made), None, {key})
            if entry.node is not made and not isinstance(entry.node, ast.Dict):
                return (wrap_node(entry.scope.file, entry.node, template),)
    return (wrap_node(crash.own.file, node, template),)


def bad() -> Setup:
    """A gradient that is transposed."""
    return _stepping()


def good() -> Setup:
    """A step that assigns no gradients."""
    return classifier()


def _stepping() -> Setup:
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
    layer = nn.Linear(4, 3)

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        layer.weight.grad = layer.weight.detach().t()
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup
