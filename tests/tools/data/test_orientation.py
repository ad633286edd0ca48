"""Tests of images that are turned in one split."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from nbdebug.tools.data.orientation import compare_orientation

from .setups import digits, profile_of_inputs

Split = tuple[Tensor, Tensor]


def noise(seed: int, rows: int = 300) -> Split:
    """Noise of two classes."""
    return torch.randn(rows, 3, 12, 12, generator=torch.Generator().manual_seed(seed)), torch.arange(rows) % 2


def textures(seed: int, rows: int = 300) -> Split:
    """Noise of two classes, smoothed along the rows or the columns, without a mean image."""
    x, y = noise(seed, rows)
    smooth = (x + x.roll(1, -1), x + x.roll(1, -2))
    return torch.where(y[:, None, None, None] == 0, *smooth), y


def rotate(x: Tensor) -> Tensor:
    return torch.rot90(x, 1, (2, 3))


def transpose(x: Tensor) -> Tensor:
    return x.transpose(2, 3).contiguous()


@pytest.mark.parametrize(
    ("splits", "turn", "expected"),
    [
        (digits(), rotate, "rotated by 90° counterclockwise"),
        (digits(), transpose, "transposed"),
        ((textures(0), textures(1)), rotate, "transposed or rotated by 90°"),
        ((textures(0), textures(1)), transpose, "transposed or rotated by 90°"),
    ],
    ids=["rotated digits", "transposed digits", "rotated textures", "transposed textures"],
)
def test_turn_is_recognized(splits: tuple[Split, Split], turn: Callable[[Tensor], Tensor], expected: str) -> None:
    (x, y), (other, labels) = splits
    turned = compare_orientation(x, turn(other), (y, labels))
    as_it_is = compare_orientation(x, other, (y, labels))
    assert turned is not None
    assert as_it_is is not None
    assert (turned.turn, as_it_is.turn) == (expected, "")
    assert "transposed" in as_it_is.recognizable


@pytest.mark.parametrize(
    ("splits", "change", "verdict"),
    [
        (textures, lambda x: x, "no fault"),
        (textures, transpose, "fault"),
        (noise, transpose, "not decidable"),
    ],
    ids=["equal", "transposed", "without lines"],
)
def test_check_states_what_it_would_have_shown(
    splits: Callable[[int], Split], change: Callable[[Tensor], Tensor], verdict: str
) -> None:
    train, (x, y) = splits(0), splits(1)
    profile = profile_of_inputs(train, (change(x), y))
    (check,) = [check for check in profile.checks if check.name.startswith("orientation")]
    assert check.verdict == verdict
    assert check.power
    assert bool(profile.drift.comparisons[0].mismatches) == (verdict == "fault")
