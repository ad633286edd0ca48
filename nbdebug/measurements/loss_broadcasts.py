"""Values of output, target and weights that a loss broadcasts against each other."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch import Tensor

from nbdebug.autograd.call_recorders import Broadcast, BroadcastRecorder, BroadcastTracker
from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.tensors.pytree import tree_map, tree_tensors

_RELATIVE_TOLERANCE = 1e-5  # of the loss; sums in another order are rounded differently


@measurement
def broadcasts(setup: Setup, first_pass: ForwardPass, output: Any) -> list[Broadcast]:
    """Calls of the loss in which output and target have different shapes and are broadcast against each other."""
    return _record_broadcasts(setup, first_pass, output).broadcasts


@measurement
def weight_broadcasts(setup: Setup, first_pass: ForwardPass, output: Any) -> list[Broadcast]:
    """Calls of the loss that broadcast weights against errors, so that the order of the weights has no effect.

    The weights are a part of the targets, and with those of other samples the loss stays the same.
    """
    if len(tree_tensors(first_pass.batch.targets)) < 2:
        return []
    tracker = _record_broadcasts(setup, first_pass, output)
    return [
        broadcast
        for broadcast in tracker.weight_broadcasts
        if any(
            weights.numel() == prod(broadcast.target) and _is_order_ignored(setup, first_pass, output, weights)
            for weights in tree_tensors(first_pass.batch.targets)
        )
    ]


def _is_order_ignored(setup: Setup, first_pass: ForwardPass, output: Any, weights: Tensor) -> bool:
    """Return whether the loss is the same if the values of a target belong to other samples."""
    if not weights.is_floating_point() or not weights.dim() or bool((weights == weights[:1]).all()):
        return False

    def compute_loss_with(changed: Tensor) -> float:
        targets = tree_map(first_pass.batch.targets, lambda leaf: changed if leaf is weights else leaf)
        return float(setup.loss(output, replace(first_pass.batch, targets=targets)).detach())

    order = torch.randperm(len(weights), generator=torch.Generator().manual_seed(0))
    try:
        base, exchanged = compute_loss_with(weights), compute_loss_with(weights[order])
    except Exception:  # a loss that only accepts its own targets
        return False
    return abs(exchanged - base) <= _RELATIVE_TOLERANCE * abs(base)


def _record_broadcasts(setup: Setup, first_pass: ForwardPass, output: Any) -> BroadcastTracker:
    """Record the calls of the loss that broadcast; raise NotChecked if there is no loss or no target."""
    if setup.loss_fn is None or not tree_tensors(first_pass.batch.targets):
        raise NotChecked("the model computes its loss itself, or there is no target")
    detached = tree_map(output, lambda leaf: leaf.detach() if isinstance(leaf, Tensor) else leaf)
    recorder = BroadcastRecorder(tree_tensors(detached), tree_tensors(first_pass.batch.targets))
    with recorder:
        try:
            setup.raw_loss(detached, first_pass.batch)
        except Exception as error:
            if not recorder.tracker.broadcasts:
                raise NotChecked(f"the loss raised {type(error).__name__}: {error}") from error
    return recorder.tracker
