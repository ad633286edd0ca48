"""Tests of D111 for masks that were resized with an interpolation, and for masks with thin classes or levels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy import ndimage
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, TensorDataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults, rule_findings

SIDE = 48
ROWS, COLUMNS = torch.meshgrid(torch.arange(SIDE), torch.arange(SIDE), indexing="ij")


def disks(classes: int, count: int = 30) -> Tensor:
    """Masks with disks of random classes on a background of class 0."""
    generator = torch.Generator().manual_seed(0)
    masks = torch.zeros(count, SIDE, SIDE, dtype=torch.long)
    for mask in masks:
        for _ in range(4):
            row, column = (torch.rand(2, generator=generator) * SIDE).tolist()
            radius = 5 + 6 * float(torch.rand(1, generator=generator))
            is_inside = (ROWS - row) ** 2 + (COLUMNS - column) ** 2 < radius**2
            mask[is_inside] = int(torch.randint(1, classes, (1,), generator=generator))
    return masks


def cells(classes: int, count: int = 30) -> Tensor:
    """Masks that consist of cells of random classes."""
    generator = torch.Generator().manual_seed(1)
    masks = []
    for _ in range(count):
        centers = torch.rand(8, 2, generator=generator) * SIDE
        distances = (ROWS[..., None] - centers[:, 0]) ** 2 + (COLUMNS[..., None] - centers[:, 1]) ** 2
        masks.append(torch.randint(0, classes, (8,), generator=generator)[distances.argmin(-1)])
    return torch.stack(masks)


def resized(masks: Tensor, side: int, mode: str = "bilinear", **options: bool) -> Tensor:
    """The masks in another size, as rounded class numbers."""
    scaled = F.interpolate(masks[:, None].float(), (side, side), mode=mode, **options)[:, 0]
    return scaled.round().long().clamp(0, int(masks.max()))


def with_borders() -> Tensor:
    """Objects of class 2 whose border, and nothing else, is class 1."""
    masks = (disks(2) > 0).float()[:, None]
    eroded = -F.max_pool2d(-masks, 3, 1, 1)
    return (masks + eroded)[:, 0].long()


def levels(width: float, steepness: float, count: int = 30) -> Tensor:
    """Four bins of a smooth field."""
    field = torch.randn(count, 1, SIDE, SIDE, generator=torch.Generator().manual_seed(2))
    weights = torch.exp(-(torch.arange(-15.0, 16.0) ** 2) / (2 * width**2))
    padded = F.pad(field, (15, 15, 15, 15), mode="circular")
    smooth = F.conv2d(F.conv2d(padded, weights.view(1, 1, 1, -1)), weights.view(1, 1, -1, 1))[:, 0]
    return (torch.sigmoid(steepness * smooth / smooth.std()) * 4).long().clamp(0, 3)


def mask_setup(masks: Tensor, **options: Any) -> Setup:
    classes = max(int(masks.max()) + 1, 2)
    images = F.one_hot(masks.clamp(min=0), classes).movedim(-1, 1).float()
    images += 0.2 * torch.randn(images.shape, generator=torch.Generator().manual_seed(3))
    loader = DataLoader(TensorDataset(images, masks), 8)
    return Setup(nn.Conv2d(classes, classes, 3, padding=1), loader, loss_fn=nn.CrossEntropyLoss(**options))


INTERPOLATED = {
    "enlarged": resized(disks(4), 96),
    "enlarged by a third": resized(disks(4), 64),
    "halved": resized(disks(4), 24),
    "two fifths of the size, cut off": F.interpolate(disks(4)[:, None].float(), 20, mode="bilinear")[:, 0].long(),
    "halved with smoothing": resized(disks(4), 24, antialias=True),
    "cells": resized(cells(5), 96),
    "aligned corners": resized(disks(4), 96, align_corners=True),
    "bicubic": resized(disks(4), 96, mode="bicubic"),
    "three classes": resized(disks(3), 96),
    "many classes": resized(disks(20), 96),
}


@pytest.mark.parametrize("masks", INTERPOLATED.values(), ids=INTERPOLATED.keys())
def test_masks_that_were_interpolated_are_reported(masks: Tensor) -> None:
    (finding,) = rule_faults(mask_setup(masks), "D111")
    assert finding.severity == "warning"
    first, *between, last = finding.evidence["classes"]
    assert between
    assert all(first < number < last for number in between)
    assert f"{finding.evidence['transitions']:,} transitions" in finding.message
    assert "nearest" in finding.fix


SOUND = {
    "as drawn": disks(4),
    "nearest pixels": resized(disks(4), 96, mode="nearest-exact"),
    "halved by nearest pixels": resized(disks(4), 24, mode="nearest"),
    "cells by nearest pixels": resized(cells(5), 96, mode="nearest"),
    "a class of borders": with_borders(),
    "wide levels": levels(8.0, 1.0),
    "levels": levels(6.0, 2.0),
    "levels with plateaus": levels(6.0, 4.0),
    "two classes": resized(disks(2), 96),
}


@pytest.mark.parametrize("masks", SOUND.values(), ids=SOUND.keys())
def test_sound_masks_are_quiet(masks: Tensor) -> None:
    assert [item for item in rule_faults(mask_setup(masks), "D111") if "Thin lines" in item.message] == []


def test_an_ignored_border_between_regions_is_quiet() -> None:
    masks = disks(4)
    is_edge = F.max_pool2d(masks[:, None].float(), 3, 1, 1)[:, 0] > masks
    assert rule_faults(mask_setup(masks.masked_fill(is_edge, 255), ignore_index=255), "D111") == []


class Scenes(Dataset[Any]):
    """Images and masks in half the size."""

    def __init__(self, mode: str) -> None:
        self.masks, self.mode = disks(4), mode

    def __len__(self) -> int:
        return len(self.masks)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        image = F.one_hot(self.masks[index], 4).movedim(-1, 0).float()
        mask = resized(self.masks[index][None], 32, self.mode)[0]
        return F.interpolate(image[None], (32, 32), mode="bilinear")[0], mask


@pytest.mark.parametrize(("mode", "count"), [("bilinear", 1), ("nearest-exact", 0)])
def test_masks_of_a_dataset_are_read(mode: str, count: int) -> None:
    setup = Setup(nn.Conv2d(4, 4, 3, padding=1), DataLoader(Scenes(mode), 8), loss_fn=nn.CrossEntropyLoss())
    findings = rule_findings(setup, "D111")
    assert len(findings) == count
    assert all("test_interpolated_masks.py" in str(finding.where) for finding in findings)


THIN = disks(3)
for _mask in THIN:  # a thin line of class 2 through each mask
    _mask[20:23] = 2


def slopes(steepness: float) -> Tensor:
    """Bins of a depth that rises, with a step."""
    depth = steepness * torch.linspace(0.5, 1.0, 30)[:, None, None] * (ROWS + COLUMNS) / 3
    return (depth + 6 * (ROWS > 25)).long()


class ThinLines(Dataset[Any]):
    """Masks that a function resizes or moves when they are read, with images of the same size."""

    def __init__(self, change: Callable[[Tensor], Tensor], masks: Tensor = THIN) -> None:
        self.masks, self.change = masks, change

    def __len__(self) -> int:
        return len(self.masks)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        mask = self.change(self.masks[index])
        return torch.randn(3, *mask.shape), mask


def halved(mode: str, rounded: Callable[[Tensor], Tensor] = torch.round) -> Callable[[Tensor], Tensor]:
    def change(mask: Tensor) -> Tensor:
        return rounded(F.interpolate(mask[None, None].float(), scale_factor=0.5, mode=mode)[0, 0]).long()

    return change


def warped(mode: str) -> Callable[[Tensor], Tensor]:
    turn = torch.tensor([[[0.9, 0.3, 0.0], [-0.3, 0.9, 0.0]]])

    def change(mask: Tensor) -> Tensor:
        grid = F.affine_grid(turn, [1, 1, SIDE, SIDE], align_corners=False)
        return F.grid_sample(mask[None, None].float(), grid, mode=mode, align_corners=False)[0, 0].round().long()

    return change


def zoomed(order: int) -> Callable[[Tensor], Tensor]:
    return lambda mask: torch.from_numpy(ndimage.zoom(mask.numpy(), 0.5, order=order)).clamp(0, 2)


def turned(order: int) -> Callable[[Tensor], Tensor]:
    def change(mask: Tensor) -> Tensor:
        values = ndimage.rotate(mask.numpy().astype(float), 17.0, reshape=False, order=order)
        return torch.from_numpy(values.round()).long()

    return change


def read_setup(data: ThinLines) -> Setup:
    return Setup(nn.Conv2d(3, 4, 3, padding=1), DataLoader(data, 8), loss_fn=nn.CrossEntropyLoss())


CHANGED = {
    "halved": (halved("bilinear"), "F.interpolate("),
    "halved, cut off": (halved("bilinear", torch.floor), "F.interpolate("),
    "bicubic": (halved("bicubic"), "F.interpolate("),
    "warped": (warped("bilinear"), "F.grid_sample("),
    "zoom": (zoomed(1), "ndimage.zoom("),
    "rotated": (turned(1), "ndimage.rotate("),
}


@pytest.mark.parametrize("name", CHANGED)
def test_masks_of_thin_regions_that_a_read_interpolates_are_reported_at_the_call(name: str) -> None:
    change, source = CHANGED[name]
    zoom = ndimage.zoom
    (finding,) = rule_faults(read_setup(ThinLines(change)), "D111")
    assert finding.where is not None
    assert source in (finding.where.source or "")
    assert (finding.evidence["class"], finding.evidence["between"]) == (1, [0, 2])
    assert ndimage.zoom is zoom


UNCHANGED = {
    "as drawn": ThinLines(lambda mask: mask),
    "every other pixel": ThinLines(lambda mask: mask[::2, ::2]),
    "nearest": ThinLines(halved("nearest")),
    "warped to the nearest": ThinLines(warped("nearest")),
    "zoom of order 0": ThinLines(zoomed(0)),
    "rotated with order 0": ThinLines(turned(0)),
    "two classes": ThinLines(halved("bilinear"), (THIN > 0).long()),
    "neighboring classes": ThinLines(halved("bilinear"), with_borders()),
    "levels": ThinLines(halved("bilinear"), levels(8.0, 1.0)),
    "many levels": ThinLines(halved("bilinear"), slopes(3.0)),
    "levels with steps": ThinLines(halved("bilinear"), slopes(0.4)),
    "an interpolated map beside the mask": ThinLines(lambda mask: (halved("bilinear")(mask), mask[::2, ::2])[1]),
}


@pytest.mark.parametrize("data", UNCHANGED.values(), ids=UNCHANGED.keys())
def test_masks_of_thin_regions_without_new_classes_are_quiet(data: ThinLines) -> None:
    assert rule_faults(read_setup(data), "D111") == []
