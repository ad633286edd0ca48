"""Tests of D105 on images and targets that are flipped or rotated by different random numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import checkup_findings

GENERATOR = torch.Generator().manual_seed(0)
CENTERS = 2 + 6 * torch.rand(40, 2, generator=GENERATOR)
ROWS, COLUMNS = torch.meshgrid(torch.arange(12), torch.arange(12), indexing="ij")
MASKS = torch.stack([((ROWS - r) ** 2 + 3 * (COLUMNS - c) ** 2 < 7).float() for r, c in CENTERS])
IMAGES = MASKS + 0.3 * torch.randn(MASKS.shape, generator=GENERATOR)


class Scenes(Dataset[Any]):
    """Reads an image and its mask by a function of both."""

    def __init__(self, read: Callable[[Tensor, Tensor], tuple[Any, Any]]) -> None:
        self.read = read

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self.read(IMAGES[index][None], MASKS[index][None])


def flipped(x: Tensor) -> Tensor:
    return x.flip(-1) if torch.rand(()) < 0.5 else x


def turned(x: Tensor) -> Tensor:
    return x.rot90(int(torch.randint(4, ())), (-2, -1))


def turned_by_numpy(x: Tensor, y: Tensor) -> tuple[Any, Any]:
    return tuple(np.rot90(part.numpy(), np.random.randint(4), (1, 2)).copy() for part in (x, y))  # type: ignore[return-value]


def both_turned(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    image, mask = turned(torch.cat([x, y])).chunk(2)
    return image, mask


def noisy(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return both_turned(x + 0.1 * torch.randn(x.shape), y)


def upside_down(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Predict the mask in other coordinates, always the same."""
    return x, y.flip(-2)


def turned_in_other_coordinates(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Augment both alike, then predict the mask in the coordinates of another instrument."""
    image, mask = both_turned(x, y)
    return image, mask.flip(-1)


def build(read: Callable[[Tensor, Tensor], tuple[Any, Any]]) -> Setup:
    model = nn.Conv2d(1, 1, 3, padding=1)
    return Setup(model, DataLoader(Scenes(read), 8, shuffle=True), loss_fn=nn.BCEWithLogitsLoss())


def cropped(read: Callable[[Tensor, Tensor], tuple[Any, Any]]) -> Callable[[Tensor, Tensor], tuple[Any, Any]]:
    return lambda x, y: read(x[..., :9], y[..., :9])


UNPAIRED: dict[str, Callable[[Tensor, Tensor], tuple[Any, Any]]] = {
    "flips": lambda x, y: (flipped(x), flipped(y)),
    "turns of both": lambda x, y: (turned(x), turned(y)),
    "only the image": lambda x, y: (flipped(x), y),
    "arrays": turned_by_numpy,
    "not square": cropped(lambda x, y: (flipped(x), flipped(y))),
}
PAIRED: dict[str, Callable[[Tensor, Tensor], tuple[Any, Any]]] = {
    "as stored": lambda x, y: (x, y),
    "both turned": both_turned,
    "both turned, new noise": noisy,
    "another orientation": upside_down,
    "not square": cropped(lambda x, y: tuple(flipped(torch.cat([x, y])).chunk(2))),  # type: ignore[arg-type, return-value]
    "both turned, another orientation": turned_in_other_coordinates,
}


@pytest.mark.parametrize("name", UNPAIRED)
def test_labels_unrelated_of_unpaired_transforms_is_error(name: str) -> None:
    (finding,) = checkup_findings(build(UNPAIRED[name]), "D105")
    assert finding.severity == "error"
    assert "flipped or rotated differently" in finding.message
    source = finding.where.source or ""
    assert any(text in source for text in ("flipped(", "turned(x)", "np.rot90", "read(x"))


@pytest.mark.parametrize("name", PAIRED)
def test_labels_unrelated_of_paired_transforms_is_quiet(name: str) -> None:
    messages = [finding.message for finding in checkup_findings(build(PAIRED[name]), "D105")]
    assert not any("rotated differently" in message for message in messages)


class Augmented(Dataset[Any]):
    """Passes the stored pair to an augmentation, if there is one."""

    def __init__(self, augmentation: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]] | None = None) -> None:
        self.augmentation = augmentation

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        pair = IMAGES[index][None], MASKS[index][None]
        return self.augmentation(*pair) if self.augmentation else pair


def turn_each(picture: Tensor, area: Tensor) -> tuple[Tensor, Tensor]:
    return turned(picture), turned(area)


def test_labels_unrelated_of_an_optional_augmentation_names_its_line() -> None:
    loader = DataLoader(Augmented(turn_each), 8, shuffle=True)
    setup = Setup(nn.Conv2d(1, 1, 3, padding=1), loader, loss_fn=nn.BCEWithLogitsLoss())
    (finding,) = checkup_findings(setup, "D105")
    assert (finding.where.source or "").strip() == "return turned(picture), turned(area)"
