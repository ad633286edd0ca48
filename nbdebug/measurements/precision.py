"""Updates of low-precision weights that are lost to rounding."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.gradients import GradientNorm, compute_gradients
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.measurements.registry import measurement

_FLOAT32_BYTES = 4  # bytes of a float32
_MAX_MOMENTUM = 0.999
_PLAIN_LOOP_OPTIONS = {"foreach": False, "fused": False, "capturable": False}  # supported by every device and dtype


@dataclass(frozen=True)
class RoundedUpdate:
    """One low-precision parameter after a step at its full learning rate: expected and actual changes.

    ``expected_changes`` values should change and ``actual_changes`` do. ``median_step`` and ``median_spacing`` are
    medians: the update size, and the distance between representable numbers at the weights.
    """

    entry: ParameterEntry
    expected_changes: int
    actual_changes: int
    median_step: float
    median_spacing: float


@measurement
def rounded_updates(
    parameters: list[ParameterEntry],
    optimizers: tuple[torch.optim.Optimizer, ...],
    loss: Tensor,
    gradient_norms: dict[str, GradientNorm],
) -> list[RoundedUpdate]:
    """One step of optimizers like the user's, on copies of the parameters with fewer than 32 bits."""
    low_precision = [
        entry
        for entry in parameters
        if entry.groups and _is_low_precision(entry.parameter) and entry.name in gradient_norms
    ]
    if not low_precision:
        return []
    gradients_by_name = compute_gradients(loss, low_precision, retain_graph=True)
    gradients = {
        id(entry.parameter): gradient
        for entry in low_precision
        if (gradient := gradients_by_name[entry.name]) is not None
    }
    rounded: dict[int, Tensor] = {}
    exact: dict[int, Tensor] = {}
    for optimizer in optimizers:
        rounded.update(_take_step(optimizer, gradients, lambda tensor: tensor))
        exact.update(_take_step(optimizer, gradients, lambda tensor: tensor.float()))
    entries_by_id = {key: entry for entry in low_precision if (key := id(entry.parameter)) in gradients}
    return [_compare_update(entry, gradients[key], rounded[key], exact[key]) for key, entry in entries_by_id.items()]


def _is_low_precision(parameter: Tensor) -> bool:
    """Return whether a trained parameter has fewer bits than float32."""
    return parameter.requires_grad and parameter.is_floating_point() and parameter.element_size() < _FLOAT32_BYTES


def _take_step(
    optimizer: torch.optim.Optimizer, gradients: dict[int, Tensor], cast: Callable[[Tensor], Tensor]
) -> dict[int, Tensor]:
    """Return cast copies of the parameters with gradients, after one step of a new optimizer with the same groups."""
    if not type(optimizer).__module__.startswith("torch.optim") or isinstance(optimizer, torch.optim.LBFGS):
        raise NotChecked(f"{type(optimizer).__name__} may compensate for rounding, or takes several steps")
    copies: dict[int, Tensor] = {}
    groups: list[dict[str, Any]] = []
    for group in optimizer.param_groups:
        group_copies = {id(p): cast(p.detach().clone()).requires_grad_() for p in group["params"] if id(p) in gradients}
        for key, tensor in group_copies.items():
            tensor.grad = cast(gradients[key])
        if group_copies:
            groups.append(
                {
                    **group,
                    "params": list(group_copies.values()),
                    **_PLAIN_LOOP_OPTIONS,
                    "lr": _get_full_learning_rate(group),
                }
            )
        copies.update(group_copies)
    if groups:
        optimizer_class: Any = type(optimizer)
        optimizer_class(groups, lr=groups[0]["lr"]).step()
    return {key: tensor.detach() for key, tensor in copies.items()}


def _get_full_learning_rate(group: dict[str, Any]) -> float:
    """Return the highest learning rate of a group: after any warm-up, and including the factor from momentum."""
    learning_rate = max(float(group["lr"]), float(group.get("initial_lr", 0.0)))
    return learning_rate / (1 - min(float(group.get("momentum", 0.0)), _MAX_MOMENTUM))


def _compare_update(entry: ParameterEntry, gradient: Tensor, rounded: Tensor, exact: Tensor) -> RoundedUpdate:
    """Compare the changes, for values that stay finite: an eps of 0 breaks the others."""
    before = entry.parameter.detach()
    should_change = (gradient != 0) & (exact != before.float()) & rounded.isfinite()
    did_change = should_change & (rounded != before)
    spacing = (torch.nextafter(before.abs(), torch.full_like(before, torch.inf)) - before.abs()).float()
    step = (exact - before.float()).abs()
    count = int(should_change.sum())
    medians = (float(step[should_change].median()), float(spacing[should_change].median())) if count else (0.0, 0.0)
    return RoundedUpdate(entry, count, int(did_change.sum()), *medians)
