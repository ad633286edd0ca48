"""Pictures of every layout and normalization come back as what they were."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.datasets import load_digits, load_sample_images
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from nbdebug.sample_display import SampleDisplay
from nbdebug.sample_display.image_normalization import COMMON_NORMALIZATIONS
from tests.sample_display.pictures import pixels

CHINA, FLOWER = (one[100:132, 200:240] for one in load_sample_images().images)
COLORS = np.stack([CHINA, FLOWER, CHINA[::-1], FLOWER[::-1]])  # 4 × 32 × 40 × 3
GRAY = COLORS[..., 1]
DIGITS = load_digits().data


class Shift:
    """What torchvision's Normalize looks like."""

    def __init__(self, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        self.mean, self.std = mean, std

    def __call__(self, one: torch.Tensor) -> torch.Tensor:
        return (one - torch.tensor(self.mean)[:, None, None]) / torch.tensor(self.std)[:, None, None]


class Chain:
    def __init__(self, *transforms: object) -> None:
        self.transforms = transforms

    def __call__(self, one: torch.Tensor) -> torch.Tensor:
        for transform in self.transforms:
            one = transform(one)  # type: ignore[operator]
        return one


class Photos(Dataset):
    def __init__(self, transform: object) -> None:
        self.transform = transform

    def __len__(self) -> int:
        return len(COLORS)

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return self.transform(torch.tensor(COLORS[place]).permute(2, 0, 1) / 255), place  # type: ignore[operator]


def near(found: np.ndarray, wanted: np.ndarray, by: int = 1) -> bool:
    return found.shape == wanted.shape and int(np.abs(found.astype(int) - wanted.astype(int)).max()) <= by


FORMS = {
    "H×W×C bytes": COLORS,
    "C×H×W bytes": COLORS.transpose(0, 3, 1, 2),
    "C×H×W from 0 to 1": torch.tensor(COLORS).permute(0, 3, 1, 2) / 255,
    "H×W×C from 0 to 1": COLORS / 255,
    "C×H×W from 0 to 255": COLORS.transpose(0, 3, 1, 2).astype(np.float64),
    "half precision": (torch.tensor(COLORS).permute(0, 3, 1, 2) / 255).half(),
    "with gradients": (torch.tensor(COLORS).permute(0, 3, 1, 2) / 255).requires_grad_(),
    "one more axis": torch.tensor(COLORS).permute(0, 3, 1, 2)[:, None] / 255,
    "int64": COLORS.astype(np.int64),
    "PIL": [Image.fromarray(one) for one in COLORS],
    "PIL with a label": [(Image.fromarray(one), 3) for one in COLORS],
    "palette": [Image.fromarray(one).quantize(256) for one in COLORS],
}


@pytest.mark.parametrize("form", FORMS)
def test_colors_of_any_layout(form: str) -> None:
    samples = SampleDisplay(FORMS[form])
    for place, wanted in enumerate(COLORS):
        assert near(pixels(samples.show(place)), wanted, 40 if form == "palette" else 1), form


@pytest.mark.parametrize(
    "values", [GRAY, GRAY[:, None], GRAY[..., None], GRAY.astype(np.float32) / 255, GRAY.astype(np.uint16)]
)
def test_gray_of_any_layout(values: np.ndarray) -> None:
    assert near(pixels(SampleDisplay(values).show(1)), GRAY[1], 1)


def test_truth_values_and_labels_are_seen() -> None:
    mask = GRAY > 100
    assert near(pixels(SampleDisplay(mask).show(0)), mask[0] * np.uint8(255))
    labels = (GRAY // 100).astype(np.int64)  # 0, 1, 2
    assert near(pixels(SampleDisplay(labels).show(0)), (labels[0] * 255 // 2).astype(np.uint8))


def test_sixteen_bits_are_on_the_scale_of_the_data() -> None:
    deep = GRAY.astype(np.uint16) * 16
    found = pixels(SampleDisplay(deep).show(0))
    assert near(found, (deep[0] * 255.0 / deep.max()).astype(np.uint8))


def test_opacity_is_kept_and_four_other_channels_stand_side_by_side() -> None:
    clear = np.concatenate([COLORS, np.full_like(COLORS[..., :1], 255)], -1)
    clear[:, :4, :, 3] = 0
    found = pixels(SampleDisplay(clear).show(0))
    assert found.shape == (32, 40, 4)
    assert (found[:3, :, 3] < 20).all()
    assert (found[8:, :, 3] == 255).all()
    bands = np.concatenate([COLORS, COLORS[..., :1] // 2], -1)
    assert pixels(SampleDisplay(bands).show(0)).shape == (64, 80)


def test_many_channels_and_films_are_sheets() -> None:
    bands = np.repeat(GRAY[:, None], 12, 1)
    samples = SampleDisplay(bands)
    assert np.abs(pixels(samples.show(2)) - np.tile(GRAY[2], (2, 2)).astype(float)).mean() < 6
    assert pixels(samples.show(2, full=True)).shape == (3 * 32, 4 * 40)
    film = np.repeat(COLORS.transpose(0, 3, 1, 2)[:, None] / 255, 9, 1)
    assert pixels(SampleDisplay(film).show(0, full=True)).shape == (3 * 32, 3 * 40)


@pytest.mark.parametrize("name", COMMON_NORMALIZATIONS)
def test_common_normalizations_are_recognized(name: str) -> None:
    mean, std = (np.array(one) for one in COMMON_NORMALIZATIONS[name])
    values = ((COLORS if len(mean) == 3 else GRAY[..., None]) / 255 - mean) / std
    found = pixels(SampleDisplay(values.transpose(0, 3, 1, 2).astype(np.float32)).show(0))
    assert near(found, COLORS[0] if len(mean) == 3 else GRAY[0])


WRAPS = [Photos, lambda t: Subset(Photos(t), range(4)), lambda t: ConcatDataset([Subset(Photos(t), range(4))])]


@pytest.mark.parametrize("wrap", WRAPS)
def test_the_normalization_of_the_transforms_is_undone(wrap: Any) -> None:
    source = wrap(Chain(lambda one: one, Chain(Shift((0.11, 0.22, 0.33), (0.7, 0.5, 0.2)))))
    shown = SampleDisplay(source).show(1, full=True)
    assert near(pixels(shown), COLORS[1])
    assert shown["scale"] == "normalization of Shift undone"


def test_a_dark_picture_stays_dark_whatever_the_normalization() -> None:
    dark = COLORS / 255.0
    dark[0] *= 0.2
    odd = (dark - dark.mean()) / dark.std() * 3
    plain = pixels(SampleDisplay(odd).show(0)).mean()
    assert plain < 0.35 * pixels(SampleDisplay(odd).show(2)).mean()
    assert pixels(SampleDisplay(odd, stretch=True).show(0)).mean() > 2 * plain


def test_lost_pixels_are_magenta_on_cards_and_in_full() -> None:
    for source, size in ((GRAY / 255.0, 40), (np.tile(GRAY / 255.0, (1, 8, 8)), 320)):
        values = source.copy()
        values[0, :9, :9] = np.nan
        values[0, -9:, -9:] = np.inf
        samples = SampleDisplay(values)
        shown = samples.show(0)
        found = pixels(shown).astype(int)
        assert shown["width"] == min(size, 96)
        for corner in (found[0, 0], found[-1, -1]):
            assert corner[0] > 150, size
            assert corner[1] < 110, size
        assert pixels(samples.show(1)).ndim == 2


def test_cards_are_small_and_full_ones_are_not_large() -> None:
    samples = SampleDisplay(np.tile(COLORS, (1, 30, 30, 1)) / 255)
    card, full = samples.show(0), samples.show(0, full=True)
    assert (card["width"], full["width"]) == (96, 512)
    assert len(card["src"]) < 10_000
    assert card["src"].startswith("data:image/jpeg")


def test_flat_squares_are_pictures_only_where_neighbors_are_alike() -> None:
    found = pixels(SampleDisplay(DIGITS).show(3))
    assert near(found, (DIGITS[3] * 255 / 16).reshape(8, 8).astype(np.uint8))
    random = np.random.default_rng(0)
    shuffled = DIGITS[:, random.permutation(64)]
    for values in (random.normal(size=(300, 64)), shuffled, random.lognormal(size=(300, 784))):
        assert SampleDisplay(values).show(0)["kind"] == "table"
    words = ["income" + "x" * i for i in range(64)]
    assert SampleDisplay(DIGITS, feature_names=words).show(0)["kind"] == "table"
    assert SampleDisplay(DIGITS, feature_names=[f"pixel{i}" for i in range(64)]).show(0)["kind"] == "image"


def test_flat_colors_are_pictures() -> None:
    small = torch.nn.functional.interpolate(torch.tensor(COLORS).permute(0, 3, 1, 2).float(), (32, 32))
    assert pixels(SampleDisplay(small.reshape(4, -1) / 255).show(0)).shape == (32, 32, 3)


def test_a_set_with_a_single_or_an_empty_picture() -> None:
    assert not pixels(SampleDisplay(torch.zeros(1, 1, 28, 28)).show(0)).any()
    assert SampleDisplay(torch.full((2, 1, 9, 9), float("nan"))).show(0)["kind"] == "image"


def test_a_picture_unlike_the_others_is_shown_by_itself() -> None:
    mixed = [torch.rand(3, 20, 20), torch.rand(3, 20, 20), torch.rand(20, 3, 7, 20), "a text"]
    samples = SampleDisplay(mixed)
    assert [samples.show(place)["kind"] for place in range(4)] == ["image", "image", "image", "text"]


def test_cards_are_made_once() -> None:
    class Counted(TensorDataset):
        asked = 0

        def __getitem__(self, place: int) -> tuple[torch.Tensor, ...]:
            Counted.asked += 1
            return super().__getitem__(place)

    samples = SampleDisplay(Counted(torch.rand(1_000, 1, 9, 9)))
    first = samples.show_many([5, 6, 5])
    before = Counted.asked
    assert samples.show_many([5, 6, 5]) == first
    assert first[0] == first[2]
    assert Counted.asked == before
    samples.show_many(range(900))
    assert len(samples.cards[False]) == 512
