"""X1053: a window or a padding is larger than the map that it gets."""

from __future__ import annotations

from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.padding import _ReflectionPadNd
from torch.nn.modules.pooling import _AvgPoolNd, _MaxPoolNd

from nbdebug.crashes import Crash
from nbdebug.crashes.branches import with_option
from nbdebug.crashes.crash import describe_tensor
from nbdebug.crashes.creations import find_layer_creation, set_layer_argument
from nbdebug.crashes.explanation import CrashCause
from nbdebug.finding import format_module
from nbdebug.rule_engine.crash_rules import crash_rule
from nbdebug.rules.examples import minimal_setup, points
from nbdebug.setup import Setup
from nbdebug.source.edits import node_text, replace_node


@crash_rule("X1053")
def window_larger_than_map(crash: Crash) -> CrashCause | None:
    """A convolution, a pooling or a reflection padding gets a map that is smaller than its window.

    ## What it does
    Compares the kernel size or the padding of the layer that raised with the size of its input.

    ## Why it matters
    The layer cannot run. Each stride and each pooling before it has made the map smaller.

    ## How it is measured
    Exactly, by the shapes: the kernel fits the padded map, and a reflection is shorter than the side that it mirrors.

    ## How to fix
    Pad the map by half the kernel, take a smaller kernel, or fewer strides before it; replicate instead of reflecting.

    ## When to ignore
    Never: the operation is undefined.

    ## References
    Documentation of torch.nn.Conv2d, torch.nn.MaxPool2d and torch.nn.ReflectionPad2d.
    """
    layer, input = crash.layer, crash.layer_input
    if not isinstance(input, Tensor) or layer is None:
        return None
    path = crash.path(layer)
    name = f"The layer {format_module(path)} ({type(layer).__name__})" if path else f"The {type(layer).__name__}"
    if isinstance(layer, _ReflectionPadNd):
        return _reflection(crash, layer, input, name, path)
    if isinstance(layer, _ConvNd) and not layer.transposed and isinstance(layer.padding, tuple):
        return _convolution(crash, layer, input, name, path)
    if isinstance(layer, (_MaxPoolNd, _AvgPoolNd)) and "too small" in crash.message:
        message = f"{name} has windows of {layer.kernel_size}; its input is {describe_tensor(input)}."
        cause = "The maps have become too small: leave one pooling out, or begin with larger images."
        return CrashCause(message, cause, "Leave this pooling out.", module=path)
    return None


def _reflection(crash: Crash, layer: _ReflectionPadNd, input: Tensor, name: str, path: str | None) -> CrashCause | None:
    padding = layer.padding
    sizes = [input.shape[-1 - index // 2] for index in range(len(padding))]
    too_wide = [(pad, size) for pad, size in zip(padding, sizes, strict=True) if pad >= size]
    if not too_wide:
        return None
    pad, size = too_wide[0]
    message = f"{name} mirrors {pad} entries of a side of {size}; its input is {describe_tensor(input)}."
    cause = f"A reflection is smaller than the side, at most {size - 1}: replicate the edge, or take a smaller kernel."
    creation = find_layer_creation(crash, layer)
    replaced = getattr(nn, type(layer).__name__.replace("Reflection", "Replication"), None)
    if creation is None or replaced is None:
        return CrashCause(message, cause, f"Pad by at most {size - 1}.", module=path)
    text = node_text(creation.file, creation.call.func).replace("Reflection", "Replication")
    edit = replace_node(creation.file, creation.call.func, text)
    return CrashCause(message, cause, edits=(edit,), modules={layer: replaced(padding)}, module=path)


def _convolution(crash: Crash, layer: _ConvNd, input: Tensor, name: str, path: str | None) -> CrashCause | None:
    sizes = input.shape[-len(layer.kernel_size) :]
    windows = [d * (k - 1) + 1 for k, d in zip(layer.kernel_size, layer.dilation, strict=True)]
    pads: list[int] = [*layer.padding]
    padded = [size + 2 * pad for size, pad in zip(sizes, pads, strict=True)]
    if all(window <= size for window, size in zip(windows, padded, strict=True)):
        return None
    message = f"{name} has windows of {windows}; with padding, its map has the size {padded}: {describe_tensor(input)}."
    needed = [window // 2 for window in windows]
    value = needed[0] if len({*needed}) == 1 else tuple(needed)
    cause = f"The map is smaller than the window: with padding={value}, the layer keeps the size of the map."
    edit = set_layer_argument(crash, layer, "padding", value)
    changed = with_option(layer, "padding", value)
    return CrashCause(message, cause, f"padding={value}", (edit,) if edit else (), {layer: changed}, module=path)


class _Convolution(nn.Module):
    def __init__(self, kernel: int) -> None:
        super().__init__()
        self.conv, self.head = nn.Conv1d(1, 8, kernel), nn.Linear(16, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.conv(x.unsqueeze(1)).relu().flatten(1))
        return out


def bad() -> Setup:
    """A kernel of seven entries for sequences of four."""
    return minimal_setup(_Convolution(7), *points(), nn.CrossEntropyLoss())


def good() -> Setup:
    """A kernel of three entries for sequences of four."""
    return minimal_setup(_Convolution(3), *points(), nn.CrossEntropyLoss())
