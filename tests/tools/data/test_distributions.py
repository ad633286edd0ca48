"""Tests of the distributions of the splits, beside each other in text and page."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import TensorDataset

from nbdebug.tools.data import DataProfile
from nbdebug.tools.data.distributions import FeatureDistribution
from nbdebug.views.page import to_script_json

from .setups import digits, profile_of, profile_of_inputs


def uniform_splits(columns: int = 4, **changes: Any) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    """Two splits of uniform columns and three classes; ``changes`` are added to columns of validation."""
    generator = torch.Generator().manual_seed(0)
    x, y = torch.rand(600, columns, generator=generator), torch.arange(600) % 3
    x[400:, 2] += changes.get("shift", 0.0)
    x[:, 1] = changes.get("constant", x[:, 1])
    x[5, 3] = changes.get("outlier", x[5, 3])
    return (x[:400], y[:400]), (x[400:], y[400:])


@pytest.fixture(scope="module")
def profile() -> DataProfile:
    """The profile of a table with a shifted, a constant and a heavy-tailed column."""
    return profile_of_inputs(*uniform_splits(shift=2.0, constant=7.0, outlier=1e6))


def find(profile: DataProfile, title: str) -> FeatureDistribution:
    return next(item for item in profile.distributions if item.title == title)


@pytest.mark.parametrize(
    ("title", "bins", "train", "val", "extent"),
    [
        ("classes", 3, [134, 133, 133], [66, 67, 67], "3 values"),
        ("input column 1", 1, [400], [200], "always 7"),
        ("input column 0", 20, None, None, None),
        ("input column 3", 20, None, None, "or more"),
    ],
)
def test_counts_of_all_samples_lie_in_shared_bins(
    profile: DataProfile, title: str, bins: int, train: list[int] | None, val: list[int] | None, extent: str | None
) -> None:
    item = find(profile, title)
    counts = {split: list(values) for split, values in item.counts}
    assert {split: len(values) for split, values in counts.items()} == {"train": bins, "val": bins}
    assert [sum(values) for values in counts.values()] == [400, 200]
    assert train is None or [counts["train"], counts["val"]] == [train, val]
    assert extent is None or item.extent.endswith(extent)


def test_outlier_does_not_flatten_histogram(profile: DataProfile) -> None:
    item = find(profile, "input column 3")
    assert item.is_cut
    assert min(dict(item.counts)["train"]) > 0


def test_shifted_feature_comes_first_and_its_text_shows_the_shift(profile: DataProfile) -> None:
    assert [item.title for item in profile.distributions[:2]] == ["classes", "input column 2"]
    first = profile.distributions[1]
    assert first.is_shifted
    bars = first.to_text().split(": ")[1].removeprefix("training ").split(", validation ")
    assert [bar.startswith("···") for bar in bars] == [False, True]
    assert [bar.endswith("···") for bar in bars] == [True, False]
    assert first.to_text() in profile.to_text()


@pytest.mark.parametrize(("columns", "shown", "hidden"), [(4, 5, 0), (200, 24, 177)])
def test_histograms_of_page_stay_small(columns: int, shown: int, hidden: int) -> None:
    profile = profile_of_inputs(*uniform_splits(columns))
    state = next(part for part in profile.view().state()["panels"][0]["sections"] if part["kind"] == "histograms")
    assert (len(state["histograms"]), state["hidden"]) == (shown, hidden)
    assert len(to_script_json(state)) < 12_000
    assert all(item.title in profile.view().html() for item in profile.distributions[:24])


@pytest.mark.parametrize("has_validation", [True, False])
def test_images_are_described_by_mean_spread_and_step(has_validation: bool) -> None:
    train, val = digits()
    profile = profile_of_inputs(train, val) if has_validation else profile_of(TensorDataset(*train), seconds=5.0)
    assert {"input mean", "input spread", "input step", "classes"} == {item.title for item in profile.distributions}
    assert {len(item.counts) for item in profile.distributions} == {1 + has_validation}
