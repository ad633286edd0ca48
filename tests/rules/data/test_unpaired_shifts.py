"""Tests of D105 on images and targets that are shifted or cropped by different random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

SIDE, WINDOW = 28, 20
GENERATOR = torch.Generator().manual_seed(0)
CENTERS = 8 + 12 * torch.rand(30, 2, generator=GENERATOR)
ROWS, COLUMNS = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")
MASKS = torch.stack([((ROWS - r) ** 2 + 3 * (COLUMNS - c) ** 2 < 18).float() for r, c in CENTERS])[:, None]
HEATMAPS = torch.stack([torch.exp(-((ROWS - r) ** 2 + (COLUMNS - c) ** 2) / 18) for r, c in CENTERS])[:, None]
IMAGES = F.avg_pool2d(torch.randn(30, 1, SIDE + 2, SIDE + 2, generator=GENERATOR), 3, 1) + 2 * MASKS
BACKGROUND = F.avg_pool2d(torch.randn(1, SIDE + 2, SIDE + 2, generator=GENERATOR), 3, 1)
Read = Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]


class Scenes(Dataset[Any]):
    """Reads an image and its target by a function of both."""

    def __init__(self, read: Read, targets: Tensor) -> None:
        self.read, self.targets = read, targets

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image, target = self.read(IMAGES[index], self.targets[index])
        return image, target


def offsets() -> tuple[int, int]:
    row, column = torch.randint(SIDE - WINDOW + 1, (2,)).tolist()
    return row, column


def cropped(x: Tensor) -> Tensor:
    row, column = offsets()
    return x[..., row : row + WINDOW, column : column + WINDOW]


def rolled(x: Tensor) -> Tensor:
    return x.roll(tuple(torch.randint(-4, 5, (2,)).tolist()), (-2, -1))


def moved(x: Tensor) -> Tensor:
    """Shift a picture, and fill its border with zeros."""
    row, column = torch.randint(9, (2,)).tolist()
    return F.pad(x, (4, 4, 4, 4))[..., row : row + SIDE, column : column + SIDE]


def middle(x: Tensor) -> Tensor:
    return x[..., 4 : 4 + WINDOW, 4 : 4 + WINDOW]


def both(transform: Callable[[Tensor], Tensor], x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    image, target = transform(torch.cat([x, y])).chunk(2)
    return image, target


def noisy(x: Tensor) -> Tensor:
    return x + 0.1 * torch.randn(x.shape)


def brightened(x: Tensor) -> Tensor:
    return x * (0.7 + 0.6 * torch.rand(())) + 0.2 * torch.rand(())


def pasted(_: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Draw an object at a random place of a constant background."""
    mask = rolled(y)
    return BACKGROUND + 2 * mask, mask


def mirrored(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Crop both alike, then predict the mask in the coordinates of another instrument."""
    image, mask = both(cropped, x, y)
    return image, mask.flip(-1)


UNPAIRED: dict[str, Read] = {
    "crops": lambda x, y: (cropped(x), cropped(y)),
    "crops of the image alone": lambda x, y: (cropped(x), middle(y)),
    "crops of the target alone": lambda x, y: (middle(x), cropped(y)),
    "crops and new noise": lambda x, y: (noisy(cropped(x)), cropped(y)),
    "crops and brightness": lambda x, y: (brightened(cropped(x)), cropped(y)),
    "rolls": lambda x, y: (rolled(x), rolled(y)),
    "shifts filled with zeros": lambda x, y: (moved(x), moved(y)),
}
PAIRED: dict[str, Read] = {
    "as stored": lambda x, y: (x, y),
    "crops": lambda x, y: both(cropped, x, y),
    "crops, new noise": lambda x, y: both(cropped, noisy(x), y),
    "crops, brightness": lambda x, y: both(cropped, brightened(x), y),
    "rolls": lambda x, y: both(rolled, x, y),
    "shifts filled with zeros": lambda x, y: both(moved, x, y),
    "an object on a constant background": pasted,
    "an object on a constant, noisy background": lambda x, y: (noisy(pasted(x, y)[0]), y),
    "crops, other coordinates": mirrored,
}


def build(read: Read, targets: Tensor, loss_fn: Any) -> Setup:
    return Setup(nn.Conv2d(1, 1, 3, padding=1), DataLoader(Scenes(read, targets), 8, shuffle=True), loss_fn=loss_fn)


def shift_messages(setup: Setup) -> list[str]:
    return [f.message for f in checkup_findings(setup, "D105") if "shifted or cropped differently" in f.message]


@pytest.mark.parametrize("targets", [MASKS, HEATMAPS], ids=["masks", "heatmaps"])
@pytest.mark.parametrize("name", UNPAIRED)
def test_labels_unrelated_of_unpaired_shifts_is_error(name: str, targets: Tensor) -> None:
    (finding,) = checkup_findings(build(UNPAIRED[name], targets, nn.BCEWithLogitsLoss()), "D105")
    assert finding.severity == "error"
    assert "shifted or cropped differently" in finding.message


@pytest.mark.parametrize("targets", [MASKS, HEATMAPS], ids=["masks", "heatmaps"])
@pytest.mark.parametrize("name", PAIRED)
def test_labels_unrelated_of_paired_shifts_is_quiet(name: str, targets: Tensor) -> None:
    assert shift_messages(build(PAIRED[name], targets, nn.BCEWithLogitsLoss())) == []


def test_labels_unrelated_of_two_views_for_a_loss_of_pairs_is_quiet() -> None:
    def contrast(output: Tensor, other: Tensor) -> Tensor:
        return -F.cosine_similarity(output.flatten(1), other.flatten(1)).mean()

    assert shift_messages(build(lambda x, _: (cropped(x), cropped(x)), MASKS, contrast)) == []
