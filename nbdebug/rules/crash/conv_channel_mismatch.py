"""X1003: a convolution meets an input of another layout or number of channels."""

from __future__ import annotations

import ast
from math import isqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from nbdebug.crashes import Crash
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import find_layer_creation, set_layer_argument
from nbdebug.crashes.explanation import CrashCause
from nbdebug.crashes.inputs import Change, assigned_value_in, change_input, outermost_place
from nbdebug.finding import format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import wrap_node


@crash_rule("X1003")
def conv_channel_mismatch(crash: Crash) -> CrashCause | None:
    """A convolution gets an input whose channels are missing, elsewhere, or of another number.

    ## What it does
    Reads the input of the convolution that raised, and decides by its shape which axis holds the channels.

    ## Why it matters
    The forward pass cannot run.

    ## How it is measured
    Exactly, by the shapes: the channels are last if the last axis has the number that the layer takes; an axis is
    missing if the input has one less than a batch of maps; otherwise the layer takes another number of channels.

    ## How to fix
    Permute or unsqueeze the input where it is passed, or give ``in_channels`` the number of channels.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    Documentation of torch.nn.Conv2d: the input has the shape (samples, channels, height, width).
    """
    layer, input = crash.layer, crash.layer_input
    if layer is None and crash.operation in ("conv1d", "conv2d", "conv3d"):
        return _functional(crash)
    if not isinstance(layer, _ConvNd) or not isinstance(input, Tensor):
        return None
    axes = len(layer.kernel_size)
    channels = layer.in_channels
    if input.dim() == axes + 2 and input.shape[1] == channels:
        return None
    cause, change, fix = _repair(crash, layer, input, axes)
    path = crash.path(layer)
    name = f"The layer {format_module(path)}" if path else "The convolution"
    shape = "samples, channels, " + (
        "length" if axes == 1 else "height, width" if axes == 2 else "depth, height, width"
    )
    message = f"{name} takes {channels} channels in the layout ({shape}); its input is {describe_tensor(input)}."
    evidence = {"in_channels": channels, "input": describe_tensor(input)}
    fix = "" if change.edits else fix
    return CrashCause(message, cause, fix, change.edits, change.modules, module=path, evidence=evidence)


def _functional(crash: Crash) -> CrashCause | None:
    """Explain a functional convolution: the weight is (out channels, in channels, …)."""
    if len(crash.tensors) < 2 or crash.own is None:
        return None
    (node, input), (weight_node, weight) = crash.tensors[:2]
    if input.dim() != weight.dim() or input.shape[1] == weight.shape[1]:
        return None
    text, weight_text = crash.text(node), crash.text(weight_node)
    message = f"{crash.operation} takes {weight.shape[1]} channels on axis 1, as the weight {weight_text} says "
    message += f"({describe_tensor(weight)}); {text} is {describe_tensor(input)}, with {input.shape[1]} channels."
    if weight.shape[0] == input.shape[1]:
        cause = "The weight has the layout (out channels, in channels, …); its first two axes are exchanged."
        return CrashCause(message, cause, edits=(wrap_node(crash.own.file, weight_node, "{}.transpose(0, 1)"),))
    if input.shape[-1] == weight.shape[1]:
        cause = "The channels are on the last axis of the input."
        return CrashCause(message, cause, edits=(wrap_node(crash.own.file, node, "{}.movedim(-1, 1)"),))
    return CrashCause(message, "Input and weight have other channels.", f"# create the weight with {input.shape[1]}")


def _repair(crash: Crash, layer: _ConvNd, input: Tensor, axes: int) -> tuple[str, Change, str]:
    """Return the cause, the change and the fix as text."""
    channels, shape = layer.in_channels, list(input.shape)
    if input.dim() == axes + 2 and shape[-1] == channels:
        template = "{}.transpose(1, 2)" if axes == 1 else f"{{}}.movedim(-1, 1)"  # noqa: F541
        return (
            f"The channels are on the last axis, of {channels} entries (channels last), not on axis 1.",
            change_input(crash, template),
            template.format("x"),
        )
    if input.dim() == axes + 2:
        text = f"The input has {shape[1]} channels on axis 1, and the layer takes {channels}."
        return text, _resize(crash, layer, shape[1]), f"in_channels={shape[1]}"
    if input.dim() == axes + 1 and shape[-1] == channels and shape[0] != channels:
        template = "{}.movedim(-1, 0).unsqueeze(0)"
        cause = "The input is one sample with its channels last: batch axis and layout differ."
        return cause, change_input(crash, template), template.format("x")
    if input.dim() == axes + 1:
        cause = f"The input has no channel axis: its axis 0, of {shape[0]}, holds the samples."
        change = change_input(crash, "{}.unsqueeze(1)", "Unflatten(0, (-1, 1))")
        if channels != 1:
            resized = _resize(crash, layer, 1)
            change = Change((*change.edits, *resized.edits)) if change.edits else change
            cause += f" With one channel, the layer takes 1 instead of {channels}."
        return cause, change, "x = x.unsqueeze(1)"
    if input.dim() == 2 and shape[1] % channels == 0:
        side = isqrt(shape[1] // channels)
        sizes = (channels, side, side) if axes == 2 else (channels, shape[1] // channels)
        if axes == 1 or (axes == 2 and side * side * channels == shape[1]):
            template = f"{{}}.reshape(-1, {', '.join(map(str, sizes))})"
            change = change_input(crash, template, f"Unflatten(1, {sizes})", nn.Unflatten(1, sizes))
            place = outermost_place(crash, crash.input_node) if change.edits and not change.modules else None
            value = assigned_value_in(*place) if place is not None else None
            if place is not None and isinstance(value, ast.Call):
                change = Change((wrap_node(place[0].file, value, template),))
            cause = (
                f"The input is flattened to 2 axes, of {shape[1]} = {' · '.join(map(str, sizes))} values per sample."
            )
            return cause, change, template.format("x")
    if input.dim() == axes + 3:
        axis = next((axis for axis, size in enumerate(shape) if size == 1), None)
        if axis is not None:
            template = f"{{}}.squeeze({axis})"
            return f"The input has an axis too many: axis {axis}, of size 1.", change_input(crash, template), template
        template = "{}.flatten(0, 1)"
        cause = "The input has an axis too many, such as the steps of a sequence; the layer takes one batch axis."
        return cause, change_input(crash, template), template.format("x")
    return "The number of axes does not fit the layer.", Change(), "# print the shape of the input before the layer"


def _resize(crash: Crash, layer: _ConvNd, channels: int) -> Change:
    """Return the change of the number of channels that a layer takes."""
    creation = find_layer_creation(crash, layer)
    if creation is None or channels % layer.groups:
        return Change()
    with torch.random.fork_rng(devices=[]):
        create: Any = type(layer)
        created = create(
            channels,
            layer.out_channels,
            layer.kernel_size,
            layer.stride,
            layer.padding,
            dilation=layer.dilation,
            groups=layer.groups,
            bias=layer.bias is not None,
        )
    edit = set_layer_argument(crash, layer, "in_channels", channels)
    return Change((edit,), {layer: created}) if edit is not None else Change()


def _images(channels_last: bool) -> Setup:
    x, y = points()
    images = x.view(64, 1, 2, 2).repeat(1, 3, 4, 4)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 3))
    return minimal_setup(model, images.movedim(1, -1) if channels_last else images, y, nn.CrossEntropyLoss())


def bad() -> Setup:
    """Images with their channels last."""
    return _images(True)


def good() -> Setup:
    """Images with their channels first."""
    return _images(False)
