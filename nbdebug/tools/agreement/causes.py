"""Differences of settings at the place where two computations part."""

from __future__ import annotations

from typing import Any, cast

from torch import Tensor, nn

from nbdebug.tools.agreement.recording import Computation
from nbdebug.tools.agreement.sides import Side

_MAX_CAUSES = 4


def setting_causes(first: Side, second: Side, path: str, other_path: str) -> list[str]:
    """Return what differs between the two modules at the place: class, settings, mode or type."""
    one, other = _module(first, path), _module(second, other_path)
    if one is None or other is None or not path or not other_path:
        return []
    if type(one) is not type(other) and not list(one.children()):
        return [f"{path} is a {type(one).__name__}, and {other_path} a {type(other).__name__}"]
    texts = []
    for name, value in _settings(one).items():
        theirs = _settings(other).get(name, value)
        if theirs != value:
            texts.append(f"{name} of {path} is {value!r}, and that of {other_path} is {theirs!r}")
    return texts[:_MAX_CAUSES]


def _module(side: Side, path: str) -> nn.Module | None:
    for prefix, module in side.modules.items():
        parts = dict(module.named_modules(prefix=prefix))
        if path in parts:
            return cast(nn.Module, parts[path])
    return None


def _settings(module: nn.Module) -> dict[str, Any]:
    """Return the plain attributes of a module."""
    plain = (bool, int, float, str, tuple, type(None))
    return {n: v for n, v in vars(module).items() if isinstance(v, plain) and not n.startswith("_") and n != "training"}


def optimizer_causes(first: Computation, second: Computation, name: str, other: str) -> list[str]:
    """Return what differs between the optimizers of one parameter: class, settings, or that there is none."""
    groups = [_group_of(c, c.parameters().get(n)) for c, n in ((first, name), (second, other))]
    if groups[0] is None or groups[1] is None:
        missing = first if groups[0] is None else second
        return [f"no optimizer of {missing.name} holds {name if missing is first else other}"]
    (kind, settings), (other_kind, other_settings) = groups[0], groups[1]
    texts = [f"the optimizers are {kind} and {other_kind}"] if kind != other_kind else []
    for key, value in settings.items():
        if key in other_settings and other_settings[key] != value:
            texts.append(f"{key} is {value!r} in {first.name}, and {other_settings[key]!r} in {second.name}")
    return texts[:_MAX_CAUSES]


def _group_of(computation: Computation, parameter: Tensor | None) -> tuple[str, dict[str, Any]] | None:
    for optimizer in computation.optimizers:
        for group in optimizer.param_groups:
            if any(item is parameter for item in group["params"]):
                settings = {
                    key: value for key, value in group.items() if key != "params" and not isinstance(value, Tensor)
                }
                return type(optimizer).__name__, settings
    return None
