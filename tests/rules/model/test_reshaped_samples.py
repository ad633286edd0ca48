"""Tests of M309 on data: samples whose axes a dataset or a collate function exchanges by a reshape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_faults

RANDOM = np.random.default_rng(0)
PHOTOS = RANDOM.normal(size=(96, 9, 9, 3)).astype(np.float32)
SERIES = torch.randn(96, 12, 5, generator=torch.Generator().manual_seed(0))
LABELS = [k % 3 for k in range(96)]
Collate = Callable[[list[Any]], Any]


class Photos(Dataset[Any]):
    """Stored photographs, each passed through a function when it is read."""

    def __init__(self, change: Callable[[Any], Any]) -> None:
        self.photos, self.change = PHOTOS, change

    def __len__(self) -> int:
        return len(self.photos)

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return self.change(self.photos[index]), LABELS[index]


class Convolutional(nn.Module):
    """A convolution over images or series, after a function of the input."""

    def __init__(self, layer: nn.Module, before: Callable[[Tensor], Tensor] = nn.Identity()) -> None:  # noqa: B008
        super().__init__()
        self.layer, self.before, self.head = layer, before, nn.LazyLinear(3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(self.before(x)).relu().flatten(2).mean(2))


class Recurrent(nn.Module):
    """A GRU over series, the steps first."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.GRU(5, 8), nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.body(x)[1][0])


def setup_of(model: nn.Module, data: Any, collate: Collate | None = None) -> Setup:
    loader = DataLoader(data, batch_size=16, shuffle=True, collate_fn=collate)
    x = next(iter(loader))[0]
    model(x)
    return Setup(model, loader, loss_fn=nn.CrossEntropyLoss())


def images() -> nn.Module:
    return Convolutional(nn.Conv2d(3, 8, 3))


def photo_rows() -> list[Any]:
    return list(zip(PHOTOS, LABELS, strict=True))


def series_rows() -> list[Any]:
    return list(zip(SERIES, LABELS, strict=True))


def _labels(rows: list[Any]) -> Tensor:
    return torch.tensor([label for _, label in rows])


def _stacked(rows: list[Any]) -> Tensor:
    return torch.stack([torch.as_tensor(x) for x, _ in rows])


def batches(change: Callable[[Tensor], Tensor]) -> Collate:
    return lambda rows: (change(_stacked(rows)), _labels(rows))


def reshaped_array(rows: list[Any]) -> tuple[Tensor, Tensor]:
    photos = np.stack([photo for photo, _ in rows])
    return torch.from_numpy(photos.reshape(-1, 3, 9, 9)), _labels(rows)


def scaled_view(rows: list[Any]) -> tuple[Tensor, Tensor]:
    photos = _stacked(rows)
    photos = photos.view(-1, 3, 9, 9)
    return 2 * photos - 1, _labels(rows)


MIXED: dict[str, tuple[Callable[[], Setup], str]] = {
    "an array": (lambda: setup_of(images(), photo_rows(), reshaped_array), "photos.reshape(-1, 3, 9, 9)"),
    "a scaled view": (lambda: setup_of(images(), photo_rows(), scaled_view), "photos.view(-1, 3, 9, 9)"),
    "series": (
        lambda: setup_of(Convolutional(nn.Conv1d(5, 8, 3)), series_rows(), batches(lambda x: x.reshape(len(x), 5, 12))),
        "reshape(len(x), 5, 12)",
    ),
    "steps first": (
        lambda: setup_of(Recurrent(), series_rows(), batches(lambda x: x.view(12, -1, 5))),
        "x.view(12, -1, 5)",
    ),
    "the dataset": (lambda: setup_of(images(), Photos(lambda photo: photo.reshape(3, 9, 9))), "__getitem__"),
}
ORDERED: dict[str, Callable[[], Setup]] = {
    "permuted": lambda: setup_of(images(), photo_rows(), batches(lambda x: x.permute(0, 3, 1, 2).contiguous())),
    "moved by the dataset": lambda: setup_of(images(), Photos(lambda photo: np.moveaxis(photo, -1, 0).copy())),
    "steps first": lambda: setup_of(Recurrent(), series_rows(), batches(lambda x: x.transpose(0, 1).contiguous())),
    "read in a row": lambda: setup_of(
        nn.Sequential(nn.Flatten(), nn.Linear(243, 3)), photo_rows(), batches(lambda x: x.reshape(-1, 3, 9, 9))
    ),
    "restored by the model": lambda: setup_of(
        Convolutional(nn.Conv2d(3, 8, 3), lambda x: x.reshape(-1, 9, 9, 3).permute(0, 3, 1, 2)),
        photo_rows(),
        batches(lambda x: x.reshape(-1, 3, 9, 9)),
    ),
    "one channel": lambda: setup_of(
        Convolutional(nn.Conv2d(1, 8, 3)),
        [(photo[..., :1], label) for photo, label in photo_rows()],
        batches(lambda x: x.reshape(-1, 1, 9, 9)),
    ),
    "a stored row": lambda: setup_of(
        images(), [(photo.ravel(), label) for photo, label in photo_rows()], batches(lambda x: x.view(-1, 3, 9, 9))
    ),
}


@pytest.mark.parametrize("name", MIXED)
def test_scrambled_axes_of_reshaped_samples_names_the_line(name: str) -> None:
    build, source = MIXED[name]
    (finding,) = rule_faults(build(), "M309")
    assert "the values have the same order" in finding.message
    assert "permute(" in finding.fix or "transpose(" in finding.fix
    assert finding.where.source is not None
    assert source in finding.where.source


@pytest.mark.parametrize("name", ORDERED)
def test_scrambled_axes_of_samples_with_moved_axes_is_quiet(name: str) -> None:
    findings = rule_faults(ORDERED[name](), "M309")
    assert not any("samples of shape" in finding.message for finding in findings)
