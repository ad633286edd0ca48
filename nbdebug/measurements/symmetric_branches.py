"""Layers that start equal, get equal gradients and therefore stay equal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.gradients import GradientNorm, GradientsByName, compute_gradients
from nbdebug.measurements.parameter_coverage import ParameterEntry
from nbdebug.measurements.registry import slow_measurement
from nbdebug.preserve import Preserve
from nbdebug.setup import Batch, Setup

_LATER_STEPS, _STEP_SIZE = 2, 0.01
_MIN_VALUES = 4
_ROUNDING = 1e-5  # float32 sums of a thousand terms in a different order differ by less, relative to the largest
_Group = list[ParameterEntry]


@dataclass(frozen=True)
class SymmetricBranches:
    """Trainable weights of different layers that are equal, and whose gradients are equal in ``steps`` steps."""

    entries: tuple[ParameterEntry, ...]
    steps: int


@slow_measurement
def symmetric_branches(
    setup: Setup,
    finite_loss: Tensor,
    batches: list[Batch],
    parameters: list[ParameterEntry],
    gradient_norms: dict[str, GradientNorm],
) -> list[SymmetricBranches]:
    """Groups of equal weights whose gradients are not zero and equal, on the first batches and after a few steps.

    Each step moves all weights, on a copy. Copies in series, copies with inputs or targets of their own, and copies
    with different dropout get different gradients.
    """
    entries = [entry for entry in parameters if gradient_norms.get(entry.name, GradientNorm()).max_abs > 0]
    groups = _equal_weights(entries)
    if not groups:
        return []
    gradients = compute_gradients(finite_loss, entries, retain_graph=True)
    groups = _equal_gradients(groups, gradients)
    with Preserve(*setup.mutable_objects):
        for step in range(1, 1 + _LATER_STEPS if groups else 1):
            _descend(entries, groups, gradients)
            loss = setup.output_and_loss(batches[step % len(batches)])[1]
            if not loss.requires_grad or not bool(torch.isfinite(loss)):
                raise NotChecked("the loss is not finite after a step along its gradient")
            gradients = compute_gradients(loss, entries)
            groups = _equal_gradients(groups, gradients)
        return [SymmetricBranches(tuple(group), 1 + _LATER_STEPS) for group in groups]


def _equal_weights(entries: Iterable[ParameterEntry]) -> list[_Group]:
    """Return the groups of equal weight matrices; not those whose rows are all equal, such as zeros."""
    by_shape_and_ends: dict[object, _Group] = {}
    for entry in entries:
        values = entry.parameter.detach()
        if values.dim() > 1 and values.numel() >= _MIN_VALUES:
            ends = values.flatten()[[0, -1]].tolist()
            by_shape_and_ends.setdefault((values.shape, *ends), []).append(entry)
    groups = (
        group
        for candidates in by_shape_and_ends.values()
        for group in _split(candidates, {entry.name: entry.parameter.detach() for entry in candidates}, 0.0)
    )
    return [group for group in groups if not bool((group[0].parameter == group[0].parameter[:1]).all())]


def _equal_gradients(groups: Iterable[_Group], gradients: GradientsByName) -> list[_Group]:
    """Split groups by their gradients, up to rounding; drop gradients of zero."""
    return [part for group in groups for part in _split(group, gradients, _ROUNDING)]


def _split(group: _Group, tensors: GradientsByName, tolerance: float) -> Iterator[_Group]:
    """Yield the parts, of at least two, of a group that have equal nonzero tensors."""
    parts: list[_Group] = []
    for entry in group:
        tensor = tensors[entry.name]
        if tensor is None or not bool(tensor.any()):
            continue
        part = next((part for part in parts if _is_close(tensors[part[0].name], tensor, tolerance)), None)
        if part is None:
            parts.append([entry])
        else:
            part.append(entry)
    return (part for part in parts if len(part) > 1)


def _is_close(first: Tensor | None, second: Tensor, tolerance: float) -> bool:
    assert first is not None
    return bool((first - second).abs().max() <= tolerance * first.abs().max())


@torch.no_grad()
def _descend(entries: Iterable[ParameterEntry], groups: Iterable[_Group], gradients: GradientsByName) -> None:
    """Move each weight along its gradient by a step of fixed size, and those of one group by the same factor."""
    leaders = {entry.name: group[0].name for group in groups for entry in group}
    for entry in entries:
        gradient, leading = gradients[entry.name], gradients[leaders.get(entry.name, entry.name)]
        if gradient is not None and leading is not None and bool(leading.any()):
            entry.parameter.sub_(_STEP_SIZE * gradient / leading.abs().max())
