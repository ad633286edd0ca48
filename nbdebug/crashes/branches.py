"""Repairs of two branches of a module whose maps have unlike shapes: padding, stride, or a projection."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.creations import find_layer_creation, set_argument
from nbdebug.crashes.inputs import Change
from nbdebug.crashes.meta import copy_model
from nbdebug.crashes.model_copies import find_model_call
from nbdebug.source.edits import insert_after, node_text, replace_node, wrap_node
from nbdebug.source.location import SourceLine
from nbdebug.source.search import enclosing_scope, read_names

_CONVOLUTIONS = {3: "Conv1d", 4: "Conv2d", 5: "Conv3d"}
_MAX_TRIALS = 24


def _owner_of_operation(crash: Crash) -> nn.Module | None:
    """Return the module in whose method the user's expression raised."""
    owner = crash.own.variables.get("self") if crash.own else None
    return owner if isinstance(owner, nn.Module) else crash.root


def find_layer_change(crash: Crash, *, keeps_chosen_strides: bool = False) -> tuple[str, Change] | None:
    """Return the first change of padding or stride of one layer with which the model runs on a copy, described.

    With ``keeps_chosen_strides``, a stride that a variable gives is not reduced: it is chosen where the block is made.
    """
    call, owner = find_model_call(crash), _owner_of_operation(crash)
    if call is None or owner is None:
        return None
    for _, (layer, name, value) in zip(range(_MAX_TRIALS), _candidates(owner), strict=False):
        creation = find_layer_creation(crash, layer)
        if creation is None:
            continue
        if keeps_chosen_strides and name == "stride" and value < layer.stride[0]:
            text = _argument_text(crash, layer, name)
            if text is not None and not text.isdigit():
                continue
        changed = with_option(layer, name, value)
        try:
            call.run(copy_model(call.model, {layer: changed}))
        except Exception:
            continue
        text = _option_text(crash, owner, layer, name, value) if name == "stride" else str(value)
        path = crash.path(layer) or type(layer).__name__
        sentence = f"With {name}={value}, the layer {path} gives maps of the size of the other branch."
        return sentence, Change((set_argument(creation, layer, name, text),), {layer: changed})
    return None


