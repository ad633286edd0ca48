"""Whether a loss compares one score of each sample with a target of -1 or 1 by the sign of their product."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import LossKind

_RELATIVE_TOLERANCE = 1e-4


@measurement
def prediction_loss_kind(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    loss_kind: LossKind,
    torch_loss_kind: LossKind | NotChecked,
) -> LossKind:
    """The kind of a loss whose outputs are predictions: one of torch's, or "other" for targets of -1 and 1."""
    if not isinstance(torch_loss_kind, NotChecked):
        return torch_loss_kind
    if loss_kind != "other" or not _judges_signs(setup, first_pass.batch, output):
        raise torch_loss_kind
    return loss_kind


def _judges_signs(setup: Setup, batch: Batch, output: Any) -> bool:
    """Return whether the loss is the same with all signs reversed, and lower for scores with the signs of the targets.

    A logistic or a hinge loss of the product of score and target is.
    """
    target = batch.target
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.shape != target.shape:
        return False
    if not bool((target.abs() == 1).all()) or not bool((target < 0).any()):
        return False
    scores, reversed_batch = output.detach(), replace(batch, targets=(-target,))
    signed = target * (scores.abs() + 1)
    with torch.no_grad():
        try:
            loss, of_reversed = (
                compute_loss_value(setup, *pair) for pair in ((scores, batch), (-scores, reversed_batch))
            )
            right, wrong = (compute_loss_value(setup, values, batch) for values in (signed, -signed))
        except NotChecked:
            return False
    return abs(loss - of_reversed) <= _RELATIVE_TOLERANCE * abs(loss) and right < wrong
