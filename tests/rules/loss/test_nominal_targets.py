"""Tests of L211 for numbers of classes that a regression learns: names are reported, ordered numbers are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

DIGITS = load_digits()
IMAGES = torch.tensor(DIGITS.data[:900], dtype=torch.float32) / 16
CLASSES = torch.tensor(DIGITS.target[:900])
ROWS = torch.randn(900, 6, generator=torch.Generator().manual_seed(0))
KINDS = torch.randint(0, 5, (900,), generator=torch.Generator().manual_seed(1))
CENTERS = 4 * torch.eye(6)[torch.tensor([3, 0, 5, 1, 2])]


def rounded_sum(rows: Tensor) -> Tensor:
    return (3 + rows[:, :3].sum(1)).round().clamp(0, 6)


def spread_counts(rows: Tensor) -> Tensor:
    return torch.poisson((rows[:, 0] / 2 + 0.5).exp(), generator=torch.Generator().manual_seed(2)).clamp_max(6)


NOMINAL = {
    "images": (IMAGES, CLASSES),
    "float targets": (IMAGES, CLASSES.float()),
    "clusters": (ROWS + CENTERS[KINDS], KINDS),
    "clusters far apart": (ROWS + 1.2 * CENTERS[KINDS], KINDS),
}
ORDERED: dict[str, tuple[Tensor, Tensor]] = {
    "rounded sums": (ROWS, rounded_sum(ROWS)),
    "counts": (ROWS, spread_counts(ROWS)),
    "bits that are set": ((ROWS > 0).float(), (ROWS > 0).sum(1)),
    "random numbers": (ROWS, KINDS),
    "grades along a line": (0.4 * ROWS + KINDS[:, None], KINDS),
    "grades along a line far apart": (0.2 * ROWS + KINDS[:, None], KINDS),
    "years on a curve": (torch.stack([KINDS.sin(), KINDS.cos(), KINDS / 5], 1) + 0.05 * ROWS[:, :3], KINDS),
    "brightness": (IMAGES, (IMAGES.sum(1) / 4).round()),
}


def build(x: Tensor, y: Tensor, loss_fn: Callable[[Tensor, Tensor], Tensor]) -> Setup:
    model = nn.Sequential(nn.Linear(x.shape[1], 16), nn.ReLU(), nn.Linear(16, 1), nn.Flatten(0))
    return Setup(model, DataLoader(TensorDataset(x, y), 32, shuffle=True), loss_fn=loss_fn)


def squared_error(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output, target.float())


@pytest.mark.parametrize("name", NOMINAL)
def test_loss_task_mismatch_of_class_numbers_without_order_is_a_warning(name: str) -> None:
    (finding,) = rule_faults(build(*NOMINAL[name], squared_error), "L211")
    assert finding.severity == "warning"
    assert "mse_loss" in (finding.where.source or "")
    assert finding.evidence["numbers"] == len(NOMINAL[name][1].unique())
    assert finding.evidence["squared error as classes"] < finding.evidence["squared error as quantities"]


@pytest.mark.parametrize("name", ORDERED)
def test_loss_task_mismatch_of_ordered_numbers_is_quiet(name: str) -> None:
    assert rule_faults(build(*ORDERED[name], squared_error), "L211") == []
