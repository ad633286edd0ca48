"""Tests of images of all layouts and normalizations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images
from torch.utils.data import ConcatDataset, Dataset, Subset

from nbdebug.sample_display import SampleDisplay
from nbdebug.sample_display.image_normalization import COMMON_NORMALIZATIONS
from tests.sample_display.image_decoding import decode_pixels

CHINA, FLOWER = (image[100:132, 200:240] for image in load_sample_images().images)
COLORS = np.stack([CHINA, FLOWER, CHINA[::-1], FLOWER[::-1]])  # 4 × 32 × 40 × 3
GRAY = COLORS[..., 1]
DIGITS = load_digits().data


class NormalizeTransform:
    """Has the attributes of the Normalize transform of torchvision."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.mean, self.std = mean, std

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        return (image - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]


class ComposedTransform:
    def __init__(self, *transforms: object) -> None:
        self.transforms = transforms

    def __call__(self, image: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            image = transform(image)  # type: ignore[operator]
        return image


class PhotoDataset(Dataset):
    def __init__(self, transform: object) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return len(COLORS)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.transform(torch.tensor(COLORS[index]).permute(2, 0, 1) / 255), index  # type: ignore[operator]


def is_close(actual: np.ndarray, expected: np.ndarray, tolerance: int = 1) -> bool:
    return actual.shape == expected.shape and int(np.abs(actual.astype(int) - expected.astype(int)).max()) <= tolerance


COLOR_LAYOUTS = {
    "H×W×C bytes": COLORS,
    "C×H×W bytes": COLORS.transpose(0, 3, 1, 2),
    "C×H×W from 0 to 1": torch.tensor(COLORS).permute(0, 3, 1, 2) / 255,
    "H×W×C from 0 to 1": COLORS / 255,
    "C×H×W from 0 to 255": COLORS.transpose(0, 3, 1, 2).astype(np.float64),
    "half precision": (torch.tensor(COLORS).permute(0, 3, 1, 2) / 255).half(),
    "with gradients": (torch.tensor(COLORS).permute(0, 3, 1, 2) / 255).requires_grad_(),
    "one more axis": torch.tensor(COLORS).permute(0, 3, 1, 2)[:, None] / 255,
    "int64": COLORS.astype(np.int64),
    "PIL": [Image.fromarray(image) for image in COLORS],
    "PIL with a label": [(Image.fromarray(image), 3) for image in COLORS],
    "palette": [Image.fromarray(image).quantize(256) for image in COLORS],
}


@pytest.mark.parametrize("layout", COLOR_LAYOUTS)
def test_color_image_of_any_layout_keeps_its_pixels(layout: str) -> None:
    samples = SampleDisplay(COLOR_LAYOUTS[layout])
    for index, expected in enumerate(COLORS):
        assert is_close(decode_pixels(samples.show(index)), expected, 40 if layout == "palette" else 1), layout


@pytest.mark.parametrize(
    "values",
    [GRAY, GRAY[:, None], GRAY[..., None], GRAY.astype(np.float32) / 255, GRAY.astype(np.uint16)],
    ids=["H×W", "C×H×W", "H×W×C", "float32", "uint16"],
)
def test_gray_image_of_any_layout_keeps_its_pixels(values: np.ndarray) -> None:
    assert is_close(decode_pixels(SampleDisplay(values).show(1)), GRAY[1], 1)


def test_boolean_mask_and_label_map_are_scaled_to_full_range() -> None:
    mask = GRAY > 100
    assert is_close(decode_pixels(SampleDisplay(mask).show(0)), mask[0] * np.uint8(255))
    labels = (GRAY // 100).astype(np.int64)  # 0, 1, 2
    assert is_close(decode_pixels(SampleDisplay(labels).show(0)), (labels[0] * 255 // 2).astype(np.uint8))


def test_sixteen_bit_image_is_scaled_by_maximum_of_data() -> None:
    values = GRAY.astype(np.uint16) * 16
    pixels = decode_pixels(SampleDisplay(values).show(0))
    assert is_close(pixels, (values[0] * 255.0 / values.max()).astype(np.uint8))


def test_four_channel_image_keeps_opacity_or_is_tiled() -> None:
    rgba = np.concatenate([COLORS, np.full_like(COLORS[..., :1], 255)], -1)
    rgba[:, :4, :, 3] = 0
    pixels = decode_pixels(SampleDisplay(rgba).show(0))
    assert pixels.shape == (32, 40, 4)
    assert (pixels[:3, :, 3] < 20).all()
    assert (pixels[8:, :, 3] == 255).all()
    bands = np.concatenate([COLORS, COLORS[..., :1] // 2], -1)
    assert decode_pixels(SampleDisplay(bands).show(0)).shape == (64, 80)


def test_many_channels_and_video_frames_are_tiled() -> None:
    bands = np.repeat(GRAY[:, None], 12, 1)
    samples = SampleDisplay(bands)
    assert np.abs(decode_pixels(samples.show(2)) - np.tile(GRAY[2], (2, 2)).astype(float)).mean() < 6
    assert decode_pixels(samples.show(2, full=True)).shape == (3 * 32, 4 * 40)
    videos = np.repeat(COLORS.transpose(0, 3, 1, 2)[:, None] / 255, 9, 1)
    assert decode_pixels(SampleDisplay(videos).show(0, full=True)).shape == (3 * 32, 3 * 40)


@pytest.mark.parametrize("name", COMMON_NORMALIZATIONS)
def test_common_normalization_is_undone(name: str) -> None:
    mean, std = (np.array(statistics) for statistics in COMMON_NORMALIZATIONS[name])
    values = ((COLORS if len(mean) == 3 else GRAY[..., None]) / 255 - mean) / std
    pixels = decode_pixels(SampleDisplay(values.transpose(0, 3, 1, 2).astype(np.float32)).show(0))
    assert is_close(pixels, COLORS[0] if len(mean) == 3 else GRAY[0])


DATASET_WRAPPERS = [
    PhotoDataset,
    lambda t: Subset(PhotoDataset(t), range(4)),
    lambda t: ConcatDataset([Subset(PhotoDataset(t), range(4))]),
]


@pytest.mark.parametrize("wrap", DATASET_WRAPPERS, ids=["dataset", "subset", "concatenation"])
def test_normalization_of_dataset_transforms_is_undone(wrap: Any) -> None:
    dataset = wrap(
        ComposedTransform(
            lambda image: image, ComposedTransform(NormalizeTransform((0.11, 0.22, 0.33), (0.7, 0.5, 0.2)))
        )
    )
    card = SampleDisplay(dataset).show(1, full=True)
    assert is_close(decode_pixels(card), COLORS[1])
    assert card["scale"] == "normalization of NormalizeTransform undone"


def test_dark_image_with_unknown_normalization_stays_dark() -> None:
    images = COLORS / 255.0
    images[0] *= 0.2
    normalized_images = (images - images.mean()) / images.std() * 3
    dark_mean = decode_pixels(SampleDisplay(normalized_images).show(0)).mean()
    assert dark_mean < 0.35 * decode_pixels(SampleDisplay(normalized_images).show(2)).mean()
    assert decode_pixels(SampleDisplay(normalized_images, stretch=True).show(0)).mean() > 2 * dark_mean


def test_non_finite_pixels_are_magenta() -> None:
    for images, size in ((GRAY / 255.0, 40), (np.tile(GRAY / 255.0, (1, 8, 8)), 320)):
        values = images.copy()
        values[0, :9, :9] = np.nan
        values[0, -9:, -9:] = np.inf
        samples = SampleDisplay(values)
        card = samples.show(0)
        pixels = decode_pixels(card).astype(int)
        assert card["width"] == min(size, 96)
        for corner in (pixels[0, 0], pixels[-1, -1]):
            assert corner[0] > 150, size
            assert corner[1] < 110, size
        assert decode_pixels(samples.show(1)).ndim == 2


def test_image_size_is_limited_on_card_and_in_full() -> None:
    samples = SampleDisplay(np.tile(COLORS, (1, 30, 30, 1)) / 255)
    card, full = samples.show(0), samples.show(0, full=True)
    assert (card["width"], full["width"]) == (96, 512)
    assert len(card["src"]) < 10_000
    assert card["src"].startswith("data:image/jpeg")


def test_flat_rows_are_images_only_with_similar_neighbors() -> None:
    pixels = decode_pixels(SampleDisplay(DIGITS).show(3))
    assert is_close(pixels, (DIGITS[3] * 255 / 16).reshape(8, 8).astype(np.uint8))
    random = np.random.default_rng(0)
    shuffled_digits = DIGITS[:, random.permutation(64)]
    for values in (random.normal(size=(300, 64)), shuffled_digits, random.lognormal(size=(300, 784))):
        assert SampleDisplay(values).show(0)["kind"] == "table"
    names = ["income" + "x" * i for i in range(64)]
    assert SampleDisplay(DIGITS, feature_names=names).show(0)["kind"] == "table"
    assert SampleDisplay(DIGITS, feature_names=[f"pixel{i}" for i in range(64)]).show(0)["kind"] == "image"


def test_flat_color_rows_are_images() -> None:
    images = torch.nn.functional.interpolate(torch.tensor(COLORS).permute(0, 3, 1, 2).float(), (32, 32))
    assert decode_pixels(SampleDisplay(images.reshape(4, -1) / 255).show(0)).shape == (32, 32, 3)


def test_single_black_or_nan_image_is_shown() -> None:
    assert not decode_pixels(SampleDisplay(torch.zeros(1, 1, 28, 28)).show(0)).any()
    assert SampleDisplay(torch.full((2, 1, 9, 9), float("nan"))).show(0)["kind"] == "image"


def test_image_unlike_other_samples_is_shown() -> None:
    mixed_samples = [torch.rand(3, 20, 20), torch.rand(3, 20, 20), torch.rand(20, 3, 7, 20), "a text"]
    samples = SampleDisplay(mixed_samples)
    assert [samples.show(index)["kind"] for index in range(4)] == ["image", "image", "image", "text"]
