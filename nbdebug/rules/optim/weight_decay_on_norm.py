"""O514: weight decay applies to biases and normalization weights."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from nbdebug.finding import Finding, Location
from nbdebug.measurements.parameter_coverage import ParameterEntry, format_names
from nbdebug.rule_engine.rule_registry import rule
from nbdebug.rules.examples import classifier, minimal_setup, network, points
from nbdebug.setup import Setup


@rule("O514", "note", origin="parameters")
def weight_decay_on_norm(
    optimizers: tuple[torch.optim.Optimizer, ...], parameters: list[ParameterEntry]
) -> Iterator[Finding]:
    """Weight decay applies to biases and normalization weights.

    ## What it does
    Finds parameter groups with a weight decay that contain weights of layers together with biases, or with scales and
    shifts of normalization.

    ## Why it matters
    Decay keeps the weights of a layer small. A normalization scale should be near one, and a bias as large as the data
    require; both are few values, so decay does not reduce capacity there and can cost some accuracy.

    ## How it is measured
    Exactly: by the parameter groups. Parameters with at most one axis count as biases and scales. A group that contains
    only those is not reported, since it was created on purpose.

    ## How to fix
    Create two parameter groups, the second one without decay.

    ## When to ignore
    When the decay is small: its effect is small too.

    ## References
    He et al. 2018, arXiv:1812.01187, section 3.1 (no bias decay); documentation of torch.optim, parameter groups.
    """
    for optimizer_index, optimizer in enumerate(optimizers):
        for group_index, group in enumerate(optimizer.param_groups):
            decay = float(group.get("weight_decay") or 0.0)
            entries = [
                entry
                for entry in parameters
                if entry.parameter.requires_grad and (optimizer_index, group_index) in entry.groups
            ]
            vectors = [entry for entry in entries if entry.parameter.dim() <= 1]
            if decay > 0 and 0 < len(vectors) < len(entries):
                yield _finding(optimizer, decay, vectors, len(entries))


def _finding(optimizer: torch.optim.Optimizer, decay: float, vectors: list[ParameterEntry], total: int) -> Finding:
    return Finding(
        message=f"Weight decay {decay:.3g} also applies to {len(vectors)} of {total} parameters that are biases or "
        f"normalization weights ({format_names(vectors)}).",
        where=Location(module=vectors[0].module, parameter=vectors[0].name),
        cause="All parameters are in one group.",
        fix="decayed = [p for p in model.parameters() if p.dim() > 1]\n"
        "plain = [p for p in model.parameters() if p.dim() <= 1]\n"
        f"optimizer = {type(optimizer).__name__}([{{'params': decayed, 'weight_decay': {decay:.3g}}}, "
        f"{{'params': plain, 'weight_decay': 0.0}}]{_written_options(optimizer)})",
        evidence={"weight decay": decay, "parameters": [entry.name for entry in vectors]},
    )


def _written_options(optimizer: torch.optim.Optimizer) -> str:
    """Return the arguments for the rate and for all options that differ from the defaults of the class."""
    try:
        signature = inspect.signature(type(optimizer)).parameters
    except (TypeError, ValueError):
        signature = {}  # type: ignore[assignment]
    chosen = {
        name: value
        for name, value in optimizer.defaults.items()
        if name == "lr"
        or (name != "weight_decay" and name in signature and not _equals(value, signature[name].default))
    }
    return "".join(f", {name}={_format_option(value)}" for name, value in chosen.items())


def _equals(value: Any, default: Any) -> bool:
    return bool(value is default or (type(value) is not Tensor and value == default))


def _format_option(value: Any) -> str:
    """Return a number as a user would write it, without rounding errors."""
    if isinstance(value, Tensor):
        value = value.item() if value.numel() == 1 else value.tolist()
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_format_option, value))})"
    return repr(value)


def bad() -> Setup:
    """AdamW with its default decay on all parameters."""
    model = network(3)
    return minimal_setup(model, *points(), nn.CrossEntropyLoss(), optimizers=(torch.optim.AdamW(model.parameters()),))


def good() -> Setup:
    """Adam without decay."""
    return classifier()
