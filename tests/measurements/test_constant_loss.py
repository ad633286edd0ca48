"""Tests of the loss of the best constant prediction, against values known in closed form."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from nbdebug.exceptions import NotChecked
from nbdebug.measurements import Measurements
from nbdebug.setup import Setup

GENERATOR = torch.Generator().manual_seed(0)
X = torch.randn(1500, 6, generator=GENERATOR)
LABELS = (X @ torch.randn(6, 10, generator=GENERATOR)).argmax(1)
VALUES = X[:, :2].exp()
SIGNS = torch.where(torch.arange(1500) % 5 == 0, 1.0, -1.0)[:, None]
FREQUENCIES = torch.bincount(LABELS, minlength=10) / 1500
ENTROPY = float(-(FREQUENCIES * FREQUENCIES.log()).sum())


class MeanAndLogVariance(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Any:
        return self.layer(x).chunk(2, 1)


class SampleDataset(Dataset[Any]):
    def __init__(self, labels: Tensor) -> None:
        self.labels = labels

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index], self.labels[index]


class MaskedScores(nn.Linear):
    """Two scores for each of 14 positions, with a huge negative number at positions beyond the end of a sample."""

    def forward(self, x: Tensor) -> Tensor:
        ends = 4 + (10 * x[:, 0].sigmoid()).long()
        return super().forward(x).view(-1, 14, 2).masked_fill((torch.arange(14) >= ends[:, None])[..., None], -1e4)


def span_loss(output: Tensor, target: Tensor) -> Tensor:
    first, last = output.unbind(-1)
    return (handwritten_cross_entropy(first, target) + handwritten_cross_entropy(last, target)) / 2


def gaussian_likelihood(output: Any, target: Tensor) -> Tensor:
    mean, log_variance = output
    return 0.5 * (log_variance + (target - mean).square() / log_variance.exp()).mean()


def handwritten_cross_entropy(output: Tensor, target: Tensor) -> Tensor:
    return (output.logsumexp(1) - output[torch.arange(len(target)), target]).mean()


def contrastive(output: Tensor, target: Tensor) -> Tensor:
    unit = F.normalize(output, dim=1)
    return F.cross_entropy(unit @ unit.T / 0.5, torch.arange(len(output)))


def constant_loss(model: nn.Module, data: Dataset[Any], loss_fn: Callable[..., Any], **loader_options: Any) -> Any:
    setup = Setup(model, DataLoader(data, 50, **loader_options), loss_fn=loss_fn)
    return Measurements(setup)["constant_loss"]


KNOWN: dict[str, tuple[nn.Module, Tensor, Callable[..., Any], float]] = {
    "cross-entropy": (nn.Linear(6, 10), LABELS, nn.CrossEntropyLoss(), ENTROPY),
    "handwritten cross-entropy": (nn.Linear(6, 10), LABELS, handwritten_cross_entropy, ENTROPY),
    "masked scores": (MaskedScores(6, 28), LABELS, span_loss, ENTROPY),
    "squared error": (nn.Linear(6, 2), VALUES, nn.MSELoss(), float(VALUES.var(0, unbiased=False).mean())),
    "handwritten squared error": (
        nn.Linear(6, 2),
        VALUES,
        lambda output, target: ((output - target) ** 2).mean(),
        float(VALUES.var(0, unbiased=False).mean()),
    ),
    "absolute error": (nn.Linear(6, 2), VALUES, nn.L1Loss(), float((VALUES - VALUES.median(0)[0]).abs().mean())),
    "hinge": (nn.Linear(6, 1), SIGNS, lambda output, target: F.relu(1 - output * target).mean(), 0.4),
    "probabilities": (
        nn.Sequential(nn.Linear(6, 1), nn.Sigmoid()),
        (SIGNS + 1) / 2,
        lambda output, target: -(target * output.log() + (1 - target) * (1 - output).log()).mean(),
        -(0.2 * math.log(0.2) + 0.8 * math.log(0.8)),
    ),
    "two outputs": (
        MeanAndLogVariance(),
        VALUES,
        gaussian_likelihood,
        float(0.5 * (VALUES.var(0, unbiased=False).log() + 1).mean()),
    ),
}


@pytest.mark.parametrize("name", KNOWN)
def test_constant_loss_of_all_targets_equals_the_minimum(name: str) -> None:
    model, targets, loss_fn, expected = KNOWN[name]
    result = constant_loss(model, TensorDataset(X, targets), loss_fn)
    assert result.is_complete
    assert result.value == pytest.approx(expected, rel=2e-3)


class SmallPositiveOutputs(nn.Linear):
    """Outputs that are all between 0 and 1 before training, although nothing bounds them."""

    def forward(self, x: Tensor) -> Tensor:
        return 0.5 + 0.01 * super().forward(x)


def test_constant_loss_of_targets_beyond_one_is_not_limited_to_probabilities() -> None:
    values = 400 + 50 * VALUES
    result = constant_loss(SmallPositiveOutputs(6, 2), TensorDataset(X, values), nn.MSELoss())
    assert result.value == pytest.approx(float(values.var(0, unbiased=False).mean()), rel=2e-3)


def test_constant_loss_of_logits_of_zero_is_not_limited_to_probabilities() -> None:
    model = nn.Linear(6, 10)
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    result = constant_loss(model, TensorDataset(X, (LABELS == 3).long()), nn.CrossEntropyLoss())
    share = float(FREQUENCIES[3])
    expected = -(share * math.log(share) + (1 - share) * math.log(1 - share))
    assert result.value == pytest.approx(expected, rel=2e-3)


def test_constant_loss_of_loss_between_samples_uses_the_batch_size_of_the_loop() -> None:
    result = constant_loss(nn.Linear(6, 4), TensorDataset(X, LABELS), contrastive)
    assert result.value == pytest.approx(math.log(50), rel=1e-3)


def test_constant_loss_of_summed_loss_uses_the_batch_size_of_the_loop() -> None:
    result = constant_loss(nn.Linear(6, 10), TensorDataset(X, LABELS), nn.CrossEntropyLoss(reduction="sum"))
    assert result.value == pytest.approx(50 * ENTROPY, rel=0.05)


@pytest.mark.parametrize("rows", [150, 400])
def test_constant_loss_of_a_sample_of_many_classes_is_not_too_low(monkeypatch: Any, rows: int) -> None:
    monkeypatch.setattr("nbdebug.measurements.constant_loss._MAX_ROWS", rows)
    labels = torch.randint(0, 60, (1500,), generator=torch.Generator().manual_seed(1))
    result = constant_loss(nn.Linear(6, 60), SampleDataset(labels), nn.CrossEntropyLoss())
    bias_of_frequencies = 59 / (2 * rows)
    assert not result.is_complete
    assert abs(result.value - math.log(60)) < bias_of_frequencies / 2


def test_constant_loss_of_a_balancing_sampler_is_that_of_the_drawn_classes() -> None:
    rare = (torch.arange(1500) % 20 == 0).long()
    sampler = WeightedRandomSampler(torch.where(rare == 1, 19.0, 1.0).tolist(), 1500)
    result = constant_loss(nn.Linear(6, 2), TensorDataset(X, rare), nn.CrossEntropyLoss(), sampler=sampler)
    assert result.value == pytest.approx(math.log(2), rel=0.01)


@pytest.mark.parametrize(
    ("targets", "loss_fn"),
    [
        (VALUES, lambda output, target: (output * target).mean()),
        (torch.ones(1500, 2), nn.BCEWithLogitsLoss()),
        (VALUES, lambda output, target: -output.square().mean()),
    ],
    ids=["unbounded", "equal targets", "unbounded without targets"],
)
def test_constant_loss_without_minimum_is_not_checked(targets: Tensor, loss_fn: Callable[..., Any]) -> None:
    with pytest.raises(NotChecked):
        constant_loss(nn.Linear(6, 2), TensorDataset(X, targets), loss_fn)


SOFT = (X @ torch.randn(6, 5, generator=torch.Generator().manual_seed(4))).softmax(1)
SOFT_LABELS = X[:, :3].sigmoid()


def list_loss(scores: Tensor, relevance: Tensor) -> Tensor:
    return -(relevance.softmax(1) * scores.log_softmax(1)).sum(1).mean()


@pytest.mark.parametrize(
    ("loss_fn", "target", "floor"),
    [
        (nn.CrossEntropyLoss(), SOFT, -(SOFT * SOFT.log()).sum(1).mean()),
        (list_loss, SOFT.log() + 1, -(SOFT * SOFT.log()).sum(1).mean()),
        (nn.BCEWithLogitsLoss(), SOFT_LABELS, F.binary_cross_entropy(SOFT_LABELS, SOFT_LABELS)),
        (nn.CrossEntropyLoss(), LABELS, 0.0),
        (nn.CrossEntropyLoss(), F.one_hot(LABELS, 10).float(), 0.0),
        (nn.MSELoss(), VALUES, 0.0),
        (nn.BCEWithLogitsLoss(), (SIGNS > 0).float(), 0.0),
    ],
)
def test_loss_floor_is_the_entropy_of_soft_targets_and_zero_for_others(
    loss_fn: Any, target: Tensor, floor: Any
) -> None:
    torch.manual_seed(0)
    outputs = 10 if not target.is_floating_point() else target.shape[1]
    loader = DataLoader(TensorDataset(X, target), batch_size=50, shuffle=True)
    measurements = Measurements(Setup(nn.Linear(6, outputs), loader, loss_fn=loss_fn))
    assert measurements["loss_floor"] == pytest.approx(float(floor), rel=0.02)
