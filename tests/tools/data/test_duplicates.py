"""Tests of duplicates, near duplicates, overlaps and of what is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.neighbors import NearestNeighbors
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.data import data
from nbdebug.tools.data.cropped_copies import find_cropped_pairs
from nbdebug.tools.data.near_duplicates import find_near_pairs, have_same_details, have_same_tokens, signatures

from .setups import AnyInput, EndlessStream, agreeing_predictions, digits, profile_of, profile_of_inputs


def test_random_split_of_digits_has_no_duplicates() -> None:
    profile = profile_of_inputs(*digits())
    assert profile.duplicates.pairs == ()
    assert profile.duplicates.near_rows == 1797


def test_copies_within_and_across_splits_are_listed_and_left_out() -> None:
    (x, y), (other, labels) = digits()
    x[10:15], y[10:14] = x[20:25].clone(), y[20:24]
    y[14] = (y[24] + 1) % 10
    other[:3], labels[:3] = x[50:53], y[50:53]
    profile = profile_of_inputs((x, y), (other, labels))
    exact = [pair for pair in profile.duplicates.pairs if pair.kind == "exact"]
    assert {(pair.first, pair.second) for pair in exact if not pair.is_across} == {
        (("train", 10 + i), ("train", 20 + i)) for i in range(5)
    }
    assert {(pair.first, pair.second) for pair in exact if pair.is_across} == {
        (("train", 50 + i), ("val", i)) for i in range(3)
    }
    assert sum(pair.has_same_target is False for pair in exact) == 1
    assert profile.drop_list("train") == [20, 21, 22, 23, 24, 50, 51, 52]
    assert profile.drop_list("val", ["overlap"]) == [0, 1, 2]
    kept = profile.keep(TensorDataset(x, y))
    assert isinstance(kept, Subset)
    assert len(kept) == len(x) - 8
    assert "drop = set([20, 21, 22, 23, 24, 50, 51, 52])" in profile.view().html()


_CHANGES: dict[str, Callable[[Tensor], Tensor]] = {
    "brightness": lambda x: x * 0.8 + 0.05,
    "clipped": lambda x: (x * 1.35 + 0.08).clamp(0, 1),
    "clipped shadows": lambda x: (x * 1.2 - 0.1).clamp(0, 1),
    "noise": lambda x: x + 0.02 * torch.randn(x.shape, generator=torch.Generator().manual_seed(0)),
}


@pytest.mark.parametrize("change", _CHANGES)
def test_near_copies_of_images_are_listed(change: str) -> None:
    (x, y), (other, labels) = digits()
    other[:30], labels[:30] = _CHANGES[change](x[:30]), y[:30]
    near = [pair for pair in profile_of_inputs((x, y), (other, labels)).duplicates.pairs if pair.kind == "near"]
    assert sum((pair.first[1] == pair.second[1] < 30) for pair in near) >= 28
    assert len(near) <= 31


def test_smooth_images_that_differ_in_detail_are_no_near_copies() -> None:
    generator = torch.Generator().manual_seed(0)
    sky = torch.linspace(0.5, 1, 32)[:, None].expand(3, 3, 32, 32)
    grain = 0.05 * torch.randn(3, 3, 32, 32, generator=generator)
    images = torch.cat([sky + grain, (sky + grain)[:1] * 0.8 + 0.1 + 0.1 * grain[2:]])
    assert have_same_details(images, [(0, 1), (1, 2), (0, 3)]).tolist() == [False, False, True]


def test_one_changed_token_is_a_near_copy() -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(1, 300, (800, 20), generator=generator)
    edited = tokens[:20].clone()
    edited[:, 5] = 7
    near = find_near_pairs(signatures([torch.cat([tokens, edited])]))
    assert sum((i, 800 + i) in near.pairs for i in range(20)) >= 18
    assert find_near_pairs(signatures([tokens])).pairs == ()


def test_tokens_that_fall_together_do_not_make_texts_equal() -> None:
    rows = torch.tensor([[first, second, 0] for first in range(1, 60) for second in (1, 193, 385, 577)])
    points = signatures([rows])
    assert points is not None
    assert len(np.unique(points.round(4), axis=0)) >= 0.98 * len(rows)


def test_short_texts_that_differ_in_a_word_are_no_copies() -> None:
    texts = torch.tensor([[5, 6, 7, 8, 9, 0], [5, 6, 7, 8, 4, 0], [*range(5, 11)], [*range(5, 11)]])
    long = torch.arange(1, 21).repeat(2, 1)
    long[1, 3] = 30
    assert have_same_tokens([texts], [(0, 1), (2, 3)]).tolist() == [False, True]
    assert have_same_tokens([long], [(0, 1)]).tolist() == [True]


def test_one_group_of_equal_rows_does_not_hide_copies() -> None:
    """Three equal rows are no sign that all rows have few distinct values."""
    x = torch.randint(1, 1000, (600, 30), generator=torch.Generator().manual_seed(0))
    x[1:3] = x[0]
    val = torch.cat([x[100:120], torch.randint(1, 1000, (180, 30), generator=torch.Generator().manual_seed(1))])
    profile = profile_of_inputs((x, torch.arange(600) % 2), (val, torch.arange(200) % 2))
    assert profile.duplicates.count(True, "exact") == 20


@pytest.mark.parametrize("load", [load_breast_cancer, load_wine, load_diabetes])
def test_tables_have_near_copies_only_where_planted(load: Any) -> None:
    x = torch.tensor(load().data, dtype=torch.float32)
    noise = 0.01 * x.std(0) * torch.randn(10, x.shape[1], generator=torch.Generator().manual_seed(0))
    assert find_near_pairs(signatures([x])).pairs == ()
    near = find_near_pairs(signatures([torch.cat([x, x[:10] + noise])]))
    assert set(near.pairs) == {(i, len(x) + i) for i in range(10)}


def test_index_finds_neighbors_of_planted_pairs_like_brute_force() -> None:
    generator = np.random.default_rng(0)
    points = generator.normal(size=(5000, 16)).astype(np.float32)
    points[-200:] = points[:200] + 0.01 * generator.normal(size=(200, 16)).astype(np.float32)
    near = set(find_near_pairs(points).pairs)
    _, rows = NearestNeighbors(n_neighbors=2).fit(points).kneighbors(points[-200:])
    assert rows[:, 1].tolist() == list(range(200))
    assert len(near & {(i, 4800 + i) for i in range(200)}) >= 198


class RandomRoll(Dataset[Any]):
    """Images, rolled at random."""

    def __init__(self, x: Tensor, y: Tensor) -> None:
        self.x, self.y = x, y

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> Any:
        return torch.roll(self.x[index], int(torch.randint(-2, 3, ())), -1), self.y[index]


def test_copies_are_found_despite_random_augmentation() -> None:
    (x, y), val = digits()
    x[:5] = x[100:105]
    profile = profile_of(RandomRoll(x, y), TensorDataset(*val), pred_probs=agreeing_predictions(y, val[1]))
    assert {pair.first[1] for pair in profile.duplicates.pairs if pair.kind == "exact"} == set(range(5))
    overlap = next(check for check in profile.checks if check.name == "validation samples in training")
    assert overlap.verdict == "not decidable"
    assert "4 times: it is augmented" in profile.examples[0].note


def test_same_dataset_in_both_loaders_is_matched_by_index() -> None:
    dataset = RandomRoll(*digits()[0])
    predictions = agreeing_predictions(dataset.y[:300], dataset.y[280:500])
    profile = profile_of(Subset(dataset, range(300)), Subset(dataset, range(280, 500)), pred_probs=predictions)
    assert profile.duplicates.count(True, "same index") == 20


def test_rows_with_few_distinct_values_are_not_compared() -> None:
    x = torch.randint(0, 3, (500, 2)).float()
    profile = profile_of(TensorDataset(x, torch.zeros(500).long()))
    assert profile.duplicates.pairs == ()
    assert "due to chance" in profile.duplicates.notes[0]
    assert "not decidable" in {check.verdict for check in profile.checks if check.name == "duplicates"}


def test_keep_with_wrong_arguments_raises() -> None:
    profile = profile_of_inputs(*digits())
    with pytest.raises(SetupError, match=r"reasons is .*; expected a list of duplicates"):
        profile.drop_list("train", ["copies"])
    with pytest.raises(SetupError, match="split is 'test'; expected"):
        profile.drop_list("test")
    stream = data(Setup(AnyInput(), DataLoader(EndlessStream(), 8), loss_fn=nn.CrossEntropyLoss()), samples=80)
    with pytest.raises(SetupError, match="whose samples have an index"):
        stream.keep(TensorDataset(torch.zeros(3)))


def test_keep_of_another_dataset_raises() -> None:
    (x, y), val = digits()
    x[1100:1105] = x[:5]
    profile = profile_of_inputs((x, y), val)
    with pytest.raises(SetupError, match="dataset has 3 samples; expected the dataset of train_loader"):
        profile.keep(TensorDataset(torch.zeros(3)))


@pytest.mark.parametrize("shift", [5, 40, 60])
def test_windows_that_overlap_by_any_shift_are_listed(shift: int) -> None:
    generator = torch.Generator().manual_seed(0)
    series = torch.randn(4, 3, 2000, generator=generator).cumsum(-1)
    windows = series.unfold(-1, 80, shift).permute(0, 2, 1, 3).flatten(0, 1).contiguous()
    order = torch.randperm(len(windows), generator=generator)
    y = torch.arange(len(windows)) % 2
    train, val = order[: len(order) // 2], order[len(order) // 2 :]
    profile = profile_of_inputs((windows[train], y[train]), (windows[val], y[val]))
    assert profile.duplicates.count(True, "shifted window") > 0.6 * len(val)
    apart = profile_of_inputs((windows[: len(y) // 2], y[: len(y) // 2]), (windows[len(y) // 2 :], y[len(y) // 2 :]))
    assert apart.duplicates.count(True, "shifted window") == 0


def test_series_that_repeat_their_values_do_not_overlap() -> None:
    generator = torch.Generator().manual_seed(0)
    levels = torch.randint(0, 2, (200, 1, 64), generator=generator).float()
    y = torch.arange(200) % 2
    profile = profile_of_inputs((levels[:100], y[:100]), (levels[100:], y[100:]))
    assert profile.duplicates.count(True, "shifted window") == 0


def test_crops_of_images_are_listed_and_other_images_are_not() -> None:
    generator = torch.Generator().manual_seed(0)
    coarse = torch.rand(200, 1, 9, 9, generator=generator)
    images = torch.nn.functional.interpolate(coarse, (28, 28), mode="bicubic")
    crops = [image[:, 2 : 2 + size, 1 : 1 + size] for image, size in zip(images, (24, 25, 26, 25), strict=False)]
    scaled = torch.cat([torch.nn.functional.interpolate(crop[None], (28, 28), mode="bicubic") for crop in crops])
    pairs = find_cropped_pairs(torch.cat([images, scaled]))
    assert {(row, other) for row, other, _ in pairs} == {(0, 200), (1, 201), (2, 202), (3, 203)}
    assert find_cropped_pairs(images) == []
