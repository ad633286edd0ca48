"""Tests of D105 on dense targets that are flipped or rotated relative to their images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

SAMPLES, SIDE = 80, 16
GENERATOR = torch.Generator().manual_seed(0)
SCENES = F.avg_pool2d(torch.randn(SAMPLES, 1, SIDE + 4, SIDE + 4, generator=GENERATOR), 5, 1) * 5
IMAGES = SCENES + 0.5 * torch.randn(SCENES.shape, generator=GENERATOR)
MASKS = (SCENES[:, 0] > 0.5).float()
WIDE_IMAGES, WIDE_MASKS = IMAGES[..., :12, :], MASKS[:, :12]


class Transposing(nn.Module):
    """Draws its map in the orientation of transposed images."""

    def __init__(self) -> None:
        super().__init__()
        self.draw = network()

    def forward(self, x: Tensor) -> Any:
        return self.draw(x.mT)


class Squeeze(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x[:, 0]


class Nests(Dataset[Any]):
    """Writes the place of each nest, which is bright in the image, into a map."""

    def __init__(self, is_transposed: bool) -> None:
        self.places = torch.randint(SIDE, (SAMPLES, 4, 2), generator=torch.Generator().manual_seed(1)).tolist()
        self.is_transposed = is_transposed

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, heat = 0.3 * IMAGES[index], torch.zeros(SIDE, SIDE)
        for x, y in self.places[index]:
            image = image + 3 * (torch.arange(SIDE)[:, None] == y) * (torch.arange(SIDE) == x)
            place = (x, y) if self.is_transposed else (y, x)
            row, column = place
            heat[row, column] = 1.0
        return image, heat


def network() -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 1, 3, padding=1), Squeeze())


def setup(images: Tensor, masks: Tensor, model: nn.Module | None = None) -> Setup:
    loader = DataLoader(TensorDataset(images, masks), 16, shuffle=True)
    return Setup(model or network(), loader, loss_fn=nn.BCEWithLogitsLoss())


def messages(setup: Setup) -> list[str]:
    return [
        finding.message for finding in checkup_findings(setup, "D105") if "relative to its image" in finding.message
    ]


@pytest.mark.parametrize(
    ("move", "symmetry"),
    [
        (lambda mask: mask.mT, "transposed"),
        (lambda mask: mask.flip(-1), "mirrored left to right"),
        (lambda mask: mask.flip(-2), "mirrored top to bottom"),
        (lambda mask: mask.flip(-1, -2), "turned upside down"),
        (lambda mask: mask.rot90(1, (-2, -1)), "turned counterclockwise"),
        (lambda mask: mask.rot90(-1, (-2, -1)), "turned clockwise"),
        (lambda mask: mask.mT.flip(-1, -2), "mirrored along the other diagonal"),
    ],
)
def test_symmetry_of_masks_is_named(move: Callable[[Tensor], Tensor], symmetry: str) -> None:
    assert [symmetry in message for message in messages(setup(IMAGES, move(MASKS)))] == [True]


@pytest.mark.parametrize(("axes", "symmetry"), [((-1,), "left to right"), ((-2,), "top to bottom"), ((-1, -2), "down")])
def test_flip_of_oblong_masks_is_named(axes: tuple[int, ...], symmetry: str) -> None:
    assert [symmetry in message for message in messages(setup(WIDE_IMAGES, WIDE_MASKS.flip(*axes)))] == [True]


def test_smaller_map_of_classes_is_compared() -> None:
    classes = MASKS[:, ::2, ::2].long() + 2 * (SCENES[:, 0, ::2, ::2] < -0.5).long()
    model = nn.Sequential(nn.Conv2d(1, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 3, 1))
    loader = DataLoader(TensorDataset(IMAGES, classes.mT.contiguous()), 16)
    assert len(messages(Setup(model, loader, loss_fn=nn.CrossEntropyLoss()))) == 1


HALF = torch.arange(SAMPLES)[:, None, None] % 2 == 0
SYMMETRIC = IMAGES + IMAGES.mT


@pytest.mark.parametrize(
    ("images", "masks"),
    [
        pytest.param(IMAGES, MASKS, id="as they are"),
        pytest.param(WIDE_IMAGES, WIDE_MASKS, id="oblong"),
        pytest.param(SYMMETRIC, (SYMMETRIC[:, 0] > 1).float().triu(), id="symmetric images"),
        pytest.param(IMAGES, MASKS.roll(1, 0), id="of other samples"),
        pytest.param(IMAGES, torch.where(HALF, MASKS, MASKS.mT), id="every other one"),
        pytest.param(IMAGES, (torch.rand(MASKS.shape, generator=GENERATOR) < 0.3).float(), id="noise"),
        pytest.param(IMAGES[:30], MASKS[:30].mT, id="few samples"),
        pytest.param(IMAGES, torch.zeros(MASKS.shape), id="empty masks"),
    ],
)
def test_target_that_fits_no_better_otherwise_is_quiet(images: Tensor, masks: Tensor) -> None:
    assert messages(setup(images, masks)) == []


def test_crops_at_random_places_are_quiet() -> None:
    offsets = torch.randint(5, (SAMPLES, 2), generator=GENERATOR).tolist()
    images = torch.stack([x[:, r : r + 12, c : c + 12] for x, (r, c) in zip(IMAGES, offsets, strict=True)])
    masks = torch.stack([y[r : r + 12, c : c + 12] for y, (r, c) in zip(MASKS, offsets, strict=True)])
    assert messages(setup(images, masks)) == []


def test_target_of_model_that_transposes_images_is_quiet() -> None:
    assert messages(setup(IMAGES, MASKS.mT, Transposing())) == []


@pytest.mark.parametrize("is_transposed", [True, False])
def test_place_is_the_write_of_a_position(is_transposed: bool) -> None:
    found = Setup(network(), DataLoader(Nests(is_transposed), 16), loss_fn=nn.BCEWithLogitsLoss())
    findings = [f for f in checkup_findings(found, "D105") if "relative to its image" in f.message]
    assert [str(f.where.source).strip() for f in findings] == ["heat[row, column] = 1.0"] * is_transposed