def _candidates(owner: nn.Module) -> Iterator[tuple[_ConvNd, str, Any]]:
    """Yield changes of a layer: the padding that keeps the size, and the strides of the other layers."""
    convolutions = [module for module in owner.modules() if isinstance(module, _ConvNd)]
    for layer in convolutions:
        kept = [d * (k - 1) // 2 for k, d in zip(layer.kernel_size, layer.dilation, strict=True)]
        if isinstance(layer.padding, tuple) and list(layer.padding) != kept and not layer.transposed:
            yield layer, "padding", kept[0] if len({*kept}) == 1 else tuple(kept)
    strides = {layer.stride[0] for layer in convolutions} | {1}
    # A layer of kernel size 1 is a shortcut, which follows the stride of the other branch.
    for layer in sorted(convolutions, key=lambda layer: max(layer.kernel_size) > 1):
        yield from ((layer, "stride", stride) for stride in sorted(strides, reverse=True) if layer.stride[0] != stride)


def with_option(layer: _ConvNd, name: str, value: Any) -> _ConvNd:
    """Return a shallow copy of a convolution with another padding or stride."""
    changed = copy.copy(layer)
    sizes = value if isinstance(value, tuple) else (value,) * len(layer.kernel_size)
    changed.__dict__[name] = sizes
    if name == "padding":
        changed.__dict__["_reversed_padding_repeated_twice"] = [size for size in reversed(sizes) for _ in range(2)]
    return changed


def _option_text(crash: Crash, owner: nn.Module, layer: nn.Module, name: str, value: Any) -> str:
    """Return the user's own expression for an option of another layer with the same value; else the value."""
    for other in owner.modules():
        if other is not layer and isinstance(other, _ConvNd) and getattr(other, name)[0] == value:
            text = _argument_text(crash, other, name)
            if text is not None:
                return text
    return str(value)


def _argument_text(crash: Crash, layer: nn.Module, name: str) -> str | None:
    creation = find_layer_creation(crash, layer)
    argument = creation.argument(layer, name) if creation is not None else None
    return node_text(creation.file, argument) if creation is not None and argument is not None else None


def find_projection(crash: Crash, operands: list[tuple[ast.expr, Any]]) -> tuple[str, Change] | None:
    """Return a projection of the branch that leaves its input unchanged to the shape of the other branch."""
    owner = _owner_of_operation(crash)
    (first, left), (second, right) = operands
    if owner is None or crash.own is None or not isinstance(left, Tensor) or not isinstance(right, Tensor):
        return None
    if left.dim() != right.dim() or left.dim() not in _CONVOLUTIONS:
        return None
    for node, source, target in ((second, right, left), (first, left, right)):
        identity = crash.value(node.func) if isinstance(node, ast.Call) else None
        is_plain = isinstance(node, ast.Name) or isinstance(identity, nn.Identity)
        stride = source.shape[2] // max(target.shape[2], 1)
        if not is_plain or stride < 1 or -(-source.shape[2] // stride) != target.shape[2]:
            continue
        text = _projection_text(crash, owner, source, target, stride)
        sentence = f"{crash.text(node)} has {source.shape[1]} channels of size {[*source.shape[2:]]}, and the other "
        sentence += f"branch {target.shape[1]} of size {[*target.shape[2:]]}: it needs a projection."
        if isinstance(identity, nn.Identity):
            creation = find_layer_creation(crash, identity)
            if creation is None:
                continue
            return sentence, Change((replace_node(creation.file, creation.call, text),))
        place = _end_of_constructor(crash, owner)
        if place is None:
            continue
        file, number = place
        edits = (  # the sum first, which is the line at fault
            wrap_node(crash.own.file, node, "self.projection({})"),
            insert_after(file, number, f"self.projection = {text}"),
        )
        return sentence, Change(edits)
    return None


def _projection_text(crash: Crash, owner: nn.Module, source: Tensor, target: Tensor, stride: int) -> str:
    convolutions = [module for module in owner.modules() if isinstance(module, _ConvNd)]
    inward = next((c for c in convolutions if c.in_channels == source.shape[1]), None)
    outward = next((c for c in reversed(convolutions) if c.out_channels == target.shape[1]), None)
    strided = next((c for c in convolutions if c.stride[0] == stride), None)
    texts = [
        (inward and _argument_text(crash, inward, "in_channels")) or str(source.shape[1]),
        (outward and _argument_text(crash, outward, "out_channels")) or str(target.shape[1]),
        "1",
    ]
    stride_text = (strided and _argument_text(crash, strided, "stride")) or str(stride)
    if stride > 1 or not stride_text.isdigit():
        texts.append(f"stride={stride_text}")
    return f"nn.{_CONVOLUTIONS[source.dim()]}({', '.join(texts)})"


def _end_of_constructor(crash: Crash, owner: nn.Module) -> tuple[str, int] | None:
    """Return the file and the line of the last assignment of a layer in the constructor of a module."""
    lines = []
    for part in owner.children():
        creation = find_layer_creation(crash, part)
        if creation is not None:
            lines.append((creation.file, creation.call.end_lineno or creation.call.lineno))
    if not lines:
        return None
    file, number = max(lines, key=lambda line: line[1])
    scope = enclosing_scope(SourceLine(file, number))
    if not isinstance(scope, ast.FunctionDef) or scope.name != "__init__":
        return None
    statements = [s for s in scope.body if s.lineno <= number <= (s.end_lineno or s.lineno)]
    if not statements or not read_names(scope):
        return None
    return file, statements[0].end_lineno or statements[0].lineno
