"""The floor found by search against the floor known by formula."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from nbdebug.tools.overfit.loss_floor import LossFloor, find_loss_floor
from nbdebug.tools.overfit.tiny_batch import first_tiny_pass, input_groups

CLASSES = torch.arange(12) % 3
WEIGHTS = torch.tensor([0.2, 1.0, 3.0])


def floor_of(
    y: Tensor, loss_fn: Callable[..., Any], x: Tensor | None = None, tail: nn.Module | None = None
) -> LossFloor:
    """The floor of a linear model on twelve examples."""
    x = torch.randn(len(y), 4, generator=torch.Generator().manual_seed(0)) if x is None else x
    outputs = 3 if not y.is_floating_point() else y[0].numel()
    model = nn.Sequential(nn.Linear(x.shape[1], outputs), tail or nn.Identity())
    setup = Setup(model, DataLoader(TensorDataset(x, y), batch_size=len(y)), loss_fn=loss_fn)
    look = first_tiny_pass(setup, len(y))
    return find_loss_floor(setup, look, input_groups(look.batch, look.size))


def entropy(p: Tensor) -> float:
    """The entropy along the last axis, in the mean over the others."""
    return float(torch.special.entr(p).sum(-1).mean())


def test_plain_cross_entropy_reaches_zero_and_its_chance_is_the_entropy_of_the_labels() -> None:
    found = floor_of(CLASSES, nn.CrossEntropyLoss())
    assert found.value == pytest.approx(0, abs=1e-4)
    assert found.constant_loss == pytest.approx(math.log(3), rel=1e-4)


@pytest.mark.parametrize("smoothing", [0.05, 0.1, 0.3])
def test_label_smoothing_leaves_the_entropy_of_the_smoothed_label(smoothing: float) -> None:
    smoothed = torch.full((3,), smoothing / 3) + torch.tensor([1 - smoothing, 0, 0])
    found = floor_of(CLASSES, nn.CrossEntropyLoss(label_smoothing=smoothing))
    assert found.value == pytest.approx(entropy(smoothed), rel=1e-3)


def test_class_weights_change_the_chance_and_not_the_zero() -> None:
    found = floor_of(CLASSES, nn.CrossEntropyLoss(weight=WEIGHTS))
    share = WEIGHTS / WEIGHTS.sum()
    assert found.value == pytest.approx(0, abs=1e-4)
    assert found.constant_loss == pytest.approx(entropy(share), rel=1e-3)


def test_soft_labels_leave_their_entropy() -> None:
    y = torch.rand(12, 3, generator=torch.Generator().manual_seed(1)).softmax(1)
    assert floor_of(y, nn.CrossEntropyLoss()).value == pytest.approx(entropy(y), rel=1e-3)


def test_contradictory_duplicates_leave_the_conditional_entropy() -> None:
    x = torch.eye(12)
    x[1] = x[0]
    y = CLASSES.clone()
    assert floor_of(y, nn.CrossEntropyLoss(), x).value == pytest.approx(2 * math.log(2) / 12, rel=1e-3)


def test_contradictory_numbers_leave_their_variance() -> None:
    x = torch.arange(6.0).repeat_interleave(2)[:, None]
    y = torch.randn(12, 1, generator=torch.Generator().manual_seed(2))
    noise = float(y.reshape(6, 2).var(1, correction=0).mean())
    found = floor_of(y, nn.MSELoss(), x)
    assert found.value == pytest.approx(noise, rel=1e-3)
    assert found.constant_loss == pytest.approx(float(y.var(correction=0)), rel=1e-3)


@pytest.mark.parametrize(("tail", "loss_fn"), [(None, nn.BCEWithLogitsLoss()), (nn.Sigmoid(), nn.BCELoss())])
def test_soft_binary_targets_leave_their_entropy(tail: nn.Module | None, loss_fn: nn.Module) -> None:
    y = torch.rand(12, 2, generator=torch.Generator().manual_seed(3))
    wanted = entropy(torch.stack([y, 1 - y], -1))
    assert floor_of(y, loss_fn, tail=tail).value == pytest.approx(wanted, rel=1e-3)


def test_log_probabilities_stay_log_probabilities() -> None:
    found = floor_of(CLASSES, nn.NLLLoss(), tail=nn.LogSoftmax(1))
    assert found.value == pytest.approx(0, abs=1e-4)
    assert found.constant_loss == pytest.approx(math.log(3), rel=1e-3)


def test_a_loss_of_probabilities_by_hand_keeps_them_probabilities() -> None:
    def by_hand(p: Tensor, y: Tensor) -> Tensor:
        return -p.gather(1, y[:, None]).log().mean()

    found = floor_of(CLASSES, by_hand, tail=nn.Softmax(1))
    assert found.value == pytest.approx(0, abs=1e-4)
    assert found.constant_loss == pytest.approx(math.log(3), rel=1e-3)


def test_a_softmax_of_the_model_does_not_raise_the_floor_of_cross_entropy() -> None:
    assert floor_of(CLASSES, nn.CrossEntropyLoss(), tail=nn.Softmax(1)).value == pytest.approx(0, abs=1e-4)


def test_summed_losses_and_large_targets_are_searched_too() -> None:
    y = 1e5 * torch.randn(12, 1, generator=torch.Generator().manual_seed(4))
    found = floor_of(y, nn.MSELoss(reduction="sum"))
    assert found.value == 0
    assert found.constant_loss == pytest.approx(12 * float(y.var(correction=0)), rel=1e-3)


def test_a_contrastive_loss_of_unit_vectors_is_searched_on_the_sphere() -> None:
    def cosine(z: Tensor, y: Tensor) -> Tensor:
        return -(z * F.normalize(y, dim=1)).sum(1).mean() * 2

    class Normalized(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return F.normalize(z, dim=1)

    y = torch.randn(12, 3, generator=torch.Generator().manual_seed(5))
    assert floor_of(y, cosine, tail=Normalized()).value == pytest.approx(-2, rel=1e-3)


def test_a_loss_that_falls_without_end_has_no_floor() -> None:
    found = floor_of(CLASSES.float()[:, None] - 3, lambda z, y: (z * y).mean())
    assert found.value is None
    assert found.is_unbounded


def test_a_loss_that_broadcasts_is_blind_to_the_input() -> None:
    def squared(z: Tensor, y: Tensor) -> Tensor:
        return ((z - y[:, 0]) ** 2).mean()

    y = torch.randn(12, 1, generator=torch.Generator().manual_seed(6))
    found = floor_of(y, squared)
    assert found.is_blind
    assert "compare the shapes" in found.blindness_text


def test_parameters_of_the_loss_take_part() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.ones(()))

        def forward(self, z: Tensor, y: Tensor) -> Tensor:
            return F.mse_loss(z, y) + self.shift**2

    loss_fn = Scaled()
    assert floor_of(torch.randn(12, 1), loss_fn).value == pytest.approx(0, abs=1e-5)
    assert loss_fn.shift.item() == 1
