"""The call that creates an optimizer like the user's, as source code."""

from __future__ import annotations

import inspect
from typing import Any

import torch


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
