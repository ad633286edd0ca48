"""X1023: a tensor with a graph is converted to NumPy."""

from __future__ import annotations

import ast

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.explanation import CrashCause
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import wrap_node


@crash_rule("X1023")
def conversion_needs_detach(crash: Crash) -> CrashCause | None:
    """A tensor that requires a gradient, or is on a GPU, is converted to a NumPy array.

    ## What it does
    Reads the tensor that is converted, also where a function of NumPy, matplotlib or scikit-learn converts it.

    ## Why it matters
    The conversion cannot run: NumPy has no graphs, and no memory of the GPU.

    ## How it is measured
    Exactly, by ``requires_grad`` and the device.

    ## How to fix
    ``x.detach().cpu()`` before the conversion.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.Tensor.numpy.
    """
    if "numpy" not in crash.message.lower() or crash.own is None:
        return None
    tensor = next((f.variables.get("self") for f in reversed(crash.frames) if f.function == "__array__"), None)
    operands = [(n, v) for n, v in crash.tensors if v.requires_grad or v.device.type not in ("cpu", "meta")]
    if not operands:
        operands = [(n, v) for n, v in _arguments(crash) if v is tensor or v.requires_grad]
    if not operands:
        return None
    node, value = operands[0]
    text = crash.text(node)
    is_remote = value.device.type not in ("cpu", "meta")
    template = "{}.detach().cpu()" if is_remote else "{}.detach()"
    message = f"{text} is {describe_tensor(value)} and requires a gradient; NumPy takes tensors without a graph."
    if not value.requires_grad:
        message = f"{text} is {describe_tensor(value)}; NumPy takes tensors of the CPU."
    cause = f"It is converted to an array in {crash.operation or 'this line'}: use {template.format(text)}."
    return CrashCause(message, cause, edits=(wrap_node(crash.own.file, node, template),))


def _arguments(crash: Crash) -> list[tuple[ast.expr, Tensor]]:
    """Return the tensors among the parts of the user's statement."""
    statement = crash.own.statement if crash.own else None
    nodes = [n for n in (ast.walk(statement) if statement else ()) if isinstance(n, (ast.Name, ast.Attribute))]
    values = [(node, crash.value(node)) for node in nodes]
    return [(node, value) for node, value in values if isinstance(value, Tensor)]


def bad() -> Setup:
    """A step that logs the output as an array."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        output = setup.model(batch[0])
        output.numpy()
        return nn.functional.cross_entropy(output, batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that logs nothing."""
    return classifier()
