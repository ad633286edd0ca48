"""Target values for which a loss of the user's own falls without end, beside others for which it has a minimum."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import torch
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.forward_pass import ForwardPass
from nbdebug.measurements.perturbation import compute_loss_value
from nbdebug.measurements.registry import measurement
from nbdebug.preserve import seed_all
from nbdebug.setup import Batch, Setup
from nbdebug.setup.losses import LossKind, score_tensor

_OUTPUTS = (0.0, 50.0, 100.0)
_MIN_SLOPE_RATIO = 0.9
_VALUE_COUNTS = range(3, 21)


@dataclass(frozen=True)
class EndlessTargets:
    """The target ``values`` of the first batches without a minimum of the loss, and their ``share`` of the samples.

    ``losses`` are those of the largest value, for the constant ``outputs``.
    """

    values: tuple[float, ...]
    share: float
    targets: Tensor
    outputs: tuple[float, ...]
    losses: tuple[float, ...]


@measurement
def endless_targets(
    setup: Setup, first_pass: ForwardPass, batches: list[Batch], output: Any, loss_kind: LossKind
) -> EndlessTargets | None:
    """Target values for which an own loss falls without end as one score grows or shrinks, but not for 0 and 1.

    So does a likelihood of 0 and 1 for the numbers of other classes. The whole batch gets one target and one output.
    """
    scores, target = score_tensor(output), first_pass.batch.target
    if loss_kind != "other" or not isinstance(scores, Tensor) or not isinstance(target, Tensor):
        raise NotChecked("needs a loss of the user's own, a tensor output and a tensor target")
    if scores is not output or scores.numel() != target.numel() or len(target) != target.numel():
        raise NotChecked("needs one output and one target for each sample")
    targets = torch.cat([item.target.flatten().cpu() for item in batches if isinstance(item.target, Tensor)])
    values: list[float] = sorted(set(targets.tolist()))
    is_whole = all(value.is_integer() for value in map(float, values))
    if len(values) not in _VALUE_COUNTS or not is_whole or not {0.0, 1.0} <= set(values):
        raise NotChecked("needs whole numbers as targets, 0 and 1 among them")

    def losses_of(value: float, sign: float) -> tuple[float, ...]:
        batch = replace(first_pass.batch, targets=(torch.full_like(target, value), *first_pass.batch.targets[1:]))
        seed_all(0)
        return tuple(compute_loss_value(setup, torch.full_like(scores, sign * size), batch) for size in _OUTPUTS)

    endless: dict[float, tuple[tuple[float, ...], tuple[float, ...]]] = {}
    for value, sign in product(values, (1.0, -1.0)):
        if _is_endless(losses := losses_of(value, sign)):
            endless[value] = tuple(sign * size for size in _OUTPUTS), losses
    if not endless or {0.0, 1.0} & endless.keys():
        return None
    share = float(torch.isin(targets.double(), torch.tensor([*endless], dtype=torch.double)).float().mean())
    return EndlessTargets(tuple(endless), share, targets, *endless[max(endless)])


def _is_endless(losses: tuple[float, ...]) -> bool:
    """Return whether a loss falls below zero, and as fast between the larger outputs as between the smaller ones."""
    first_fall, second_fall = losses[0] - losses[1], losses[1] - losses[2]
    return losses[2] < 0 and first_fall > 1.0 and second_fall > _MIN_SLOPE_RATIO * first_fall
