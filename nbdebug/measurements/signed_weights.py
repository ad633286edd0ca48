"""Find losses that weight each sample by a signed number of the batch, such as an advantage."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.tensors.pytree import tree_map, tree_tensors

_TOLERANCE = 1e-4  # of the larger of both losses


@measurement
def has_signed_weights(setup: Setup, first_pass: ForwardPass, output: Any) -> bool:
    """Whether one number of each sample has both signs, and the loss is proportional to these numbers.

    It is to the advantages of an update with importance ratios, as in PPO (Schulman et al. 2017, arXiv:1707.06347),
    and to the labels 1 and -1 of a critic of Wasserstein distances. Usual weights of samples are positive.
    """
    if setup.loss_fn is None or setup.step_fn is not None:
        raise NotChecked("the loss is not a function of the output")
    batch = first_pass.batch
    for weights in filter(_is_signed, tree_tensors(batch.targets)):
        if weights.numel() != batch.size:
            continue
        losses = [_loss_value(setup, output, _scale(batch, weights, factor)) for factor in (1, 2)]
        if any(losses) and abs(losses[1] - 2 * losses[0]) <= _TOLERANCE * max(map(abs, losses)):
            return True
    return False


def _is_signed(values: Tensor) -> bool:
    return values.is_floating_point() and bool(values.numel()) and bool(values.min() < 0 < values.max())


def _scale(batch: Batch, weights: Tensor, factor: float) -> Batch:
    return replace(batch, targets=tree_map(batch.targets, lambda leaf: factor * leaf if leaf is weights else leaf))


def _loss_value(setup: Setup, output: Any, batch: Batch) -> float:
    seed_all(0)
    with torch.no_grad():
        loss: Tensor = setup.loss(output, batch)
    return float(loss)
