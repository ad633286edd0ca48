"""Layers of another size: those that torch's layers are replaced by in a trial, and the edits that make them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd
from torch.nn.modules.pooling import _AvgPoolNd, _MaxPoolNd

from nbdebug.crashes.crash import Crash
from nbdebug.crashes.creations import find_layer_creation, set_layer_argument
from nbdebug.crashes.inputs import Change

_OUTPUT_OPTIONS = ("out_features", "out_channels", "embedding_dim", "hidden_size")


def input_option(layer: nn.Module | None) -> tuple[str, int, int] | None:
    """Return the option of a layer with the size of its input, its value, and the axis that has the size."""
    if isinstance(layer, nn.Linear):
        return "in_features", layer.in_features, -1
    if isinstance(layer, _ConvNd):
        return "in_channels", layer.in_channels, 1
    if isinstance(layer, _BatchNorm):
        return "num_features", layer.num_features, 1
    if isinstance(layer, nn.GroupNorm):
        return "num_channels", layer.num_channels, 1
    if isinstance(layer, nn.LayerNorm) and len(layer.normalized_shape) == 1:
        return "normalized_shape", layer.normalized_shape[0], -1
    if isinstance(layer, (nn.RNNBase, nn.RNNCellBase)):
        return "input_size", layer.input_size, -1
    return None


def _resized_layer(layer: nn.Module, option: str, value: Any) -> nn.Module | None:
    """Return a layer of torch without values, as another one with an option changed; None if it cannot be made."""
    if not type(layer).__module__.startswith("torch.nn.modules"):
        return None
    options: dict[str, Any] = {}
    for parameter in inspect.signature(type(layer)).parameters.values():
        name = parameter.name
        if name == "bias":
            options[name] = layer._parameters.get("bias") is not None or bool(getattr(layer, "bias", False) is True)
        elif hasattr(layer, name) and name not in ("device", "dtype"):
            options[name] = getattr(layer, name)
    options[option] = value
    weights = [p for p in layer.parameters() if p.is_floating_point()]
    dtype = {"dtype": weights[0].dtype} if weights else {}
    state = torch.get_rng_state()
    try:
        created: nn.Module = type(layer)(**options, device="meta", **dtype)
    except Exception:
        return None
    finally:
        torch.set_rng_state(state)
    return created.train(layer.training)


def change_layer(crash: Crash, layer: nn.Module, option: str, value: Any) -> Change | None:
    """Return the change that gives an option of a layer a value, in all layers that the same call makes."""
    creation = find_layer_creation(crash, layer)
    edit = set_layer_argument(crash, layer, option, value)
    if creation is None or edit is None or crash.root is None:
        return None
    modules: dict[nn.Module, nn.Module] = {}
    for other in crash.root.modules():
        is_same = other is layer or (type(other) is type(layer) and find_layer_creation(crash, other) == creation)
        changed = _resized_layer(other, option, value) if is_same else None
        if is_same and changed is None:
            return None
        if changed is not None:
            modules[other] = changed
    return Change((edit,), modules)


def fit_layer_to_input(crash: Crash, layer: nn.Module | None, input: Any) -> Change | None:
    """Return the change that gives a layer the size of its input; None if the size is not what differs."""
    option = input_option(layer)
    if layer is None or option is None or not isinstance(input, Tensor):
        return None
    name, size, axis = option
    if input.dim() < 2 or input.shape[axis] == size:
        return None
    return change_layer(crash, layer, name, input.shape[axis])


def changed_outputs(crash: Crash, sizes: set[tuple[int, int]]) -> Iterator[tuple[nn.Module, str, int, Change]]:
    """Yield the changes of layers that make one of two sizes, so that they make the other.

    ``sizes`` holds pairs of a size that a layer makes and the size that it should make. The layer, the option and its
    value come with each change.
    """
    layers = list(crash.root.modules()) if crash.root is not None else []
    for layer in reversed(layers):
        for option in _OUTPUT_OPTIONS:
            for size, wanted in sizes:
                if getattr(layer, option, None) == size and (change := change_layer(crash, layer, option, wanted)):
                    yield layer, option, wanted, change


def map_options(root: nn.Module) -> Iterator[tuple[nn.Module, str, Any]]:
    """Yield other values of the options that set the size of maps, from the last layer backwards."""
    layers = [module for module in root.modules() if isinstance(module, (_ConvNd, _MaxPoolNd, _AvgPoolNd))]
    for layer in reversed(layers):
        if isinstance(layer, (_MaxPoolNd, _AvgPoolNd)):
            yield layer, "ceil_mode", not layer.ceil_mode
            continue
        padding = layer.padding[0] if isinstance(layer.padding, tuple) else None
        same = layer.dilation[0] * (layer.kernel_size[0] - 1) // 2
        if padding is not None:
            options = dict.fromkeys([same, padding + 1, padding - 1, 0])
            yield from ((layer, "padding", value) for value in options if value >= 0 and value != padding)
        if layer.transposed:
            yield layer, "kernel_size", layer.stride[0]
            limit = layer.stride[0]
            values = [value for value in range(limit) if value != layer.output_padding[0]]
            yield from ((layer, "output_padding", value) for value in values)
