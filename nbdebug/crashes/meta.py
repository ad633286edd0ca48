"""Copies of tensors and modules on the meta device, which has shapes but no values.

Nothing is computed there, no random number is drawn, and no memory is needed.
"""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from nbdebug.preserve import Preserve

_TRANSPOSED_CONVOLUTIONS, _OPERANDS = {f"conv_transpose{n}d" for n in (1, 2, 3)}, ("input", "weight")
_CONTAINERS = (list, dict, set, OrderedDict)


def as_meta(value: Any) -> Any:
    """Return a value with its tensors on the meta device."""
    if isinstance(value, Tensor):
        return value if value.is_meta else torch.empty_like(value, device="meta", requires_grad=False)
    if isinstance(value, (tuple, list)):
        parts = [as_meta(part) for part in value]
        return type(value)(parts) if type(value) in (tuple, list) else value
    if isinstance(value, dict):
        return {key: as_meta(part) for key, part in value.items()}
    return value


def clone_tensor(value: Any) -> Any:
    """Return a copy of a tensor, and any other value as it is."""
    return value.clone() if isinstance(value, Tensor) else value


def copy_model(
    model: nn.Module, replaced: Mapping[nn.Module, nn.Module] = {}, convert: Callable[[Any], Any] = as_meta
) -> nn.Module:
    """Return a copy of a model without its hooks.

    ``replaced`` maps modules to those that stand for them, which may contain them.
    """
    copies: dict[Any, Any] = {}

    def convert_once(tensor: Any) -> Any:
        if not isinstance(tensor, Tensor):
            return tensor
        if id(tensor) not in copies:
            value = convert(tensor.detach())
            is_parameter = isinstance(tensor, nn.Parameter)
            copies[id(tensor)] = nn.Parameter(value, tensor.requires_grad) if is_parameter else value
        return copies[id(tensor)]

    def copy_module(original: nn.Module | None, contained: nn.Module | None = None) -> nn.Module | None:
        if original is None:
            return None
        key = (id(original), original is contained)
        if key in copies:
            return copies[key]  # type: ignore[no-any-return]
        source = original if original is contained else replaced.get(original, original)
        inner = original if source is not original else None
        created: nn.Module = object.__new__(type(source))
        copies[key] = created
        for name, value in vars(source).items():
            if name.endswith("_hooks") or "_hooks_" in name:
                created.__dict__[name] = type(value)() if isinstance(value, dict) else value
            elif name in ("_parameters", "_buffers"):
                created.__dict__[name] = {key: convert_once(tensor) for key, tensor in value.items()}
            elif name == "_modules":
                created.__dict__[name] = {path: copy_module(part, inner) for path, part in value.items()}
            elif isinstance(value, Tensor):
                created.__dict__[name] = convert_once(value)
            elif type(value) in _CONTAINERS:
                created.__dict__[name] = copy.copy(value)
            else:
                created.__dict__[name] = value
        if isinstance(created, nn.RNNBase):
            created._flat_weights = [getattr(created, weight) for weight in created._flat_weights_names]
        return created

    result = copy_module(model)
    assert result is not None
    return result


class ChannelCheck(TorchFunctionMode):
    """Raises the error of a transposed convolution whose input has other channels; the meta device accepts them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in _TRANSPOSED_CONVOLUTIONS:
            values, weight = (kwargs.get(name, args[i] if i < len(args) else None) for i, name in enumerate(_OPERANDS))
            channels = values.shape[1 - weight.dim()] if values.dim() >= weight.dim() - 1 else len(weight)
            if channels != len(weight):
                raise RuntimeError(f"expected {len(weight)} channels of a transposed convolution, but got {channels}")
        return func(*args, **kwargs)


def run_quietly(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a function with meta tensors, and what it creates there, without gradients, prints and warnings."""
    with (
        Preserve(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
        torch.no_grad(),
        torch.device("meta"),
        ChannelCheck(),
    ):
        warnings.simplefilter("ignore")
        return function(*as_meta(list(args)), **as_meta(dict(kwargs)))
