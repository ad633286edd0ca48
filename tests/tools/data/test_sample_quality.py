"""Tests of images and series that stand out."""

from __future__ import annotations

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.tools.data.sample_quality import find_unusual_samples

from .setups import ListDataset, profile_of


def faults_of(x: Tensor) -> dict[str, tuple[int, ...]]:
    table = SplitTable("train", (x,), (torch.zeros(len(x)).long(),), range(len(x)), True)
    found = find_unusual_samples(table, ["x"])
    return {
        item.fault.split(":")[0].removeprefix("images are ").removeprefix("series are "): item.indices for item in found
    }


def images() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(120, 3, 24, 24, generator=generator) * torch.rand(120, 1, 1, 1, generator=generator).clamp(0.4)


def series() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.sin(torch.arange(128.0) * 0.3)[None, :, None] + 0.3 * torch.randn(120, 128, 2, generator=generator)


def test_healthy_images_and_series_do_not_stand_out() -> None:
    digits = torch.tensor(load_digits().images, dtype=torch.float32)[:, None]
    large = torch.nn.functional.interpolate(digits, scale_factor=3)
    assert [faults_of(x) for x in (images(), series(), series().clamp(min=0), digits, large)] == [{}] * 5


def test_dark_bright_and_cut_off_images_are_listed() -> None:
    x = images()
    x[3] *= 0.05
    x[4] = 0.97 + 0.03 * x[4]
    x[5, :, 18:] = 0.5
    text = profile_of(TensorDataset(x, torch.arange(120) % 2)).to_text()
    assert "1 of 120 images are nearly black, such as sample 3" in text
    assert "1 of 120 images are nearly white, such as sample 4" in text
    assert "1 of 120 images are cut off: the lowest fifth has one value, such as sample 5" in text


@pytest.mark.parametrize("is_time_last", [False, True])
def test_clipped_and_frozen_series_are_listed(is_time_last: bool) -> None:
    x = series()
    x[7, :, 0] = (3 * x[7, :, 0]).clamp(-4, 2.9)
    x[9, 40:80, 1] = 0.37
    x = x.clamp(max=2.9)
    found = faults_of(x.transpose(1, 2).contiguous() if is_time_last else x)
    assert found == {"clipped": (7,), "frozen": (9,)}


def test_faults_of_more_than_a_twentieth_are_how_the_data_are() -> None:
    x = series()
    x[:20, 40:80, 1] = 0.37
    assert faults_of(x) == {}


def test_unusual_samples_can_be_left_out() -> None:
    x = images()
    x[3] *= 0.05
    profile = profile_of(TensorDataset(x, torch.arange(120) % 2))
    assert profile.drop_list("train", ["unusual"]) == [3]


@pytest.mark.parametrize("is_padded", [False, True])
def test_images_of_another_size_are_listed_also_if_the_loader_pads_them(is_padded: bool) -> None:
    samples = [(image[:, : 20 if number == 7 else 24], number % 2) for number, image in enumerate(images())]

    def pad(items: list[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        padded = [torch.nn.functional.pad(x, (0, 0, 0, 24 - x.shape[1]), value=0.5) for x, _ in items]
        return torch.stack(padded), torch.tensor([y for _, y in items])

    options = {"collate_fn": pad} if is_padded else {}
    profile = profile_of(DataLoader(ListDataset(samples), 16, **options))
    assert "1 of 120 images have another size than 3×24×24, such as sample 7" in profile.to_text()
    assert profile.drop_list("train", ["unusual"]) == [7]


@pytest.mark.parametrize(
    ("heights", "verdict"),
    [([24] * 120, "no fault"), ([24] * 30, "not decidable"), ([24, 23, 22, 21] * 30, "not decidable")],
)
def test_images_that_cannot_be_compared_leave_the_check_undecided(heights: list[int], verdict: str) -> None:
    samples = [
        (image[:, :height], number % 2)
        for number, (image, height) in enumerate(zip(images()[: len(heights)], heights, strict=True))
    ]
    checks = {check.name: check for check in profile_of(ListDataset(samples)).checks}
    assert checks["training: unusual images or series"].verdict == verdict
