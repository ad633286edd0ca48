"""Tests of D113 for holes in maps of targets."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup
from tests.rules.rule_findings import rule_faults

G = torch.Generator().manual_seed(0)
SHADES = torch.randn(32, 1, 8, 8, generator=G)
DEPTHS = 1 + 4 * torch.rand(32, 1, 8, 8, generator=G)
IS_HOLE = torch.rand(32, 1, 8, 8, generator=G) < 0.1


def known_error(output: Tensor, target: Tensor) -> Tensor:
    known = target > 0
    return (output - target)[known].square().mean()


def mean_error(output: Tensor, target: Tensor) -> Tensor:
    error = (output - target).square()
    return error.mean()


def weighted_error(output: Tensor, target: Tensor) -> Tensor:
    weight = (target != 0).float()
    return ((output - target).abs() * weight).sum() / weight.sum()


def codes(target: Tensor, loss_fn: Callable[..., Tensor]) -> list[str]:
    model = nn.Conv2d(1, 1, 3, padding=1)
    return [finding.message for finding in rule_faults(minimal_setup(model, SHADES, target, loss_fn), "D113")]


@pytest.mark.parametrize("loss_fn", [F.mse_loss, F.l1_loss, nn.SmoothL1Loss()])
def test_holes_that_the_loss_counts_are_reported(loss_fn: Callable[..., Tensor]) -> None:
    (message,) = codes(DEPTHS.masked_fill(IS_HOLE, 0.0), loss_fn)
    assert "of the target values are 0 and lie apart from all others" in message


def test_holes_in_a_loss_of_the_users_own_are_placed_where_the_errors_are_made() -> None:
    model, target = nn.Conv2d(1, 1, 3, padding=1), DEPTHS.masked_fill(IS_HOLE, 0.0)
    (finding,) = rule_faults(minimal_setup(model, SHADES, target, mean_error), "D113")
    assert "error = (output - target).square()" in (finding.where.source or "")
    assert finding.message.startswith("In the first batch, ")


def inner_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, target)


FIXES = {
    F.mse_loss: "loss = loss_fn(output[known], target[known])",
    mean_error: "loss = loss_fn(output[known], target[known])",
    inner_loss: "return F.mse_loss(output[target != 0], target[target != 0])",
}


@pytest.mark.parametrize("loss_fn", FIXES)
def test_fix_of_holes_leaves_them_out_of_a_loss_that_is_one_number(loss_fn: Callable[..., Tensor]) -> None:
    model, target = nn.Conv2d(1, 1, 3, padding=1), DEPTHS.masked_fill(IS_HOLE, 0.0)
    (finding,) = rule_faults(minimal_setup(model, SHADES, target, loss_fn), "D113")
    assert FIXES[loss_fn] in finding.fix
    assert bool(finding.edits) == (loss_fn is inner_loss)


@pytest.mark.parametrize("loss_fn", [known_error, weighted_error])
def test_holes_that_the_loss_leaves_out_are_quiet(loss_fn: Callable[..., Tensor]) -> None:
    assert codes(DEPTHS.masked_fill(IS_HOLE, 0.0), loss_fn) == []


@pytest.mark.parametrize(
    "target",
    [DEPTHS, (DEPTHS - 3).relu(), DEPTHS.round(), (DEPTHS > 2).float()],
    ids=["no holes", "zeros beside small values", "whole numbers", "masks"],
)
def test_maps_without_holes_are_quiet(target: Tensor) -> None:
    assert codes(target, F.mse_loss) == []


IS_OBJECT = torch.rand(32, 1, 8, 8, generator=G) < 0.1
OFFSETS = (torch.rand(32, 3, 8, 8, generator=G) - 0.5) * IS_OBJECT
BOXES = torch.cat([IS_OBJECT.float(), OFFSETS], 1)
CHANNELS = {
    "flags before offsets": BOXES,
    "flags after offsets": BOXES.flip(1),
    "flags of 0 and 5 before heights": torch.cat([5.0 * IS_OBJECT, OFFSETS], 1),
    "flags of two signs": torch.cat([2.0 * IS_OBJECT - 3.0 * IS_OBJECT.flip(0) * ~IS_OBJECT, OFFSETS], 1),
    "two flags": torch.cat([BOXES, IS_OBJECT.flip(0).float()], 1),
}


@pytest.mark.parametrize("name", CHANNELS)
@pytest.mark.parametrize("is_last", [False, True])
def test_flags_in_a_channel_of_their_own_are_no_holes(name: str, *, is_last: bool) -> None:
    target = CHANNELS[name]
    model: nn.Module = nn.Conv2d(1, target.shape[1], 3, padding=1)
    if is_last:
        model, target = nn.Sequential(model, nn.Flatten(2), Transposition()), target.flatten(2).transpose(1, 2)
    assert rule_faults(minimal_setup(model, SHADES, target, F.mse_loss), "D113") == []


class Transposition(nn.Module):
    """An exchange of the last two axes."""

    def forward(self, x: Tensor) -> Tensor:
        return x.transpose(1, 2)


HOLES_IN_CHANNELS = {
    "beside flags": torch.cat([IS_OBJECT.float(), DEPTHS.masked_fill(IS_HOLE, -9.0)], 1),
    "in both channels": torch.cat([DEPTHS, DEPTHS.flip(1) + 2], 1).masked_fill(IS_HOLE, 0.0),
    "in the first rows": DEPTHS * (torch.arange(8)[:, None] > 0),
}


@pytest.mark.parametrize("name", HOLES_IN_CHANNELS)
def test_holes_in_a_channel_of_measurements_are_reported(name: str) -> None:
    target = HOLES_IN_CHANNELS[name]
    model = nn.Conv2d(1, target.shape[1], 3, padding=1)
    messages = [item.message for item in rule_faults(minimal_setup(model, SHADES, target, F.mse_loss), "D113")]
    assert any("of the target values are" in message for message in messages), messages
