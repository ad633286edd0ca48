"""Tests of D104 with augmentations that shift the brightness of images of 8 bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from nbdebug.finding import Finding
from nbdebug.setup import Setup
from tests.rules.rule_findings import rule_findings

_SIDE = 10
_Image = NDArray[np.uint8]
_Shift = Callable[[_Image, int], _Image]
_Conversion = Callable[[_Image], Tensor]


def wrapped(image: _Image, shift: int) -> _Image:
    return image + np.array(shift).astype(np.uint8)  # the sum


def clipped(image: _Image, shift: int) -> _Image:
    return np.clip(image.astype(np.int16) + shift, 0, 255).astype(np.uint8)


def cast(image: _Image, shift: int) -> _Image:
    wide = image.astype(np.int16) + shift
    return wide.astype(np.uint8)  # the sum


def turned_hue(image: _Image, shift: int) -> _Image:
    turned = image.copy()
    turned[0] += np.array(shift).astype(np.uint8)
    return turned


def unchanged(image: _Image, shift: int) -> _Image:
    return image


def fraction(image: _Image) -> Tensor:
    return torch.from_numpy(image.astype(np.float32)) / 255


def standardized(image: _Image) -> Tensor:
    return (torch.from_numpy(image.astype(np.float32)) - 117.3) / 61.7


class Pictures(Dataset[Any]):
    """Color images with a bright and a dark part, whose brightness changes at random."""

    def __init__(self, shift: _Shift, convert: _Conversion, low: int = 15, high: int = 240) -> None:
        generator = np.random.default_rng(0)
        self.images = generator.integers(low, high, (80, 3, _SIDE, _SIDE)).astype(np.uint8)
        self.shift, self.convert = shift, convert

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        return self.convert(self.shift(self.images[index], int(np.random.randint(-50, 51)))), index % 2


def wrapped_findings(shift: _Shift, convert: _Conversion, **bounds: int) -> list[Finding]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(3 * _SIDE**2, 2))
    loader = DataLoader(Pictures(shift, convert, **bounds), 16, shuffle=True)
    findings = rule_findings(Setup(model, loader, loss_fn=nn.CrossEntropyLoss()), "D104")
    return [finding for finding in findings if finding.aspect == "wrapped"]


@pytest.mark.parametrize("convert", [fraction, standardized])
@pytest.mark.parametrize("shift", [wrapped, cast])
def test_sums_beyond_8_bits_are_reported_at_their_line(shift: _Shift, convert: _Conversion) -> None:
    (finding,) = wrapped_findings(shift, convert)
    assert finding.severity == "warning"
    assert finding.where is not None
    assert finding.where.source is not None
    assert "# the sum" in finding.where.source
    assert "256 gray levels" in finding.message


@pytest.mark.parametrize("convert", [fraction, standardized])
@pytest.mark.parametrize(
    ("shift", "bounds"),
    [(clipped, {}), (turned_hue, {}), (unchanged, {}), (wrapped, {"low": 60, "high": 190})],
    ids=["clipped", "hue", "unchanged", "within the range"],
)
def test_shifts_that_stay_in_the_range_are_quiet(shift: _Shift, bounds: dict[str, int], convert: _Conversion) -> None:
    assert wrapped_findings(shift, convert, **bounds) == []
