"""Values of output, target and weights that a loss broadcasts against each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.broadcasts import Broadcast, BroadcastRecorder, BroadcastTracker
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.tensors.pytree import tree_map, tree_tensors

_MAX_COLUMNS = 16  # of a target that may hold weights beside labels
_RELATIVE_TOLERANCE = 1e-5  # of the loss; sums in another order are rounded differently


@measurement
def broadcasts(setup: Setup, first_pass: ForwardPass, output: Any) -> list[Broadcast]:
    """Calls of the loss in which output and target have different shapes and are broadcast against each other."""
    tracker, loss = _record_broadcasts(setup, first_pass, output)
    return tracker.broadcasts_in(loss)


@measurement
def weight_broadcasts(setup: Setup, first_pass: ForwardPass, output: Any) -> list[Broadcast]:
    """Calls of the loss that broadcast weights against errors, so that the order of the weights has no effect.

    The weights are one of several targets, or a column of one, and with those of other samples the loss stays the same.
    """
    weights_in_targets = list(_possible_weights(first_pass.batch.targets))
    if len(weights_in_targets) < 2:
        return []
    tracker, _ = _record_broadcasts(setup, first_pass, output)
    return [
        broadcast
        for broadcast in tracker.weight_broadcasts
        if any(
            weights[:, columns].numel() == prod(broadcast.target)
            and _is_order_ignored(setup, first_pass, output, target, columns)
            for target, weights, columns in weights_in_targets
        )
    ]


def _possible_weights(targets: Any) -> Iterator[tuple[Tensor, Tensor, slice]]:
    """Yield each floating-point target, its values by sample, and the columns that may be weights: one, or all."""
    for target in tree_tensors(targets):
        if target.is_floating_point() and target.dim() and target.numel():
            rows = target.reshape(len(target), -1)
            is_table = target.dim() == 2 and 1 < rows.shape[1] <= _MAX_COLUMNS
            for column in range(rows.shape[1]) if is_table else (None,):
                yield target, rows, slice(None) if column is None else slice(column, column + 1)


def _is_order_ignored(setup: Setup, first_pass: ForwardPass, output: Any, target: Tensor, columns: slice) -> bool:
    """Return whether the loss is the same if the values in some columns of a target belong to other samples."""
    rows = target.reshape(len(target), -1)
    if bool((rows[:, columns] == rows[:1, columns]).all()):
        return False

    def compute_loss_with(changed: Tensor) -> float:
        targets = tree_map(first_pass.batch.targets, lambda leaf: changed if leaf is target else leaf)
        return float(setup.loss(output, replace(first_pass.batch, targets=targets)).detach())

    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))
    exchanged_rows = rows.clone()
    exchanged_rows[:, columns] = rows[order][:, columns]
    try:
        base, exchanged = compute_loss_with(target), compute_loss_with(exchanged_rows.reshape(target.shape))
    except Exception:  # a loss that only accepts its own targets
        return False
    return abs(exchanged - base) <= _RELATIVE_TOLERANCE * abs(base)


def _record_broadcasts(setup: Setup, first_pass: ForwardPass, output: Any) -> tuple[BroadcastTracker, Any]:
    """Record the calls of the loss that broadcast, and return its value, None if it raised an error after such a call.

    Raises NotChecked if there is no loss or no target.
    """
    if setup.loss_fn is None or not tree_tensors(first_pass.batch.targets):
        raise NotChecked("the model computes its loss itself, or there is no target")
    detached = tree_map(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
    recorder, loss = BroadcastRecorder(tree_tensors(detached), tree_tensors(first_pass.batch.targets)), None
    with recorder:
        try:
            loss = setup.raw_loss(detached, first_pass.batch)
        except Exception as error:
            if not recorder.tracker.broadcasts:
                raise NotChecked(f"the loss raised {type(error).__name__}: {error}") from error
    return recorder.tracker, loss
