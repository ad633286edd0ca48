"""Tests of drift and of different preprocessing between splits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist, pdist
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.setup import Setup
from nbdebug.statistics.power import normal_shift_of_ks_distance
from nbdebug.tools.data import data
from nbdebug.tools.data.class_drift import ClassDrift, compare_classes
from nbdebug.tools.data.comparison_features import comparison_columns
from nbdebug.tools.data.domain_classifier import _area_by_chance, _fit_forest
from nbdebug.tools.data.energy_distance import measure_energy_distance

from .setups import digits, profile_of, profile_of_inputs


def tables(seed: int = 0, rows: int = 600) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 5, generator=generator), torch.randint(0, 3, (rows,), generator=generator)


@pytest.fixture
def small_domain_forests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fit fewer trees for a doubtful area, which is compared with those of twenty permuted splits."""
    monkeypatch.setattr("nbdebug.tools.data.domain_classifier._TREES", 30)


@pytest.mark.parametrize("seed", range(3))
def test_random_split_of_digits_has_no_drift(seed: int) -> None:
    drift = profile_of_inputs(*digits(seed)).drift
    assert drift.faults == []
    assert drift.comparisons[0].classifier is not None
    assert not drift.comparisons[0].classifier.tells_splits_apart


@pytest.mark.usefixtures("small_domain_forests")
@pytest.mark.parametrize("shift", [0.3, 1.0])
def test_shift_of_one_column_is_found_and_largest(shift: float) -> None:
    (x, y), (other, labels) = tables(0), tables(1)
    other[:, 3] += shift
    frame = profile_of_inputs((x, y), (other, labels)).drift.to_frame()
    assert frame.query("shifted")["feature"].tolist() == ["column 3"]
    assert frame["mean_shift"][0] == pytest.approx(shift, abs=0.12)


@pytest.mark.usefixtures("small_domain_forests")
def test_chance_area_of_the_classifier_is_exceeded_by_a_real_difference_only() -> None:
    generator = torch.Generator().manual_seed(0)
    areas = []
    for shift in (0.0, 1.5):
        x = torch.randn(240, 4, generator=generator)
        x[120:, 0] += shift
        is_second = np.repeat([0, 1], 120)
        area = roc_auc_score(is_second, _fit_forest(x.numpy(), is_second)[0])
        areas.append((area, _area_by_chance(x.numpy(), is_second)))
    (equal, equal_chance), (shifted, shifted_chance) = areas
    assert equal < equal_chance < 0.7
    assert shifted > shifted_chance


def test_label_shift_is_found_with_cramers_v() -> None:
    (x, y), (other, labels) = tables(0), tables(1)
    labels[::3] = 0
    comparison = profile_of_inputs((x, y), (other, labels)).drift.comparisons[0]
    assert [shift.role for shift in comparison.shifted_features] == ["target"]
    assert comparison.label_shift is comparison.shifted_features[0]
    assert comparison.shifted_features[0].effect_name == "Cramér's V"


@pytest.mark.usefixtures("small_domain_forests")
def test_other_share_of_missing_values_is_found() -> None:
    (x, y), (other, labels) = tables(0), tables(1)
    x[::20, 2], other[::4, 2] = torch.nan, torch.nan
    comparison = profile_of_inputs((x, y), (other, labels)).drift.comparisons[0]
    assert [(shift.name, shift.missing) for shift in comparison.shifted_features] == [("column 2", (0.05, 0.25))]


def test_dependence_without_shift_of_any_column_is_found_by_classifier() -> None:
    (x, y), (other, labels) = tables(0), tables(1)
    x[:, 1] = x[:, 0] + 0.1 * x[:, 1]
    other[:, 1] = -other[:, 0] + 0.1 * other[:, 1]
    comparison = profile_of_inputs((x, y), (other, labels)).drift.comparisons[0]
    assert comparison.shifted_features == []
    assert comparison.classifier is not None
    assert comparison.classifier.auc > 0.9
    assert {name for name, _ in comparison.classifier.features[:2]} == {"column 0", "column 1"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda x: x / 255, "divided by 255 once more"),
        (lambda x: x * 255, "range over 0–255"),
        (lambda x: (x - 0.1307) / 0.3081, "normalization, such as that of MNIST, once more"),
        (lambda x: (x - 0.2) / 0.6, "one split lacks this normalization, has it twice or has another one"),
        (lambda x: x.transpose(2, 3).contiguous(), "images of validation are transposed"),
        (lambda x: x.flip(-2), "images of validation are upside down"),
        (lambda x: x * 16, " times those of training: one split is scaled once more"),
    ],
)
def test_other_preprocessing_of_digits_is_recognized(change: Callable[[Tensor], Tensor], expected: str) -> None:
    train, (x, y) = digits()
    mismatches = profile_of_inputs(train, (change(x), y)).drift.comparisons[0].mismatches
    assert [expected in text for text in mismatches] == [True]


