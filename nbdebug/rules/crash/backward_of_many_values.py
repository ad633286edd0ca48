"""X1018: backward() is called on a tensor of several values."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import find_layer_creation, set_argument
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import assigned_value
from nbdebug.finding import Edit
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.assignments import find_function, returned_value
from nbdebug.source.edits import node_text, replace_node, wrap_node
from nbdebug.source.search import call_name, call_subject
from nbdebug.tensors.pytree import tree_tensors


@crash_rule("X1018")
def backward_of_many_values(crash: Crash) -> CrashCause | None:
    """The loss that backward() is called on has more than one value.

    ## What it does
    Reads the tensor that the backward pass starts from, and looks for a loss that was created without a reduction.

    ## Why it matters
    A gradient is that of one number; torch does not choose how the values of several samples or heads are combined.

    ## How it is measured
    Exactly, by the shape of the tensor.

    ## How to fix
    Take the mean of the losses, or create the loss with ``reduction="mean"``.

    ## When to ignore
    Never: pass ``gradient=`` if a product with a vector is intended.

    ## References
    Documentation of torch.Tensor.backward.
    """
    if crash.has_torch_function("grad_and_value_impl", "grad_impl") and "scalar" in crash.message:
        return _differentiated_function(crash)
    tensor = loss_tensor(crash)
    if explanation := _gradient_of_other_shape(crash):
        return explanation
    if not isinstance(tensor, Tensor) or tensor.numel() == 1 or not tensor.requires_grad:
        return None
    node = loss_node(crash)
    text = crash.text(node) if node is not None else "the loss"
    message = f"backward() starts from a scalar; {text} is {describe_tensor(tensor)}, {tensor.numel()} values."
    edits, cause = _repair(crash, node)
    return CrashCause(
        message, cause, "" if edits else "loss.mean().backward()", edits, evidence={"values": tensor.numel()}
    )


def _differentiated_function(crash: Crash) -> CrashCause | None:
    """Explain a function that torch.func differentiates and that returns more than one value."""
    function, output = crash.local("func", function="grad_and_value_impl"), crash.local("output")
    code = getattr(function, "__code__", None)
    definition = find_function(code) if code is not None else None
    if code is None or not isinstance(output, Tensor):
        return None
    shape = [*output.shape]
    message = f"torch.func.grad differentiates a scalar; {code.co_name} returns a tensor of {shape}."
    cause = f"{code.co_name} keeps an axis: mean() makes one number (a scalar without axes) of it."
    returned = returned_value(definition) if definition is not None else None
    if returned is None:
        return CrashCause(message, cause, "Return loss.mean().")
    is_reduced = isinstance(returned, ast.Call) and call_name(returned) in ("mean", "sum")
    reduced = call_subject(returned) if is_reduced else None  # type: ignore[arg-type]
    if reduced is not None:
        text = f"{node_text(code.co_filename, reduced)}.{call_name(returned)}()"
        return CrashCause(message, cause, edits=(replace_node(code.co_filename, returned, text),))
    return CrashCause(message, cause, edits=(wrap_node(code.co_filename, returned, "{}.mean()"),))


def _gradient_of_other_shape(crash: Crash) -> CrashCause | None:
    """Explain a gradient that is passed to a backward pass with another shape than the tensor it starts from."""
    if not crash.has_torch_function("backward", "grad"):
        return None
    for name, position in (("gradient", 0), ("grad_tensors", 1), ("grad_outputs", 2)):
        node, outputs = crash.argument_node(name, position), crash.input_node
        is_method = name == "gradient"
        if is_method and crash.call is not None and isinstance(crash.call.func, ast.Attribute):
            outputs = crash.call.func.value
        given, started = crash.value(node), crash.value(outputs)
        gradients, tensors = tree_tensors(given), tree_tensors(started)
        if node is None or outputs is None or crash.own is None or len(gradients) != len(tensors) or not tensors:
            continue
        unlike = [(g, t) for g, t in zip(gradients, tensors, strict=True) if g.shape != t.shape]
        if not unlike:
            continue
        gradient, tensor = unlike[0]
        text, name_text = crash.text(outputs), crash.text(node)
        message = f"{name_text} holds {describe_tensor(gradient)}, and {text} {describe_tensor(tensor)}."
        ones = (
            f"torch.ones_like({text})" if isinstance(started, Tensor) else f"[torch.ones_like(part) for part in {text}]"
        )
        cause = "The gradient of a tensor has its shape, without an added axis."
        return CrashCause(message, cause, edits=(replace_node(crash.own.file, node, ones),))
    return None


def loss_tensor(crash: Crash) -> object:
    """Return the tensor that a backward pass starts from."""
    tensor = crash.local("self", function="backward")
    if isinstance(tensor, Tensor):
        return tensor
    tensors = crash.local("tensors", function="backward")
    if tensors is UNKNOWN:
        tensors = crash.local("outputs", function="grad")
    return tensors[0] if isinstance(tensors, (tuple, list)) and tensors else tensors


def loss_node(crash: Crash) -> ast.expr | None:
    """Return the user's expression of that tensor."""
    call = crash.call
    if call is not None and isinstance(call.func, ast.Attribute) and call.func.attr == "backward" and not call.args:
        return call.func.value
    return crash.input_node


def _repair(crash: Crash, node: ast.expr | None) -> tuple[tuple[Edit, ...], str]:
    losses = [
        value
        for frame in crash.user_frames()
        for value in (*frame.variables.values(), *getattr(frame.variables.get("self"), "__dict__", {}).values())
        if isinstance(value, nn.Module) and getattr(value, "reduction", "mean") == "none"
    ]
    creation = find_layer_creation(crash, losses[0]) if len({*map(id, losses)}) == 1 else None
    if creation is not None and crash.own is not None and node is not None:
        cause = f"The loss {type(losses[0]).__name__} has reduction='none': it gives one value for each sample."
        made = assigned_value(crash, node) if isinstance(node, ast.Name) else node
        if isinstance(made, ast.Call) and crash.value(made.func) is losses[0]:
            return (set_argument(creation, losses[0], "reduction", '"mean"'),), cause
        return (wrap_node(crash.own.file, made if made is not None else node, "{}.mean()"),), cause
    if node is None or crash.own is None:
        return (), "The losses of the samples are not combined."
    if isinstance(crash.call, ast.Call) and isinstance(crash.call.func, ast.Attribute):
        return (wrap_node(crash.own.file, node, "{}.mean()"),), "The values are not combined into one number."
    return (replace_node(crash.own.file, node, f"{crash.text(node)}.mean()"),), "The values are not combined into one."


def bad() -> Setup:
    """A step that takes the loss of each sample."""
    return _stepping("none")


def good() -> Setup:
    """A step that takes the mean loss."""
    return _stepping("mean")


def _stepping(reduction: str) -> Setup:
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        losses: Tensor = nn.functional.cross_entropy(setup.model(batch[0]), batch[1], reduction=reduction)
        losses.backward()  # type: ignore[no-untyped-call]
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup if reduction == "none" else classifier()
