"""Source code that creates an optimizer like the user's, or changes its settings."""

from __future__ import annotations

import inspect
import math
from collections.abc import Collection
from typing import Any

import torch
from torch.optim.lr_scheduler import CyclicLR, OneCycleLR

from nbdebug.exceptions import NotChecked
from nbdebug.setup.setup import Setup


def optimizer_code(optimizer: torch.optim.Optimizer, parameters: str, rate: float | None = None) -> str:
    """Return the call that creates an optimizer with the same settings; those that are the default are omitted.

    ``parameters`` is the code of the first argument. ``rate`` replaces the learning rate, which is the one that the
    optimizer was created with, and is rounded to three digits.
    """
    kind = type(optimizer)
    module_name = "torch.optim" if getattr(torch.optim, kind.__name__, None) is kind else kind.__module__
    prefix = "" if module_name == "__main__" else f"{module_name}."
    settings = {**optimizer.defaults, **({"lr": rate} if rate is not None else {})}
    return f"{prefix}{kind.__name__}({', '.join([parameters, *_settings_code(kind, settings)])})"


def _settings_code(kind: type[torch.optim.Optimizer], settings: dict[str, Any]) -> list[str]:
    """Return code for all settings that differ from the default of the constructor."""
    signature_parameters = inspect.signature(kind.__init__).parameters
    changed = {
        name: float(value) if isinstance(value, torch.Tensor) and value.numel() == 1 else value
        for name, value in settings.items()
        if name in signature_parameters
    }
    return [
        f"{name}={value:.3g}" if name == "lr" else f"{name}={value!r}"
        for name, value in changed.items()
        if isinstance(value, (bool, int, float, str, tuple)) and value != signature_parameters[name].default
    ]


def rate_fix(setup: Setup, rate: float) -> str:
    """Return the code that sets the learning rate, rounded to two digits; a sentence if a schedule determines it."""
    value = float(f"{rate:.2g}")
    if isinstance(setup.scheduler, (OneCycleLR, CyclicLR)):
        return f"Create the {type(setup.scheduler).__name__} with max_lr={value:g}."
    if setup.schedulers:
        return f"Create the optimizer with lr={value:g}, before the scheduler."
    return setting_fix(setup, "lr", value)


def rate_factor_fix(setup: Setup | NotChecked, factor: float, unchanged: Collection[str] = ()) -> str:
    """Return the code that multiplies the learning rate of all weights but ``unchanged`` ones; else a sentence.

    A schedule computes each rate from the one that it started with, so that a change of the present one is lost.
    """
    if isinstance(setup, NotChecked):
        return f"Multiply the learning rate by {factor:g}."
    groups = [group for optimizer in setup.optimizers for group in optimizer.param_groups]
    if unchanged:
        return _group_factor_fix(setup, factor, unchanged)
    rates = {float(group.get("max_lr", group.get("initial_lr", group["lr"]))) for group in groups}
    if len(rates) == 1:
        return rate_fix(setup, rates.pop() * factor)
    if len(setup.optimizers) == 1 and not setup.schedulers:
        return f'for group in optimizer.param_groups:\n    group["lr"] *= {factor:g}'
    return f"Create the optimizer with learning rates {factor:g} times as high."


def _group_factor_fix(setup: Setup, factor: float, unchanged: Collection[str]) -> str:
    """Return the code that multiplies the rates of the groups without some weights; a sentence if there are none."""
    groups = setup.optimizers[0].param_groups if len(setup.optimizers) == 1 and not setup.schedulers else []
    kept = {id(p) for name, p in setup.eager_model.named_parameters() if name in unchanged}
    numbers = [i for i, group in enumerate(groups) if not kept & {id(p) for p in group["params"]}]
    if not numbers:
        return f"Train these weights in a group of the optimizer with a learning rate {factor:g} times as high."
    return "\n".join(f'optimizer.param_groups[{number}]["lr"] *= {factor:g}' for number in numbers)


def usual_rate(rate: float, update_ratio: float, usual_ratio: float) -> float:
    """Return the rate at which updates have their usual size: ``rate`` times a power of ten, and not ``rate`` itself.

    ``update_ratio`` is the measured norm of the updates over that of the weights, to which a rate is proportional;
    ``usual_ratio`` is the wanted one.
    """
    is_too_long = update_ratio > usual_ratio
    power = math.log10(usual_ratio / update_ratio) if 0 < update_ratio < math.inf else 0.0
    return float(rate * 10.0 ** (min(round(power), -1) if is_too_long else max(round(power), 1)))


def setting_fix(setup: Setup, key: str, value: Any, group: int | None = None) -> str:
    """Return the code that changes a setting of the optimizer; a sentence if there are several optimizers.

    ``group`` is the index of the only parameter group to change; all groups are changed by default.
    """
    text = f"{value:g}" if isinstance(value, float) else repr(value)
    if len(setup.optimizers) != 1:
        return f"Create the optimizer with {key}={text}."
    if group is not None and len(setup.optimizers[0].param_groups) > 1:
        return f'optimizer.param_groups[{group}]["{key}"] = {text}'
    return f'for group in optimizer.param_groups:\n    group["{key}"] = {text}'


def largest_weight_decay(setup: Setup, names: Collection[str]) -> float | None:
    """Return the largest weight decay of some parameters; None if the optimizers hold none of them."""
    ids = {id(parameter) for name, parameter in setup.eager_model.named_parameters() if name in names}
    groups = [group for optimizer in setup.optimizers for group in optimizer.param_groups]
    decays = [float(group.get("weight_decay", 0)) for group in groups if any(id(p) in ids for p in group["params"])]
    return max(decays, default=None)
