"""The loss of one constant prediction by a loss of the user's own, where the initial weights may be too large."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.constant_loss import constant_loss
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.loss_reference import ExpectedLoss
from nbdebug.measurements.oversized_tensors import MIN_SCALE, has_oversized_tensor
from nbdebug.measurements.registry import slow_measurement
from nbdebug.setup import Setup
from nbdebug.setup.losses import LossKind


@slow_measurement
def own_loss_reference(
    setup: Setup,
    first_pass: ForwardPass,
    output: Any,
    loss_kind: LossKind,
    loss: Tensor,
    judging_weights: list[Tensor],
    expected_loss: ExpectedLoss | NotChecked,
) -> float:
    """The lowest loss of one constant output, where no formula gives it and a tensor of the model is oversized."""
    if isinstance(expected_loss, ExpectedLoss):
        raise NotChecked("a formula gives the loss of a constant prediction")
    if not has_oversized_tensor(setup, MIN_SCALE):
        raise NotChecked("no tensor of the model has an unusual scale")
    return float(constant_loss(setup, first_pass, output, loss_kind, loss, judging_weights).value)
