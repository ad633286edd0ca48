"""Tests of D105 with images that are mirrored at random, and targets that do or do not move with them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

_SIDE = 16
_Targets = Callable[[Tensor, Tensor, Tensor], Tensor]


def draw_spots(count: int, seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return color images of a bright spot each, and its row, column and brightness."""
    generator = torch.Generator().manual_seed(seed)
    row, column = (2 + 12 * torch.rand(count, 1, 1, 1, generator=generator) for _ in range(2))
    light = 0.5 + torch.rand(count, 1, 1, 1, generator=generator)
    rows, columns = torch.arange(_SIDE).view(-1, 1), torch.arange(_SIDE)
    spots = light * torch.exp(-((rows - row).square() + (columns - column).square()) / 8)
    images = spots + 0.1 * torch.randn(count, 3, _SIDE, _SIDE, generator=generator)
    return images, row.flatten() - 7.5, column.flatten() - 7.5, light.flatten()


class Spots(Dataset[Any]):
    """Images that are turned upside down at random; the row of the spot may follow."""

    def __init__(self, targets: Tensor, images: Tensor, moved: int | None = None) -> None:
        self.targets, self.images, self.moved = targets, images, moved

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, target = self.images[index], self.targets[index]
        if random.random() < 0.5:
            image = torch.flip(image, (1,))
            if self.moved is not None:
                target = target.clone()
                target[self.moved] = -target[self.moved]
        return image, target


def spot_setup(targets: _Targets, moved: int | None = None, loss_fn: nn.Module | None = None) -> Setup:
    (train, *train_parts), (val, *val_parts) = draw_spots(300, 0), draw_spots(200, 1)
    val_targets = targets(*val_parts)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * _SIDE**2, 2 if val_targets.dim() < 2 else val_targets.shape[1]))
    loaders = (
        DataLoader(Spots(targets(*train_parts), train, moved), 32, shuffle=True),
        DataLoader(TensorDataset(val, val_targets), 50),
    )
    return Setup(model, *loaders, loss_fn=loss_fn or nn.MSELoss())


def test_rows_of_spots_that_stay_in_images_turned_upside_down_are_an_error() -> None:
    (finding,) = rule_findings(spot_setup(lambda row, column, light: torch.stack([light, column, row], 1)), "D105")
    assert finding.severity == "error"
    assert "mirrored upside down" in finding.message
    assert "Value 2 of the target is a position" in finding.message
    assert finding.evidence["correlation"] < -0.7
    assert finding.where is not None
    assert finding.where.source is not None


@pytest.mark.parametrize(
    ("targets", "moved"),
    [
        (lambda row, column, light: torch.stack([light, column, row], 1), 2),
        (lambda row, column, light: torch.stack([light, column], 1), None),
        (lambda row, column, light: torch.stack([row.abs(), light], 1), None),
        (lambda row, column, light: torch.stack([torch.randn(len(row)), light], 1), None),
    ],
    ids=["moved", "another axis", "distance from the middle", "no relation"],
)
def test_targets_that_a_flip_moves_rightly_or_leaves_are_quiet(targets: _Targets, moved: int | None) -> None:
    assert rule_findings(spot_setup(targets, moved), "D105") == []


def test_classes_of_images_turned_upside_down_are_quiet() -> None:
    setup = spot_setup(lambda row, column, light: (column > 0).long(), loss_fn=nn.CrossEntropyLoss())
    assert rule_findings(setup, "D105") == []