def test_reversed_channels_are_recognized() -> None:
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(900, 3, 12, 12, generator=generator) * torch.tensor([0.5, 0.7, 1.0])[:, None, None]
    labels = torch.zeros(900).long()
    profile = profile_of_inputs((images[:600], labels[:600]), (images[600:].flip(1), labels[600:]))
    assert "BGR for RGB" in profile.drift.comparisons[0].mismatches[0]


@pytest.mark.parametrize(("standardized", "expected"), [(0, "not standardized"), (1, "are standardized, and those of")])
def test_standardization_of_one_split_is_recognized(standardized: int, expected: str) -> None:
    loaded = load_breast_cancer()
    x, y = torch.tensor(loaded.data, dtype=torch.float32), torch.tensor(loaded.target)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    splits = [[x[rows], y[rows]] for rows in (order[:350], order[350:])]
    splits[standardized][0] = (splits[standardized][0] - x.mean(0)) / x.std(0)
    profile = profile_of_inputs(tuple(splits[0]), tuple(splits[1]))
    assert expected in profile.drift.comparisons[0].mismatches[0]


def classes_and_columns(seed: int, moved: float, rows: int = 2000) -> tuple[Tensor, Tensor]:
    """Four classes of normal columns; column 2 of class 3 is moved."""
    x, y = tables(seed, rows)[0], torch.arange(rows) % 4
    x[y == 3, 2] += moved
    return x, y


def test_shift_within_one_class_is_found_and_others_are_not() -> None:
    train, val = classes_and_columns(0, 0.0), classes_and_columns(1, 0.6)
    profile = profile_of_inputs(train, val)
    comparison = profile.drift.comparisons[0]
    assert comparison.classes is not None
    shifted = [(item.name, [shift.name for shift in item.shifted_features]) for item in comparison.classes.classes[:2]]
    assert shifted == [("class 3", ["column 2"]), (comparison.classes.classes[1].name, [])]
    assert len(comparison.classes.classes) == 4
    check = next(item for item in profile.checks if item.name.startswith("drift within the classes"))
    assert (check.verdict, check.observation) == ("fault", "1 of 4 classes")
    assert "within class 3: input column 2" in " ".join(comparison.faults) or comparison.shifted_features
    assert "Drift within the classes" in profile.drift.tables()[1].title


def test_classes_that_are_too_rare_or_equal_are_not_shifted() -> None:
    (x, y), other = classes_and_columns(0, 0.0), classes_and_columns(1, 0.0)
    y[y == 2] = torch.where(torch.arange(int((y == 2).sum())) < 15, 2, 1)
    classes = compare_classes_of((x, y), other)
    assert classes is not None
    assert (len(classes.classes), classes.omitted, classes.shifted_classes) == (3, 1, [])


def compare_classes_of(*splits: tuple[Tensor, Tensor]) -> ClassDrift | None:
    split_tables = [SplitTable("", (x,), (y,), range(len(x)), True) for x, y in splits]
    first, second = (comparison_columns(table, ["x"], None) for table in split_tables)
    return compare_classes((split_tables[0], split_tables[1]), list(zip(first, second, strict=True)), None)


def test_shifts_within_equal_classes_are_rare_and_the_stated_shift_is_mostly_found() -> None:
    alarms, found = 0, 0
    for seed in range(40):
        alarms += compare_classes_of(*(classes_and_columns(2 * seed + i, 0.0, 400) for i in (0, 1))).is_shifted  # type: ignore[union-attr]
        classes = compare_classes_of(
            classes_and_columns(2 * seed, 0.0, 400), classes_and_columns(2 * seed + 1, 1.2, 400)
        )
        assert classes is not None
        assert normal_shift_of_ks_distance(classes.detectable) < 1.2
        found += [item.name for item in classes.shifted_classes] == ["class 3"]
    assert alarms == 0
    assert found >= 36


