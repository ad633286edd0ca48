"""Tests of features that reveal the target, identifiers, sources in both splits, and oversampling before the split."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine, make_blobs
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, Subset, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.setup import Setup
from nbdebug.tools.data import DataProfile, data
from nbdebug.tools.data.class_rank_relations import ClassRankRelations
from nbdebug.tools.data.feature_leaks import find_feature_leaks, find_identifiers
from nbdebug.tools.data.sample_groups import compare_groups

from .setups import AnyInput, profile_of_inputs

SETS = {load.__name__: load for load in (load_breast_cancer, load_diabetes, load_iris, load_wine)}


def table_of(load: Any, column: Any = None, seed: int = 0) -> SplitTable:
    """A random two thirds of a set, with another column if there is one."""
    loaded = load()
    x, y = torch.tensor(loaded.data).float(), torch.tensor(loaded.target)
    y = y.float()[:, None] if load is load_diabetes else y
    rows = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))[: 2 * len(x) // 3]
    x, y = x[rows], y[rows]
    if column is not None:
        x = torch.cat([x, column(y, np.random.default_rng(seed)).reshape(-1, 1)], 1)
    return SplitTable("train", (x,), (y,), range(len(x)), True)


def nearly_the_target(y: Tensor, generator: np.random.Generator) -> Tensor:
    """The target with noise of a fifth of a standard deviation, or with 2% of other classes."""
    if y.dim() == 2:
        return y + 0.2 * y.std() * torch.tensor(generator.normal(size=tuple(y.shape)), dtype=torch.float32)
    is_other = torch.tensor(generator.random(len(y)) < 0.02)
    return torch.where(is_other, (y + 1) % (int(y.max()) + 1), y).float()


@pytest.mark.parametrize("name", SETS)
def test_near_leaks_are_found_and_healthy_features_are_not(name: str) -> None:
    for seed in range(5):
        healthy = find_feature_leaks(table_of(SETS[name], seed=seed), None)
        assert healthy.leaks == ()
        assert healthy.detectable_noise >= 0.02
        search = find_feature_leaks(table_of(SETS[name], nearly_the_target, seed), None)
        (leak,) = search.leaks
        assert leak.name == f"column {search.columns - 1}"
        assert leak.skill > 0.8


def test_noisy_copies_of_the_target_do_not_hide_each_other() -> None:
    table = table_of(load_breast_cancer, nearly_the_target)
    other = nearly_the_target(table.targets[0], np.random.default_rng(9))[:, None]
    x = torch.cat([table.inputs[0], other], 1)
    leaks = find_feature_leaks(SplitTable("train", (x,), table.targets, range(len(x)), True), None).leaks
    assert {leak.name for leak in leaks} == {"column 30", "column 31"}
    assert all("noisy copy of the target" in leak.text for leak in leaks)


def test_strong_features_of_independent_columns_are_not_called_copies() -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 400)
    x = generator.normal(size=(400, 4)) + 2.5 * y[:, None]  # each avoids 79% of the errors, and nothing relates them
    table = SplitTable("train", (torch.tensor(x).float(),), (torch.tensor(y),), range(400), True)
    assert find_feature_leaks(table, None).leaks == ()


@pytest.mark.parametrize(("spread", "expected"), [(1.0, []), (8.0, ["column 3"])])
def test_coordinate_that_separates_clusters_is_no_leak_and_a_copy_of_the_class_is(
    spread: float, expected: list[str]
) -> None:
    for seed in range(8):
        x, y = make_blobs(400, 3, centers=3, cluster_std=spread, random_state=seed)
        generator = np.random.default_rng(seed)
        if expected:
            copy = np.where(generator.random(400) < 0.02, (y + 1) % 3, y)
            x = np.column_stack([x, copy])
        table = SplitTable("train", (torch.tensor(x).float(),), (torch.tensor(y),), range(400), True)
        assert [leak.name for leak in find_feature_leaks(table, None).leaks] == expected


def test_leak_next_to_columns_without_relation_to_the_class_is_found() -> None:
    generator = np.random.default_rng(0)
    y = generator.integers(0, 2, 400)
    x = np.column_stack([generator.normal(size=(400, 3)), y + 0.2 * generator.normal(size=400)])
    table = SplitTable("train", (torch.tensor(x).float(),), (torch.tensor(y),), range(400), True)
    assert [leak.name for leak in find_feature_leaks(table, None).leaks] == ["column 3"]


@pytest.mark.parametrize("dependence", [0.0, 0.5])
def test_relations_within_classes_are_significant_only_if_there_are_any(dependence: float) -> None:
    generator = np.random.default_rng(1)
    below = 0
    for _ in range(200):
        y = generator.integers(0, 3, 150).astype(float)
        others = generator.normal(size=(150, 3)) + y[:, None]
        column = y + dependence * others[:, 0] + generator.normal(size=150)
        below += ClassRankRelations(others, y, [0, 1, 2]).smallest_p(column) < 0.01
    assert below <= 8 if dependence == 0 else below >= 190


def test_leak_is_named_in_the_profile() -> None:
    tables = [table_of(load_wine, nearly_the_target, seed) for seed in range(2)]
    profile = profile_of_inputs(*((table.inputs[0], table.targets[0]) for table in tables))
    assert "column 13 alone predicts the target" in profile.to_text()
    check = next(check for check in profile.checks if check.name == "a feature reveals the target")
    assert check.verdict == "fault"
    assert profile.leaks.to_frame().name.tolist() == ["column 13"]


def test_row_numbers_are_identifiers_and_counts_are_not() -> None:
    generator = np.random.default_rng(0)
    numbers = {
        "row": np.arange(300),
        "shuffled": generator.permutation(300) + 1000,
        "time": np.cumsum(generator.integers(1, 10_000, 300)),
        "count": generator.poisson(50, 300),
        "amount": generator.choice(10**6, 300, replace=False),
        "real": np.arange(300) + 0.5,
    }
    x = torch.tensor(np.stack(list(numbers.values()), 1), dtype=torch.float64)
    table = SplitTable("train", (x,), (torch.zeros(300).long(),), range(300), True)
    assert list(find_identifiers(table, list(numbers))) == ["row", "shuffled", "time"]


class Recordings(Dataset[Any]):
    """Windows of recordings, as dicts."""

    def __init__(self, subjects: Tensor) -> None:
        generator = torch.Generator().manual_seed(0)
        self.subjects, self.x = subjects, torch.rand(len(subjects), 5, generator=generator)

    def __len__(self) -> int:
        return len(self.subjects)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"x": self.x[index], "y": index % 2, "subject_id": f"s{int(self.subjects[index])}"}


def profile_of_recordings(train: Any, val: Any, **options: Any) -> DataProfile:
    def unpack(batch: Any) -> Any:
        return (batch["x"], batch["y"]) if isinstance(batch, dict) else batch

    loaders = DataLoader(train, 16), DataLoader(val, 16)
    return data(Setup(AnyInput(), *loaders, loss_fn=nn.CrossEntropyLoss(), unpack=unpack), **options)


def test_subjects_in_both_splits_are_found_by_name() -> None:
    dataset = Recordings(torch.arange(200) % 10)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0)).tolist()
    leaking = profile_of_recordings(Subset(dataset, order[:150]), Subset(dataset, order[150:]))
    assert leaking.leaks.groups is not None
    assert "10 of 10 validation groups (guessed from the name 'subject_id') are in training too" in leaking.to_text()
    apart = [[i for i in range(200) if (i % 10 < 7) == is_train] for is_train in (True, False)]
    healthy = profile_of_recordings(*(Subset(dataset, indices) for indices in apart))
    assert healthy.leaks.faults == []
    assert {check.name: check.verdict for check in healthy.checks}["sources in both splits"] == "no fault"


def test_given_groups_of_the_whole_dataset_or_of_each_split() -> None:
    groups = np.arange(200) // 10
    dataset = TensorDataset(torch.rand(200, 5), torch.arange(200) % 2)
    splits = Subset(dataset, range(0, 155)), Subset(dataset, range(155, 200))
    by_list = profile_of_recordings(*splits, groups=groups)
    by_dict = profile_of_recordings(*splits, groups={"train": groups[:155], "val": groups[155:]})
    for profile in (by_list, by_dict):
        assert profile.leaks.groups is not None
        assert (profile.leaks.groups.shared, profile.leaks.groups.val_groups) == (1, 5)
        assert profile.leaks.groups.share == pytest.approx(5 / 45)
    with pytest.raises(SetupError, match=r"groups of train has the shape \(3,\); expected \(200,\)"):
        profile_of_recordings(*splits, groups=[1, 2, 3])


def test_without_groups_nothing_is_guessed_from_classes() -> None:
    x = torch.rand(100, 3)
    table = SplitTable("train", (x,), (torch.arange(100) % 2,), range(100), True)
    assert compare_groups({"train": table, "val": table}, None, {}, ["width", "sex", "side"]) is None


def test_class_oversampled_before_the_split_is_named() -> None:
    generator = torch.Generator().manual_seed(0)
    x, y = torch.randn(600, 6, generator=generator), (torch.arange(600) < 60).long()
    rare = torch.arange(60).repeat(9)
    order = torch.randperm(1140, generator=generator)
    rows = torch.cat([rare, torch.arange(60, 600), torch.arange(60)])[order]
    profile = profile_of_inputs((x[rows[:800]], y[rows[:800]]), (x[rows[800:]], y[rows[800:]]))
    assert "class 1 was oversampled before the split: 100% of its validation samples" in profile.to_text()
    copied = x.clone()
    copied[400:430] = x[:30]
    mixed = torch.arange(600) % 2
    plain = profile_of_inputs((copied[:400], mixed[:400]), (copied[400:], mixed[400:]))
    assert plain.leaks.oversampled is None


class Diary(Dataset[Any]):
    """Rows with the date on which they were written."""

    def __init__(self, days: range | Tensor, as_text: bool) -> None:
        self.days, self.as_text = [int(day) for day in days], as_text
        self.x = torch.rand(len(self.days), 5, generator=torch.Generator().manual_seed(len(self.days)))

    def __len__(self) -> int:
        return len(self.days)

    def __getitem__(self, index: int) -> dict[str, Any]:
        day = self.days[index]
        date = str(np.datetime64("2024-01-01") + day) if self.as_text else float(day)
        return {"x": self.x[index], "y": index % 2, "date": date}


@pytest.mark.parametrize("as_text", [True, False])
def test_order_of_the_splits_in_time_is_judged(as_text: bool) -> None:
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    cases = {
        "no fault": (range(150), range(150, 200)),
        "fault": (range(50, 200), range(50)),
        "not decidable": (order[:150], order[150:]),
    }
    for verdict, splits in cases.items():
        profile = profile_of_recordings(*(Diary(days, as_text) for days in splits))
        assert {check.name: check.verdict for check in profile.checks}["validation after training in time"] == verdict
        assert ("predictions of the past" in profile.to_text()) == (verdict == "fault")


def points_of_sources(size: int) -> Tensor:
    """Points around the center of their source."""
    generator = torch.Generator().manual_seed(0)
    centers = torch.randn(360 // size, 4, generator=generator).repeat_interleave(size, 0)
    return centers + 0.3 * torch.randn(360, 4, generator=generator)


def windows_of_sources(size: int) -> Tensor:
    """Oscillations in four channels with the frequencies of their source, and phases of their own."""
    generator = torch.Generator().manual_seed(0)
    frequencies = (0.2 + 2 * torch.rand(360 // size, 1, 4, generator=generator)).repeat_interleave(size, 0)
    phases = 6.28 * torch.rand(360, 1, 4, generator=generator)
    waves = torch.sin(torch.arange(64.0)[:, None] * frequencies + phases)
    return waves + 0.1 * torch.randn(360, 64, 4, generator=generator)


@pytest.mark.parametrize("samples", [points_of_sources, windows_of_sources])
@pytest.mark.parametrize("size", [1, 36])
def test_sources_in_both_subsets_of_a_dataset_are_shown_by_its_order(samples: Any, size: int) -> None:
    generator = torch.Generator().manual_seed(1)
    dataset = TensorDataset(samples(size), (torch.rand(360, generator=generator) > 0.5).long())
    order = torch.randperm(360, generator=generator).tolist()
    loaders = [DataLoader(Subset(dataset, part), 32) for part in (order[:240], order[240:])]
    profile = data(Setup(AnyInput(), *loaders, loss_fn=nn.CrossEntropyLoss()))
    assert profile.leaks.has_neighboring_sources == (size > 1)
