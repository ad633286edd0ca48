"""Tests of D105 for losses that compare the output of each sample with the target of another one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.finding import Finding
from nbdebug.rules.examples import network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

X, CLASSES = points()
VALUES = X[:, :1] * 2 + X[:, 1:2]
ORDER = torch.randperm(16, generator=torch.Generator().manual_seed(1))


def reversed_classes(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target.flip(0))


def shifted_classes(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target.roll(3, 0))


class Shuffled(nn.Module):
    """Puts the targets in an order of its own."""

    def forward(self, output: Tensor, target: Tensor) -> Tensor:
        losses = (output - target[ORDER]).square()
        return losses.mean()


def two_targets(output: Tensor, target: Tensor, value: Tensor) -> Tensor:
    return F.cross_entropy(output[:, :3], target) + F.mse_loss(output[:, :1], value.flip(0))


def found(loss_fn: Any, *targets: Tensor, model: nn.Module | None = None) -> list[Finding]:
    outputs = 3 if targets[0].dtype == torch.long else 1
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(X, *targets), 16)
    findings = rule_faults(Setup(model or network(outputs), loader, loss_fn=loss_fn), "D105")
    return [finding for finding in findings if "targets of other samples" in finding.message]


@pytest.mark.parametrize(
    ("loss_fn", "targets", "start", "pair"),
    [
        (reversed_classes, (CLASSES,), "The loss", [0, 15]),
        (shifted_classes, (CLASSES,), "The loss", [0, 3]),
        (Shuffled(), (VALUES,), "The loss", [0, int((ORDER == 0).nonzero())]),
        (two_targets, (CLASSES, VALUES), "Head 1: The loss", [0, 15]),
    ],
    ids=["reversed", "shifted", "index", "one of two"],
)
def test_targets_in_another_order_than_outputs_are_reported(
    loss_fn: Any, targets: tuple[Tensor, ...], start: str, pair: list[int]
) -> None:
    (finding,) = found(loss_fn, *targets)
    assert finding.message.startswith(f"{start} compares outputs with the targets of other samples")
    assert finding.evidence["pairs"][0] == pair
    assert finding.where.source is not None
    assert finding.where.source.strip().startswith(("return F.", "losses = ", "return losses"))


def plain(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target)


def weighted(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, weight=torch.tensor([1.0, 2.0, 3.0]))


def transport(output: Tensor, target: Tensor) -> Tensor:
    """Match predictions and targets by their ranks."""
    return (output.sort(0).values - target.sort(0).values).abs().mean()


def pairs(output: Tensor, target: Tensor) -> Tensor:
    """Compare differences of neighbors."""
    return (output - output.roll(1, 0) - target + target.roll(1, 0)).square().mean()


def mixed(output: Tensor, target: Tensor) -> Tensor:
    """Compare with two targets, as after inputs were mixed."""
    return 0.7 * F.cross_entropy(output, target) + 0.3 * F.cross_entropy(output, target.flip(0))


@pytest.mark.parametrize(
    ("loss_fn", "target"),
    [(plain, CLASSES), (weighted, CLASSES), (mixed, CLASSES), (transport, VALUES), (pairs, VALUES)],
)
def test_losses_that_read_the_own_target_or_match_by_value_are_not_reported(
    loss_fn: Callable[..., Tensor], target: Tensor
) -> None:
    assert found(loss_fn, target) == []


class Reordering(nn.Module):
    """Returns the samples in another order, which the loss follows."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = network(3)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layers(x.flip(0))
        return scores


def test_targets_that_follow_the_order_of_the_model_are_not_reported() -> None:
    assert found(reversed_classes, CLASSES, model=Reordering()) == []
