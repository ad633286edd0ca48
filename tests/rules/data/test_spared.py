"""D101 and D103 are quiet on what the user's own model and loss leave out, and on nothing else."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nbdebug.rules.examples import minimal_setup, network, points
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

X, Y = points()
FEW = torch.where(torch.arange(64) % 5 == 3, -1, Y)
LATE = Y.clone()
LATE[60] = -1


def indexed(output: Tensor, target: Tensor) -> Tensor:
    there = target >= 0
    return F.cross_entropy(output[there], target[there])


def named(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target, ignore_index=-1)


def weighed(output: Tensor, target: Tensor) -> Tensor:
    each = F.cross_entropy(output, target.clamp(min=0), reduction="none")
    return (each * (target >= 0)).sum() / (target >= 0).sum()


@pytest.mark.parametrize("loss", [indexed, named, weighed])
@pytest.mark.parametrize("labels", [FEW, LATE], ids=["many", "one far from the first batch"])
def test_labels_that_the_loss_drops_are_left_alone(loss: Callable[..., Tensor], labels: Tensor) -> None:
    assert rule_findings(minimal_setup(network(3), X, labels, loss), "D101") == []


def wrapped(output: Tensor, target: Tensor) -> Tensor:
    return F.cross_entropy(output, target % 3)


def refused(output: Tensor, target: Tensor) -> Tensor:
    return F.nll_loss(output.log_softmax(1), target)


@pytest.mark.parametrize("loss", [wrapped, refused, nn.CrossEntropyLoss(), F.cross_entropy])
@pytest.mark.parametrize("labels", [FEW, LATE], ids=["many", "one far from the first batch"])
def test_labels_that_the_loss_does_not_drop_are_found(loss: Callable[..., Tensor], labels: Tensor) -> None:
    (one,) = rule_findings(minimal_setup(network(3), X, labels, loss), "D101")
    assert one.severity == "error"
    assert one.evidence["labels"] == [-1]


VALUES = X[:, :2].clone()
VALUES[::3, 0] = torch.nan
ONCE = X[:, :2].clone()
ONCE[61] = torch.nan


def there(output: Tensor, target: Tensor) -> Tensor:
    known = ~target.isnan()
    return F.mse_loss(output[known], target[known])


def filled(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output * target.isfinite(), target.nan_to_num())


@pytest.mark.parametrize("loss", [there, filled])
@pytest.mark.parametrize("target", [VALUES, ONCE], ids=["many", "one far from the first batch"])
def test_missing_targets_that_the_loss_leaves_out_are_a_note(loss: Callable[..., Tensor], target: Tensor) -> None:
    assert [one.severity for one in rule_findings(minimal_setup(network(2), X, target, loss), "D103")] == ["note"]


def too_late(output: Tensor, target: Tensor) -> Tensor:
    """A finite loss with gradients that are NaN: the error was computed before it was masked."""
    return torch.where(target.isnan(), 0.0, (output - target) ** 2).mean()


def times_zero(output: Tensor, target: Tensor) -> Tensor:
    return ((output - target) ** 2 * target.isfinite()).mean()


@pytest.mark.parametrize("loss", [times_zero, F.mse_loss])
@pytest.mark.parametrize("target", [VALUES, ONCE], ids=["many", "one far from the first batch"])
def test_missing_targets_that_reach_the_loss_are_an_error(loss: Callable[..., Tensor], target: Tensor) -> None:
    assert [one.severity for one in rule_findings(minimal_setup(network(2), X, target, loss), "D103")] == ["error"]


class Filling(nn.Module):
    """Puts zeros in the place of what is missing, and tells the network where."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(torch.cat([x.nan_to_num(), x.isnan().float()], 1))


def missing_inputs(model: nn.Module) -> Setup:
    x = X.clone()
    x[torch.rand(x.shape, generator=torch.Generator().manual_seed(0)) < 0.1] = torch.nan
    return minimal_setup(model, x, Y, nn.CrossEntropyLoss())


def test_missing_inputs_that_the_model_fills_are_a_note() -> None:
    assert [one.severity for one in rule_findings(missing_inputs(Filling()), "D103")] == ["note"]
    assert [one.severity for one in rule_findings(missing_inputs(network(3)), "D103")] == ["error"]
