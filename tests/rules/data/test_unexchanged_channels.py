"""Tests of D105 with maps and points that are mirrored with their images, and do or do not change places."""

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

_SIDE = 24
_Transform = Callable[[Tensor], Tensor]


def draw_spots(places: Tensor, width: float) -> Tensor:
    """Return a map for each place with a bright spot there."""
    axis = torch.arange(_SIDE)
    squares = [(axis - places[..., part, None]).square() for part in (0, 1)]
    return torch.exp(-(squares[0][..., :, None] + squares[1][..., None, :]) / (2 * width**2))


def draw_pairs(count: int, seed: int, second_light: float) -> tuple[Tensor, Tensor]:
    """Return images with a spot on the left and one on the right, and their places (row, column)."""
    generator = torch.Generator().manual_seed(seed)
    rows = 5 + 14 * torch.rand(count, 2, generator=generator)
    columns = torch.tensor([4.0, 14.0]) + 5 * torch.rand(count, 2, generator=generator)
    places = torch.stack([rows, columns], 2)
    light = torch.tensor([1.0, second_light]).view(1, 2, 1, 1)
    images = (light * draw_spots(places, 1.2)).sum(1, keepdim=True)
    return images + 0.1 * torch.randn(images.shape, generator=generator), places


def as_maps(places: Tensor) -> Tensor:
    return draw_spots(places, 1.5)


def as_points(places: Tensor) -> Tensor:
    return places.flip(2) / (_SIDE - 1)


def mirrored_points(points: Tensor) -> Tensor:
    return torch.stack([1 - points[:, 0], points[:, 1]], 1)


class Mirrored(Dataset[Any]):
    """Images that are mirrored at random, with a transform of their targets."""

    def __init__(self, images: Tensor, targets: Tensor, transform: _Transform) -> None:
        self.images, self.targets, self.transform = images, targets, transform

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, target = self.images[index], self.targets[index]
        if random.random() < 0.5:
            image = image.flip(-1)
            target = self.transform(target)
        return image, target


def pair_setup(form: _Transform, transform: _Transform, second_light: float = 1.0) -> Setup:
    (images, places), (val_images, val_places) = draw_pairs(200, 0, second_light), draw_pairs(160, 1, second_light)
    targets, val_targets = form(places), form(val_places)
    model = nn.Sequential(nn.Flatten(), nn.Linear(_SIDE**2, targets[0].numel()), nn.Unflatten(1, targets.shape[1:]))
    loaders = (
        DataLoader(Mirrored(images, targets, transform), 20, shuffle=True),
        DataLoader(TensorDataset(val_images, val_targets), 40),
    )
    return Setup(model, *loaders, loss_fn=nn.MSELoss())


@pytest.mark.parametrize(
    ("form", "transform"),
    [(as_maps, lambda maps: maps.flip(-1)), (as_points, mirrored_points)],
    ids=["maps", "points"],
)
def test_channels_of_mirror_images_that_stay_in_their_order_are_an_error(
    form: _Transform, transform: _Transform
) -> None:
    (finding,) = rule_findings(pair_setup(form, transform), "D105")
    assert (finding.severity, finding.evidence["channels"]) == ("error", [0, 1])
    assert "image and target left to right" in finding.message
    assert finding.where is not None
    assert finding.where.source is not None
    assert "flip" in finding.where.source


@pytest.mark.parametrize(
    ("form", "transform", "second_light"),
    [
        (as_maps, lambda maps: maps.flip(-1)[[1, 0]], 1.0),
        (as_points, lambda points: mirrored_points(points)[[1, 0]], 1.0),
        (as_maps, lambda maps: maps.flip(-1), -1.0),
        (as_points, mirrored_points, 2.0),
    ],
    ids=["exchanged maps", "exchanged points", "a dark spot on the right", "a brighter spot on the right"],
)
def test_channels_that_change_places_or_look_different_are_quiet(
    form: _Transform, transform: _Transform, second_light: float
) -> None:
    assert rule_findings(pair_setup(form, transform, second_light), "D105") == []
