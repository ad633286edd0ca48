"""X1015: an operation does not exist for the dtype of its input."""

from __future__ import annotations

import ast
import re

from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import wrap_at_source
from nbdebug.finding import Edit
from nbdebug.formatting import join_names
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import append_argument, replace_node, wrap_node


@crash_rule("X1015")
def unsupported_dtype(crash: Crash) -> CrashCause | None:
    """An operation does not exist for integers or truth values, or only floating-point tensors can have gradients.

    ## What it does
    Reads the dtype of the tensor in the user's expression.

    ## Why it matters
    The operation cannot run.

    ## How it is measured
    Exactly, by the dtype.

    ## How to fix
    Convert the tensor with ``.float()`` before; combine truth values with ``^``, ``&`` and ``~``.

    ## When to ignore
    Never: the operation cannot run.

    ## References
    Documentation of torch.Tensor.mean and of torch.Tensor.requires_grad.
    """
    if not re.search(_MESSAGES, crash.message) or crash.own is None or crash.phase == "loss tensor":
        return None
    if "numpy.object_" in crash.message:
        return _objects(crash)
    if "bool" in crash.message.lower() and crash.operation == "sub":
        return _difference(crash)
    nodes = crash.tensors
    if crash.operation == "Parameter" or "require gradients" in crash.message.lower():
        return _parameter(crash)
    wrong = [(n, v) for n, v in nodes if not v.is_floating_point() and not v.is_complex()]
    if not wrong:
        return None
    node, value = wrong[0]
    text = crash.text(node)
    message = f"{crash.operation or 'The operation'} of {text} is not possible: it is {describe_tensor(value)}."
    cause = "It holds integers, and the operation needs floating-point values (float)."
    edits = wrap_at_source(crash, node, "{}.float()")
    augmented = isinstance(crash.node, ast.AugAssign) and node is crash.node.target
    if augmented and isinstance(crash.node, ast.AugAssign):
        sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}.get(crash.operation, "/")
        changed = f"{text} = {text}.float() {sign} ({crash.text(crash.node.value)})"
        edits = (replace_node(crash.own.file, crash.node, changed),)
        cause += " An in-place operation cannot change the dtype."
    return CrashCause(message, cause, edits=edits)


_MESSAGES = (
    r"could not infer output dtype|Only Tensors of floating point|not implemented for '(Long|Int|Byte|Bool|Short)'"
    r"|numpy\.object_|can't be cast|bool tensors? is not supported|floating point or complex|must be floating"
)


def _objects(crash: Crash) -> CrashCause:
    """Explain an array of Python objects, such as the values of a table with a column of text."""
    names = [node for node in ast.walk(crash.node or ast.Pass()) if isinstance(node, ast.Name)]
    tables = [value for node in names if hasattr(value := crash.value(node), "select_dtypes")]
    columns = [str(name) for table in tables for name in table.select_dtypes(exclude=["number", "bool"]).columns]
    message = "A tensor holds numbers, and the array holds Python objects (dtype object)."
    if not columns:
        return CrashCause(message, "A part of it is no number.", "Convert every part to a number before.")
    cause = f"Columns without numbers: {join_names(columns)}."
    return CrashCause(message, cause, "Encode these columns as numbers, or leave them out.")


def _difference(crash: Crash) -> CrashCause | None:
    (left, _), (right, _) = crash.operands[:2]
    node = crash.node
    assert crash.own is not None
    message = f"{crash.text(left)} and {crash.text(right)} are bool, and truth values have no difference."
    cause = "Where they differ is left ^ right (or !=); a number needs .float() of both."
    if not isinstance(node, ast.BinOp):
        return CrashCause(message, cause, "a ^ b")
    text = f"{crash.text(left)}.float() - {crash.text(right)}.float()"
    return CrashCause(message, cause, edits=(replace_node(crash.own.file, node, text),))


def _parameter(crash: Crash) -> CrashCause | None:
    node = crash.input_node
    value = crash.value(node)
    frame_value = crash.local("data")
    tensor = value if isinstance(value, Tensor) else frame_value
    assert crash.own is not None
    if crash.call is not None and isinstance(crash.call.func, ast.Attribute) and crash.operation == "requires_grad_":
        node, tensor = crash.call.func.value, crash.value(crash.call.func.value)
    if node is None:
        return None
    shown = describe_tensor(tensor) if tensor is not UNKNOWN and isinstance(tensor, Tensor) else "integers"
    if isinstance(tensor, Tensor) and tensor.is_floating_point():
        return None
    if crash.call is not None and any(k.arg == "requires_grad" for k in crash.call.keywords):
        return CrashCause(
            f"Only floating-point tensors can require a gradient; {crash.text(crash.call)} makes integers (int64).",
            "Python integers make an int64 (long) tensor: write them as floats, 1.0, or pass dtype=torch.float32.",
            edits=(wrap_node(crash.own.file, node, "{}"),) if crash.operation not in ("tensor",) else (_float(crash),),
        )
    message = f"Only floating-point tensors can require a gradient; {crash.text(node)} is {shown} (int64, long)."
    edits = (wrap_node(crash.own.file, node, "{}.float()"),)
    return CrashCause(message, "Integers have no gradient: convert them to float.", edits=edits)


def _float(crash: Crash) -> Edit:

    assert crash.own is not None
    assert crash.call is not None
    return append_argument(crash.own.file, crash.call, "dtype=torch.float32")


def bad() -> Setup:
    """The mean of integers."""
    x, y = points()
    setup = minimal_setup(network(3), x, y, nn.CrossEntropyLoss())

    def step(batch: tuple[Tensor, Tensor]) -> Tensor:
        batch[1].mean()
        return nn.functional.cross_entropy(setup.model(batch[0]), batch[1])

    setup.step_fn = step
    return setup


def good() -> Setup:
    """A step that runs."""
    return classifier()