def test_energy_coefficient_is_that_of_its_definition_and_unbiased() -> None:
    generator = np.random.default_rng(0)
    first, second = (generator.normal(size=(80, 3)).astype(np.float32) + shift for shift in (0, 1))
    distance = measure_energy_distance(first, second, "features")
    assert distance is not None
    rows = np.vstack([first, second])
    ranks = (rows.argsort(0).argsort(0) + 0.5) / 160
    one, other = ranks[:80], ranks[80:]
    between = cdist(one, other).mean()
    within = pdist(one).mean() + pdist(other).mean()
    assert distance.effect == pytest.approx((2 * between - within) / (2 * between), abs=1e-4)
    assert distance.is_shifted
    equal = [generator.normal(size=(2, 80, 3)).astype(np.float32) for _ in range(60)]
    distances = [measure_energy_distance(pair[0], pair[1], "features") for pair in equal]
    effects = [item.effect for item in distances if item is not None]
    assert abs(np.mean(effects)) < 3 * np.std(effects) / 60**0.5
    assert sum(item.is_shifted for item in distances if item is not None) <= 1
    assert np.mean([item.p for item in distances if item is not None]) == pytest.approx(0.5, abs=0.13)


def test_energy_distance_shows_the_stated_coefficient() -> None:
    generator = np.random.default_rng(1)
    found = 0
    for _ in range(20):
        first, second = generator.normal(size=(2, 300, 2)).astype(np.float32)
        equal = measure_energy_distance(first, second, "features")
        assert equal is not None
        second[:, 0] += 2 * (2 * equal.detectable) ** 0.5  # a coefficient of s² / 4d
        shifted = measure_energy_distance(first, second, "features")
        found += shifted is not None and shifted.is_shifted
    assert found >= 17


def test_embeddings_of_the_model_are_compared_with_embed() -> None:
    model = nn.Sequential(nn.Linear(5, 6), nn.ReLU(), nn.Linear(6, 3))
    (x, y), (other, labels) = tables(0, 400), tables(1, 400)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    for shift in (0.0, 2.0):
        loaders = DataLoader(TensorDataset(x, y), 50), DataLoader(TensorDataset(other + shift, labels), 50)
        energy = data(Setup(model, *loaders, loss_fn=nn.CrossEntropyLoss()), embed=True).drift.comparisons[0].energy
        assert energy is not None
        assert energy.source == "embeddings"
        assert energy.is_shifted == bool(shift)
    assert all(torch.equal(value, state[name]) for name, value in model.state_dict().items())


def test_reference_is_compared_with_training() -> None:
    (x, y), (other, labels) = tables(0), tables(1)
    reference = DataLoader(TensorDataset(other + 1, labels), 50)
    drift = profile_of(TensorDataset(x, y), reference=reference).drift
    assert [comparison.title for comparison in drift.comparisons] == ["reference to training"]
    assert len(drift.comparisons[0].shifted_features) == 5


def test_power_of_small_splits_is_stated() -> None:
    (x, y), (other, labels) = tables(0, 60), tables(1, 30)
    text = profile_of_inputs((x, y), (other, labels)).drift.to_text()
    assert "would have shown" not in text
    assert "would have been shown with 90% probability" in text


def test_class_in_which_a_feature_is_shifted_much_more_is_named() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(900) % 6
    inputs = torch.randn(900, 3, generator=generator)
    inputs[(torch.arange(900) >= 450) & (labels == 2), 0] += 4
    loaders = [DataLoader(TensorDataset(inputs[rows], labels[rows]), 64) for rows in (slice(450), slice(450, 900))]
    faults = data(Setup(nn.Linear(3, 6), *loaders, loss_fn=nn.CrossEntropyLoss())).drift.faults
    assert any("within class 2" in fault or "within 2" in fault for fault in faults), faults
    assert not any("within class 3" in fault for fault in faults)
