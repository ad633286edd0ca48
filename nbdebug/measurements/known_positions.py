"""Targets that are known at some positions only, as a mask beside them says, and where the loss learns from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_gradient import LossCall, compute_output_gradients
from nbdebug.measurements.registry import measurement
from nbdebug.setup.batch import is_mask
from nbdebug.tensors.pytree import tree_leaves, tree_map, tree_tensors

_MIN_POSITIONS, _MIN_DISTINCT = 8, 3
_MAX_EQUAL_SHARE = 0.05  # of the known values, which may happen to be the one that stands for unknown ones
_MIN_LEARNED_SHARE = 0.5
_MIN_MAP_AXES, _MIN_MAP_VALUES = 3, 50  # samples and two axes; distinct values besides that of holes
_MIN_HOLE_SHARE, _MAX_HOLE_SHARE = 0.01, 0.5
_MIN_GAP, _MIN_GAP_DEVIATIONS = 0.15, 0.5  # of the range of the other values, and of their standard deviation
_TOLERANCE = 1e-6  # of the loss, relative


@dataclass(frozen=True)
class KnownPositions:
    """Values of a target that vary only where a mask is one, and are ``filler`` elsewhere, with both by name.

    If the mask ``marks_unknown`` values, they vary only where it is zero; then the loss learns only the others.
    ``learned_known`` and ``learned_unknown`` are the shares of the positions of both kinds at which the output has a
    gradient. ``is_mask_used`` tells whether the loss changes with the mask.
    """

    values: str
    mask: str
    filler: float
    unknown_share: float
    learned_known: float
    learned_unknown: float
    is_mask_used: bool
    marks_unknown: bool = False

    @property
    def is_inverted(self) -> bool:
        """True if the loss learns only at positions without a target."""
        return not self.learned_known and self.learned_unknown > _MIN_LEARNED_SHARE


@dataclass(frozen=True)
class Holes:
    """A value that fills holes of a map of targets: it lies apart from the range of the others.

    ``learned`` is the share of the holes at which the output has a gradient.
    """

    values: str
    filler: float
    share: float
    low: float
    high: float
    learned: float


@measurement
def target_holes(output: Any, loss: Tensor, loss_call: LossCall) -> Holes | None:
    """Holes in the maps of targets of the first batch, such as pixels of depth 0 where the sensor measured nothing."""
    outputs = [tensor for tensor in tree_tensors(output) if tensor.is_floating_point()]
    for path, values in tree_leaves(loss_call.targets):
        is_map = isinstance(values, Tensor) and values.is_floating_point() and values.dim() >= _MIN_MAP_AXES
        fitting = [tensor for tensor in outputs if tensor.shape == values.shape] if is_map else []
        filler = _isolated_value(values) if len(fitting) == 1 else None
        gradient = compute_output_gradients(loss, fitting)[0] if filler is not None else None
        if filler is not None and gradient is not None:
            is_hole = values == filler
            others = values[~is_hole]
            share, learned = is_hole.float().mean(), (gradient.to(values.device)[is_hole] != 0).float().mean()
            low, high = float(others.min()), float(others.max())
            return Holes(name_target(path), filler, float(share), low, high, float(learned))
    return None


@measurement
def learned_positions(output: Any, loss: Tensor, loss_call: LossCall) -> list[tuple[Tensor, Tensor]]:
    """Each target of the first batch that has the shape of one output, and where that output has a gradient."""
    outputs = [tensor for tensor in tree_tensors(output) if tensor.is_floating_point()]
    learned = []
    for values in tree_tensors(loss_call.targets):
        fitting = [tensor for tensor in outputs if tensor.shape == values.shape]
        gradient = compute_output_gradients(loss, fitting)[0] if len(fitting) == 1 else None
        if gradient is not None:
            learned.append((values, gradient.to(values.device) != 0))
    return learned


def _isolated_value(values: Tensor) -> float | None:
    """Return zero, or the smallest or largest value, if it is frequent and lies apart from the others, which vary."""
    flat = values.detach().flatten()
    for candidate in (0.0, float(flat.min()), float(flat.max())):
        is_candidate = flat == candidate
        others = flat[~is_candidate]
        share = float(is_candidate.float().mean())
        if not _MIN_HOLE_SHARE <= share <= _MAX_HOLE_SHARE or len(torch.unique(others)) < _MIN_MAP_VALUES:
            continue
        gap = float((others - candidate).abs().min())
        is_apart = gap > max(_MIN_GAP * float(others.max() - others.min()), _MIN_GAP_DEVIATIONS * float(others.std()))
        if is_apart and not any(_occurs_only_in_flags(values, candidate, axis) for axis in range(1, values.dim())):
            return candidate
    return None


def _occurs_only_in_flags(values: Tensor, candidate: float, axis: int) -> bool:
    """Check whether a value occurs only in channels along an axis that hold one or two other values: zeros and ones.

    Other channels, such as the coordinates of a box beside the flag for an object, tell nothing of its meaning.
    """
    channels = [channel for channel in values.detach().unbind(axis) if bool((channel == candidate).any())]
    return all(0 < len(torch.unique(channel[channel != candidate])) < _MIN_DISTINCT for channel in channels)


@measurement
def known_positions(first_pass: ForwardPass, output: Any, loss: Tensor, loss_call: LossCall) -> KnownPositions | None:
    """Values of a target of the first batch that are known at some positions only.

    A mask that is no target of this output, but other data of the batch, counts only if the loss learns its opposite.
    """
    leaves = [(path, leaf) for path, leaf in tree_leaves(loss_call.targets) if isinstance(leaf, Tensor)]
    outputs = [tensor for tensor in tree_tensors(output) if tensor.is_floating_point()]
    masks = list(find_masks(loss_call.targets))
    others = [item for item in find_masks(first_pass.batch.raw) if not any(item[1] is mask for _, mask in masks)]
    other_ids = {id(mask) for _, mask in others}
    masks += others
    path_in_batch = {id(leaf): path for path, leaf in tree_leaves(first_pass.batch.raw)} if others else {}
    for path, values in leaves if masks else ():
        fitting = [tensor for tensor in outputs if tensor.shape == values.shape]
        for mask_path, mask in masks if len(fitting) == 1 and values.is_floating_point() else ():
            marked = expand_mask(mask, values) if mask is not values else None
            for known in (marked, ~marked) if marked is not None else ():
                filler = _filler(values, known)
                gradient = compute_output_gradients(loss, fitting)[0] if filler is not None else None
                if filler is None or gradient is None:
                    continue
                has_gradient = gradient.to(known.device) != 0
                positions = KnownPositions(
                    name_target(path_in_batch.get(id(values), path)),
                    name_target(mask_path),
                    filler,
                    float((~known).float().mean()),
                    float(has_gradient[known].float().mean()),
                    float(has_gradient[~known].float().mean()),
                    id(mask) in other_ids or changes_loss(loss_call, mask),
                    known is not marked,
                )
                if positions.is_inverted or not (positions.marks_unknown or id(mask) in other_ids):
                    return positions
    return None


def find_masks(tree: Any) -> Iterator[tuple[tuple[Any, ...], Tensor]]:
    """Yield the masks in a tree of tensors with their paths."""
    for path, leaf in tree_leaves(tree):
        if isinstance(leaf, Tensor) and leaf.numel() >= 2 * _MIN_POSITIONS and is_mask(leaf):
            yield path, leaf


def name_target(path: tuple[Any, ...]) -> str:
    """Return the name of a part of the targets, whose first key is the position of the target, else its position."""
    inner = ".".join(map(str, path[1:]))
    return inner if any(isinstance(key, str) for key in path[1:]) else f"target {'.'.join(map(str, path))}"


def expand_mask(mask: Tensor, values: Tensor) -> Tensor | None:
    """Return a mask of all values; None if its shape is not that of the values, or of their first axes."""
    if mask.shape != values.shape[: mask.dim()]:
        return None
    return mask.bool().reshape(*mask.shape, *[1] * (values.dim() - mask.dim())).expand(values.shape)


def _filler(values: Tensor, known: Tensor) -> float | None:
    """Return the single value outside of a mask, if the values in it vary and are hardly ever that value."""
    inside, outside = values[known], values[~known]
    if min(len(inside), len(outside)) < _MIN_POSITIONS or bool((outside != outside[0]).any()):
        return None
    is_varied = len(torch.unique(inside)) >= _MIN_DISTINCT
    is_rare = float((inside == outside[0]).float().mean()) <= _MAX_EQUAL_SHARE
    return float(outside[0]) if is_varied and is_rare else None


def changes_loss(loss_call: LossCall, mask: Tensor) -> bool:
    """Return whether the loss changes if a mask among targets or outputs is inverted; so does it if that raises."""
    inverted = (~mask.bool()).to(mask.dtype)
    targets = tree_map(loss_call.targets, lambda leaf: inverted if leaf is mask else leaf)
    try:
        before, after = loss_call(), replace(loss_call, targets=targets)({id(mask): inverted})
    except Exception:
        return True
    return not torch.isclose(torch.tensor(after), torch.tensor(before), rtol=_TOLERANCE).item()
