"""X1001: a linear layer meets another number of features than it takes."""

from __future__ import annotations

import ast
from math import prod

import torch
from torch import Tensor, nn

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import find_layer_creation, set_layer_argument
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import batch_size, change_input, find_reshape, reshaped_owner
from nbdebug.crashes.model_copies import find_model_call
from nbdebug.finding import Edit, format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from nbdebug.source.edits import node_text, replace_node, wrap_node


@crash_rule("X1001")
def linear_size_mismatch(crash: Crash) -> CrashCause | None:
    """A linear layer gets another number of features than it takes.

    ## What it does
    Reads the input and the sizes of the layer that raised, and decides what differs: a missing flatten, features on
    another axis, a reshape that mixes samples, or the size of the layer.

    ## Why it matters
    The forward pass cannot run.

    ## How it is measured
    Exactly, by the shapes: a flatten is missing if the product of the axes after the first is the number of features;
    the axes are exchanged if the last but one has that size; a reshape mixes samples if the first axis is no longer the
    size of the batch. Otherwise the layer has the wrong size.

    ## How to fix
    Flatten or transpose the input where it is passed, or give ``in_features`` the size of the input.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    Documentation of torch.nn.Linear: the last axis of the input has in_features entries.
    """
    layer, input = crash.layer, crash.layer_input
    if not isinstance(layer, nn.Linear) or not isinstance(input, Tensor) or not input.dim():
        return None
    expected, actual = layer.in_features, input.shape[-1]
    if actual == expected:
        return None
    explanation = (
        _unbatched_image(crash, layer, input)
        or _flattened_batch(crash, layer, input)
        or _mixed_samples(crash, layer, input)
        or _missing_flatten(crash, layer, input)
        or _transposed(crash, layer, input)
        or _other_size(crash, layer, input)
    )
    path = crash.path(layer)
    explanation.module = path
    name = f"The layer {format_module(path)}" if path else "The linear layer"
    explanation.message = f"{name} takes {expected} features; its input has {actual}: {describe_tensor(input)}."
    explanation.evidence = {"in_features": expected, "input": describe_tensor(input)}
    return explanation


def _unbatched_image(crash: Crash, layer: nn.Linear, input: Tensor) -> CrashCause | None:
    """Explain a model that was called with one image: convolutions take it, and a flatten then keeps its channels."""
    call = find_model_call(crash)
    image = call.args[0] if call is not None and call.args else None
    is_convolutional = call is not None and any(isinstance(part, nn.Conv2d) for part in call.model.modules())
    if not isinstance(image, Tensor) or image.dim() != 3 or not is_convolutional:
        return None
    if input.numel() != layer.in_features or call is None or call.frame is None:
        return None
    arguments = call.frame.node.args if isinstance(call.frame.node, ast.Call) else []
    is_passed = bool(arguments) and not isinstance(arguments[0], ast.Starred)
    edits = (wrap_node(call.frame.file, arguments[0], "{}.unsqueeze(0)"),) if is_passed else ()
    cause = (
        f"The model was called with one image of shape {[*image.shape]}, without an axis of the batch, so the first "
        "axis after the convolutions holds its channels."
    )
    return CrashCause("", cause, "" if edits else "model(image.unsqueeze(0))", edits)


def _flattened_batch(crash: Crash, layer: nn.Linear, input: Tensor) -> CrashCause | None:
    """Explain a Flatten that begins with the axis of the samples."""
    size = batch_size(crash)
    modules = crash.root.modules() if crash.root is not None else ()
    layers = [module for module in modules if isinstance(module, nn.Flatten) and module.start_dim == 0]
    creation = find_layer_creation(crash, layers[0]) if layers and input.dim() == 1 else None
    if not size or creation is None or input.numel() % size:
        return None
    function = node_text(creation.file, creation.call.func)
    features = input.numel() // size
    edits: tuple[Edit, ...] = (replace_node(creation.file, creation.call, f"{function}()"),)
    replaced: dict[nn.Module, nn.Module] = {layers[0]: nn.Flatten()}
    cause = f"{function}(0) begins with the axis of the batch (start_dim=0), and puts {size} samples of {features} "
    cause += "features into one row."
    return CrashCause("", cause, edits=edits, modules=replaced)


