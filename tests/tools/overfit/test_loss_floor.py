"""Tests of the loss floor that the search finds against the floor known by formula."""

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


def find_floor(
    y: Tensor, loss_fn: Callable[..., Any], x: Tensor | None = None, tail: nn.Module | None = None
) -> LossFloor:
    """The floor for a linear model on the examples ``y``, with random inputs unless ``x`` is passed."""
    x = torch.randn(len(y), 4, generator=torch.Generator().manual_seed(0)) if x is None else x
    outputs = 3 if not y.is_floating_point() else y[0].numel()
    model = nn.Sequential(nn.Linear(x.shape[1], outputs), tail or nn.Identity())
    setup = Setup(model, DataLoader(TensorDataset(x, y), batch_size=len(y)), loss_fn=loss_fn)
    tiny_pass = first_tiny_pass(setup, len(y))
    return find_loss_floor(setup, tiny_pass, input_groups(tiny_pass.batch, tiny_pass.size))


def entropy(p: Tensor) -> float:
    """Mean over rows of the entropy along the last axis."""
    return float(torch.special.entr(p).sum(-1).mean())


def nll_of_probabilities(p: Tensor, y: Tensor) -> Tensor:
    return -p.gather(1, y[:, None]).log().mean()


@pytest.mark.parametrize(
    ("loss_fn", "tail", "constant_loss", "tolerance"),
    [
        (nn.CrossEntropyLoss(), None, math.log(3), 1e-4),
        (nn.CrossEntropyLoss(weight=WEIGHTS), None, entropy(WEIGHTS / WEIGHTS.sum()), 1e-3),
        (nn.NLLLoss(), nn.LogSoftmax(1), math.log(3), 1e-3),
        (nll_of_probabilities, nn.Softmax(1), math.log(3), 1e-3),
    ],
    ids=["cross-entropy", "class weights", "log-probabilities", "probabilities"],
)
def test_loss_floor_of_hard_labels_is_zero_and_constant_loss_is_entropy_of_labels(
    loss_fn: Callable[..., Any], tail: nn.Module | None, constant_loss: float, tolerance: float
) -> None:
    floor = find_floor(CLASSES, loss_fn, tail=tail)
    assert floor.value == pytest.approx(0, abs=1e-4)
    assert floor.constant_loss == pytest.approx(constant_loss, rel=tolerance)


@pytest.mark.parametrize("smoothing", [0.05, 0.1, 0.3])
def test_loss_floor_with_label_smoothing_is_entropy_of_smoothed_label(smoothing: float) -> None:
    smoothed = torch.full((3,), smoothing / 3) + torch.tensor([1 - smoothing, 0, 0])
    floor = find_floor(CLASSES, nn.CrossEntropyLoss(label_smoothing=smoothing))
    assert floor.value == pytest.approx(entropy(smoothed), rel=1e-3)


def test_loss_floor_of_soft_labels_is_their_entropy() -> None:
    y = torch.rand(12, 3, generator=torch.Generator().manual_seed(1)).softmax(1)
    assert find_floor(y, nn.CrossEntropyLoss()).value == pytest.approx(entropy(y), rel=1e-3)


def test_loss_floor_of_contradictory_labels_is_conditional_entropy() -> None:
    x = torch.eye(12)
    x[1] = x[0]
    y = CLASSES.clone()
    assert find_floor(y, nn.CrossEntropyLoss(), x).value == pytest.approx(2 * math.log(2) / 12, rel=1e-3)


def test_loss_floor_of_contradictory_numbers_is_their_variance() -> None:
    x = torch.arange(6.0).repeat_interleave(2)[:, None]
    y = torch.randn(12, 1, generator=torch.Generator().manual_seed(2))
    variance = float(y.reshape(6, 2).var(1, correction=0).mean())
    floor = find_floor(y, nn.MSELoss(), x)
    assert floor.value == pytest.approx(variance, rel=1e-3)
    assert floor.constant_loss == pytest.approx(float(y.var(correction=0)), rel=1e-3)


@pytest.mark.parametrize(
    ("tail", "loss_fn"), [(None, nn.BCEWithLogitsLoss()), (nn.Sigmoid(), nn.BCELoss())], ids=["logits", "probabilities"]
)
def test_loss_floor_of_soft_binary_targets_is_their_entropy(tail: nn.Module | None, loss_fn: nn.Module) -> None:
    y = torch.rand(12, 2, generator=torch.Generator().manual_seed(3))
    expected = entropy(torch.stack([y, 1 - y], -1))
    assert find_floor(y, loss_fn, tail=tail).value == pytest.approx(expected, rel=1e-3)


def test_loss_floor_of_cross_entropy_after_softmax_is_zero() -> None:
    assert find_floor(CLASSES, nn.CrossEntropyLoss(), tail=nn.Softmax(1)).value == pytest.approx(0, abs=1e-4)


def test_loss_floor_of_summed_loss_with_large_targets_is_zero() -> None:
    y = 1e5 * torch.randn(12, 1, generator=torch.Generator().manual_seed(4))
    floor = find_floor(y, nn.MSELoss(reduction="sum"))
    assert floor.value == 0
    assert floor.constant_loss == pytest.approx(12 * float(y.var(correction=0)), rel=1e-3)


def test_loss_floor_of_unit_vectors_is_searched_on_sphere() -> None:
    def cosine_loss(z: Tensor, y: Tensor) -> Tensor:
        return -(z * F.normalize(y, dim=1)).sum(1).mean() * 2

    class Normalization(nn.Module):
        def forward(self, z: Tensor) -> Tensor:
            return F.normalize(z, dim=1)

    y = torch.randn(12, 3, generator=torch.Generator().manual_seed(5))
    assert find_floor(y, cosine_loss, tail=Normalization()).value == pytest.approx(-2, rel=1e-3)


def test_loss_floor_of_unbounded_loss_is_none() -> None:
    floor = find_floor(CLASSES.float()[:, None] - 3, lambda z, y: (z * y).mean())
    assert floor.value is None
    assert floor.is_unbounded


class WithOwnLoss(nn.Module):
    """Returns a loss of its own beside the outputs of the samples, as a quantizer does."""

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, 0.5 + 0 * x.square().mean()


def test_loss_floor_keeps_a_loss_that_the_model_returns_beside_its_outputs() -> None:
    y = torch.randn(12, 2, generator=torch.Generator().manual_seed(1))
    floor = find_floor(y, lambda output, target: F.mse_loss(output[0], target) + output[1], tail=WithOwnLoss())
    assert floor.value == pytest.approx(0.5, abs=1e-4)
    assert floor.constant_loss == pytest.approx(0.5 + float(y.var(0, unbiased=False).mean()), rel=1e-3)


def test_loss_floor_of_broadcast_loss_is_blind_to_input() -> None:
    def squared_error(z: Tensor, y: Tensor) -> Tensor:
        return ((z - y[:, 0]) ** 2).mean()

    y = torch.randn(12, 1, generator=torch.Generator().manual_seed(6))
    floor = find_floor(y, squared_error)
    assert floor.is_blind
    assert "compare the shapes" in floor.blindness_text


def test_loss_floor_search_optimizes_and_restores_parameters_of_loss() -> None:
    class ShiftedLoss(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.shift = nn.Parameter(torch.ones(()))

        def forward(self, z: Tensor, y: Tensor) -> Tensor:
            return F.mse_loss(z, y) + self.shift**2

    loss_fn = ShiftedLoss()
    assert find_floor(torch.randn(12, 1), loss_fn).value == pytest.approx(0, abs=1e-5)
    assert loss_fn.shift.item() == 1
