"""Softmaxes over an axis of one value: where its length comes from, and what belongs in their place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from nbdebug.autograd import VALUE_PRESERVING_NODES, Node, Pattern
from nbdebug.exceptions import NotChecked
from nbdebug.finding import Finding
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.rule_engine.fix_edits import change_head_and_loss
from nbdebug.setup import Setup
from nbdebug.setup.losses import LossKind, score_tensor
from nbdebug.setup.source_lines import find_setup_creation
from nbdebug.source.edits import replace_node

_LINEAR = Pattern(frozenset({"Addmm", "Mm"}), frozenset(), VALUE_PRESERVING_NODES | {"Add"})
_REDUCTIONS = frozenset({"Mean", "Sum", "Amax", "Amin", "Max", "Min", "Median", "Std", "Var", "Logsumexp"})
_POOLS = frozenset({f"{kind}{axes}D" for kind in ("AdaptiveAvgPool", "AdaptiveMaxPool") for axes in (2, 3)})
_AXIS_KEEPING = frozenset(  # operations whose result has the axes of their input
    {
        *("Relu", "LeakyRelu", "Elu", "Gelu", "Silu", "Mish", "Tanh", "Sigmoid", "Softplus", "Hardtanh", "Hardswish"),
        *("Hardsigmoid", "Clamp", "ClampMin", "ClampMax", "Add", "Sub", "Mul", "Div", "Neg", "Exp", "Log", "ToCopy"),
        *("Clone", "NativeDropout", "Convolution", "NativeBatchNorm", "CudnnBatchNorm", "NativeGroupNorm"),
    }
)
_VIEWS = frozenset({"View", "Unsqueeze", "Squeeze", "Transpose", "T", "Permute", "Alias", "Clone", "ToCopy", "Select"})
_OPERATIONS_OF_TWO = frozenset({"Add", "Sub", "Mul", "Div"})
SINGLE_OUTPUT = (
    "Softmax normalizes over all outputs of a sample, and there is only one.",
    "# for one binary output, remove the softmax and use\nloss_fn = nn.BCEWithLogitsLoss()",
)


def softmax_name(node: Node) -> str:
    """Return the name of the function of torch that a node of the graph is."""
    return "log_softmax" if node.name == "LogSoftmax" else "softmax"


def is_always_single(node: Node, shape: tuple[int, ...], axis: int) -> bool:
    """Return whether the axis of a softmax has one value for any data: the result of one unit, or of a pooling."""
    return (len(shape) > 2 and any(_LINEAR.search_upstream(node.inputs))) or is_pooled(node, shape, axis)


def is_pooled(node: Node, shape: tuple[int, ...], axis: int) -> bool:
    """Return whether a reduction or pooling makes one value of several along an axis of the result of a node.

    If the result has several operands, such as the terms of a sum, all of them that have the axis must be pooled: any
    other one sets the length of the axis, and a pooled one is broadcast to it. Parameters do not count.
    """
    visited: set[Node] = set()
    pending = [(source, axis, len(shape)) for source in node.inputs]
    has_reduction = False
    while pending:
        source, position, count = pending.pop()
        if source in visited or _is_parameter(source):
            continue
        visited.add(source)
        if source.name in _REDUCTIONS | _POOLS and _reduces(source, position, count):
            has_reduction = True
        elif source.name == "Squeeze" and isinstance(dropped := source.get_saved("dim"), int):
            is_before = dropped % (count + 1) <= position
            pending += [(before, position + is_before, count + 1) for before in source.inputs]
        elif source.name in _OPERATIONS_OF_TWO and not _has_constant_axis(source, position, count):
            pending += _aligned_operands(source, position, count)
        elif source.name in _AXIS_KEEPING - _OPERATIONS_OF_TWO and source.function.next_functions[0][0] is not None:
            pending.append((source.inputs[0], position, count))
        else:
            return False
    return has_reduction


def _aligned_operands(node: Node, axis: int, count: int) -> Iterator[tuple[Node, int, int]]:
    """Yield the operands of a node that have an axis of its result, with its position and their number of axes."""
    for source, (function, number) in zip(node.inputs, _operand_functions(node), strict=True):
        metadata = getattr(function, "_input_metadata", None)
        dimensions = len(metadata[number].shape) if metadata else count
        if (position := axis - count + dimensions) >= 0:
            yield source, position, dimensions


def _operand_functions(node: Node) -> list[tuple[Any, int]]:
    """Return the operations that make the operands of a node with gradients, and the numbers of their results."""
    return [(function, number) for function, number in node.function.next_functions if function is not None]


def _has_constant_axis(node: Node, axis: int, count: int) -> bool:
    """Return whether an operand without a gradient has an axis of the result; of a sum, it is not known whether it has.

    A product saves it, also if it is a number.
    """
    if len(node.inputs) == len(node.function.next_functions):
        return False
    saved = [value for name in ("self", "other") if isinstance(value := node.get_saved(name), Tensor)]
    return not saved or any(value.dim() >= count - axis for value in saved)


def _is_parameter(node: Node) -> bool:
    """Return whether a node is a parameter or a view of all its values, whose axes have lengths of the model."""
    while node.name in _VIEWS and len(node.inputs) == 1:
        node = node.inputs[0]
    return isinstance(node.variable, nn.Parameter)


def _reduces(node: Node, axis: int, count: int) -> bool:
    """Return whether a reduction or pooling takes several values along an axis, of some number, and keeps the axis."""
    values = node.get_saved("self")
    sizes = tuple(values.shape) if isinstance(values, Tensor) else node.get_saved("self_sym_sizes")
    if not isinstance(sizes, tuple) or len(sizes) != count or sizes[axis] < 2:
        return False
    if node.name in _POOLS:
        return axis >= 2
    axes = node.get_saved("dim")
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    return bool(node.get_saved("keepdim")) and axis in [
        _signed(number) % count for number in axes if number is not None
    ]


def _signed(number: int) -> int:
    """Return a number that torch gives as an unsigned integer."""
    return number - 2**64 if number >= 2**63 else number


def explain_single_value(node: Node, shape: tuple[int, ...], axis: int) -> tuple[str, str]:
    """Return the cause and the fix for a softmax between layers whose axis has one value."""
    others = [number for number in range(1, len(shape)) if number != axis and shape[number] > 1]
    items = f"such as axis {others[0]} of size {shape[others[0]]}" if len(others) == 1 else "not one of size 1"
    fix = (
        f"{softmax_name(node)}(x, dim={others[0]})   # over the items"
        if len(others) == 1
        else "Take the axis of the items."
    )
    pooled = f"A reduction before the softmax leaves one value on axis {axis}. " if is_pooled(node, shape, axis) else ""
    return f"{pooled}The weights of a pooling or an attention must sum to 1 over the axis of the items, {items}.", fix


def with_sigmoid(
    setup: Setup, first_pass: ForwardPass, node: Node, kind: LossKind | NotChecked, finding: Finding
) -> Finding:
    """Return the finding with a fix for the user's loss: a sigmoid for the softmax, or binary cross-entropy."""
    output, target = score_tensor(first_pass.output), first_pass.batch.target
    if not isinstance(output, Tensor):
        return finding
    module = setup.eager_model.get_submodule(node.module) if node.module else None
    if isinstance(module, nn.Softmax) and kind == "bce":
        fix = f"model.set_submodule({node.module!r}, nn.Sigmoid())"
        creation = find_setup_creation(setup, module)
        sigmoid = (replace_node(creation.file, creation.call, "nn.Sigmoid()"),) if creation else ()
        return replace(finding, fix=fix, edits=sigmoid, setup_fix=fix)
    in_model = {part.function for part in first_pass.trace.get_graph(output).nodes}
    if node.function not in in_model and isinstance(target, Tensor) and target.shape == output.shape:
        is_probability = bool(((output >= 0) & (output <= 1)).all())
        fix = f"loss_fn = nn.{'BCELoss' if is_probability else 'BCEWithLogitsLoss'}()"
        return replace(finding, fix=fix, setup_fix=fix)
    edits = change_head_and_loss(setup, node.line, ("softmax", "Softmax"), "nn.BCEWithLogitsLoss()")
    return replace(finding, edits=edits)