def _mixed_samples(crash: Crash, layer: nn.Linear, input: Tensor) -> CrashCause | None:
    """Explain an input of another number of rows than there are samples, which a reshape has made."""
    size, node = batch_size(crash), find_reshape(crash, crash.input_node)
    if not size or node is None or crash.own is None or not crash.is_direct_layer_call:
        return None
    if input.dim() != 2 or len(input) == size or input.numel() % size:
        return None
    owner = reshaped_owner(crash, node)
    if owner is None:
        return None
    features = input.numel() // size
    edits = [replace_node(crash.own.file, node, f"{crash.text(owner)}.flatten(1)")]
    cause = f"The reshape makes {len(input)} rows of {size} samples; flatten(1) keeps one row per sample, of {features}"
    creation = find_layer_creation(crash, layer)
    if features != layer.in_features and creation is not None:
        edit = set_layer_argument(crash, layer, "in_features", features)
        edits += [edit] if edit is not None else []
    return CrashCause("", f"{cause} features.", edits=tuple(edits))


def _missing_flatten(crash: Crash, layer: nn.Linear, input: Tensor) -> CrashCause | None:
    axes = [axis for axis in range(1, input.dim() - 1) if prod(input.shape[axis:]) == layer.in_features]
    if not axes:
        return None
    axis = axes[0]
    change = change_input(
        crash, f"{{}}.flatten({axis})", f"Flatten({axis})" if axis > 1 else "Flatten()", nn.Flatten(axis)
    )
    product = " · ".join(map(str, input.shape[axis:]))
    cause = f"The input is not flattened: its axes from {axis} on hold {product} = {layer.in_features} features."
    return CrashCause("", cause, f"x = x.flatten({axis})" if not change.edits else "", change.edits, change.modules)


def _transposed(crash: Crash, layer: nn.Linear, input: Tensor) -> CrashCause | None:
    if input.dim() < 3 or input.shape[-2] != layer.in_features:
        if input.dim() != 2 or input.shape[0] != layer.in_features or batch_size(crash) != layer.in_features:
            return None
        if not any(input is value for value in _model_arguments(crash)):
            return None
    change = change_input(crash, "{}.transpose(-2, -1)")
    cause = f"The features are on axis {input.dim() - 2} of the input, and the layer takes them on the last."
    return CrashCause("", cause, "" if change.edits else "x = x.transpose(-2, -1)", change.edits)


def _model_arguments(crash: Crash) -> list[object]:
    call = find_model_call(crash)
    return [*call.args, *call.kwargs.values()] if call else []


def _other_size(crash: Crash, layer: nn.Linear, input: Tensor) -> CrashCause:
    size = batch_size(crash)
    is_map = input.dim() == 4 and crash.root is not None
    is_map = is_map and any(isinstance(m, nn.Conv2d) for m in crash.root.modules())  # type: ignore[union-attr]
    features = prod(input.shape[1:]) if is_map else input.shape[-1]
    change = change_input(crash, "{}.flatten(1)", "Flatten()", nn.Flatten()) if is_map else None
    edits = change.edits if change is not None else ()
    creation = find_layer_creation(crash, layer)
    resized = nn.Linear(features, layer.out_features, layer.bias is not None, "meta", layer.weight.dtype)
    if crash.setup is not None:
        resized = _initialized(layer, features)
    modules: dict[nn.Module, nn.Module] = {layer: resized}
    cause = f"What is computed before the layer has {features} features per sample."
    if is_map:
        cause = f"The input is not flattened, and then has {features} features, not {layer.in_features}."
        modules = {}  # both changes belong together, and a trial applies one kind
    if size and input.dim() == 1 and input.numel() % size == 0:
        cause = f"The input has lost its batch axis of {size}."
    fix = "" if creation is not None else f"in_features={features}"
    if creation is not None:
        edit = set_layer_argument(crash, layer, "in_features", features)
        edits = (*((edit,) if edit else ()), *edits)
    return CrashCause("", cause, fix, edits, modules)


def _initialized(layer: nn.Linear, features: int) -> nn.Linear:
    with torch.random.fork_rng(devices=[]):
        return nn.Linear(features, layer.out_features, layer.bias is not None, layer.weight.device, layer.weight.dtype)


def bad() -> Setup:
    """Inputs with four features for a layer that takes five."""
    return minimal_setup(nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 3)), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """Inputs with four features for a layer that takes four."""
    x, y = points()
    return minimal_setup(network(3), x, y, nn.CrossEntropyLoss())
