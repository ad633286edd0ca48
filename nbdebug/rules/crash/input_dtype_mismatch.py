"""X1014: input and weights of an operation have different dtypes."""

from __future__ import annotations

import ast
import re
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.evaluation import UNKNOWN
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import passing_places, wrap_at_source
from nbdebug.crashes.repairs import owner_of_parameter
from nbdebug.finding import Edit, format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import wrap_node
from nbdebug.tensors.pytree import tree_tensors

_CASTS = {
    torch.float32: "{}.float()",
    torch.float64: "{}.double()",
    torch.float16: "{}.half()",
    torch.bfloat16: "{}.bfloat16()",
}
_OPERATIONS = {"matmul", "mm", "bmm", "mv", "linear", "conv1d", "conv2d", "conv3d", "addmm", "baddbmm", "dot"} | {
    *("einsum", "tensordot", "batch_norm", "layer_norm", "index_put_", "index_add_", "scatter_", "lerp", "addmv")
}
_INDEXED = (nn.Embedding, nn.EmbeddingBag)


@crash_rule("X1014")
def input_dtype_mismatch(crash: Crash) -> CrashCause | None:
    """An operation gets tensors of different dtypes.

    ## What it does
    Compares the dtypes of the input and the weights of the layer, or of the operands of the function, that raised.

    ## Why it matters
    The operation cannot run. NumPy makes float64 by default, and images and counts are integers.

    ## How it is measured
    Exactly, by the dtypes.

    ## How to fix
    Convert the input where it is read, to the dtype of the weights.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    Documentation of torch.Tensor.to, and of torch.from_numpy, which keeps the dtype of the array.
    """
    if not re.search("type|Float|Double|Half|implemented for", crash.message) or "argument" in crash.message:
        return None
    layer = crash.layer
    if isinstance(layer, nn.Module) and not isinstance(layer, _INDEXED):
        return _layer_explanation(crash, layer)
    if crash.torch_frames or crash.operation not in _OPERATIONS or len(crash.tensors) < 2:
        return None
    dtypes = {value.dtype for _, value in crash.tensors}
    if len(dtypes) < 2:
        return None
    weights = [v for _, v in crash.tensors if isinstance(v, nn.Parameter) or owner_of_parameter(crash, v)]
    weights += [v for _, v in crash.tensors if v.requires_grad]
    expected = weights[0].dtype if weights else torch.float32
    if expected not in _CASTS:
        return None
    node, value = next((n, v) for n, v in crash.tensors if v.dtype is not expected)
    text = crash.text(node)
    message = (
        f"{crash.operation}() got {', '.join(f'{crash.text(n)}: {describe_tensor(v)}' for n, v in crash.tensors)}."
    )
    cause = _cause(text, value.dtype, expected)
    edits = wrap_at_source(crash, node, _CASTS[expected])
    return CrashCause(message, cause, "", edits, evidence={text: describe_tensor(value)})


def _layer_explanation(crash: Crash, layer: nn.Module) -> CrashCause | None:
    weights = [p for p in layer.parameters(recurse=False) if p.is_floating_point()] + [
        p for p in layer.parameters() if p.is_floating_point()
    ]
    if not weights or not weights[0].dtype.is_floating_point or type(layer).__module__.endswith(".loss"):
        return None
    expected = weights[0].dtype
    arguments = _arguments(crash, layer)
    wrong = [(i, t) for i, argument in enumerate(arguments) for t in tree_tensors(argument) if t.dtype is not expected]
    if not wrong or expected not in _CASTS or torch.is_autocast_enabled():
        return None
    position, value = wrong[0]
    node = crash.argument_node("input", position) if crash.is_direct_layer_call else crash.input_node
    path = crash.path(layer)
    name = format_module(path) if path else type(layer).__name__
    message = f"The layer {name} has {_name(expected)} weights; its input is {describe_tensor(value)}."
    edits: tuple[Edit, ...] = ()
    if isinstance(arguments[position], Tensor) and node is not None:
        cast = (
            "{}.abs()" + _CASTS[expected][2:] * (expected is not torch.float32)
            if value.is_complex()
            else _CASTS[expected]
        )
        edits = _at_converted_part(crash, node, expected, value.dtype, cast) or wrap_at_source(crash, node, cast)
    elif node is not None:
        part = _element(crash, node, value)
        edits = wrap_at_source(crash, part, _CASTS[expected]) if part is not None else ()
    cause = _cause("The input", value.dtype, expected)
    fix = "" if edits else _CASTS[expected].format("x = x")
    return CrashCause(message, cause, fix, edits, module=path, evidence={"input": describe_tensor(value)})


def _at_converted_part(
    crash: Crash, node: ast.expr, expected: torch.dtype, actual: torch.dtype, cast: str
) -> tuple[Edit, ...]:
    """Return the edit of the input of the only part of a model that has another dtype than the rest; empty without one.

    The rest of the model takes the input as it is.
    """
    for frame, expression in passing_places(crash, node, only_forward=True):
        owner = frame.variables.get("self")
        dtypes = {p.dtype for p in owner.parameters()} if isinstance(owner, nn.Module) else set()
        if {expected, actual} <= dtypes:
            return (wrap_node(frame.file, expression, cast),)
    return ()


def _element(crash: Crash, node: Any, value: Tensor) -> Any:
    """Return the element of a tuple in the user's call that is a value."""
    return next((item for item in getattr(node, "elts", ()) if crash.value(item) is value), None)


def _arguments(crash: Crash, layer: nn.Module) -> list[Any]:
    for frame in reversed(crash.torch_frames):
        if frame.variables.get("self") is layer and frame.function == "_call_impl":
            return [*frame.variables.get("args", ()), *frame.variables.get("kwargs", {}).values()]
    return [] if crash.layer_input is UNKNOWN else [crash.layer_input]


def _cause(name: str, actual: torch.dtype, expected: torch.dtype) -> str:
    text = f"{name} is {_name(actual)}, and the weights are {_name(expected)}."
    if actual is torch.float64:
        text += " NumPy and Python numbers in arrays are float64 (Double) unless converted."
    elif actual is torch.uint8:
        text += " Images are read as bytes (uint8): convert them, and divide by 255."
    elif actual.is_complex:
        text += " It holds complex numbers: take their absolute values, or view_as_real()."
    elif not actual.is_floating_point:
        text += " It holds integers; the operation needs floating-point values."
    return text


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def bad() -> Setup:
    """Inputs in double precision, as NumPy makes them."""
    x, y = points()
    return minimal_setup(network(3), x.double(), y, nn.CrossEntropyLoss())


def good() -> Setup:
    """Inputs in single precision."""
    return classifier()
