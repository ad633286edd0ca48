"""Tests of drift and of different preprocessing between splits."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.metrics import roc_auc_score
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.tools.data.domain_classifier import _area_by_chance, _fit_forest

from .setups import digits, profile_of, profile_of_inputs


def tables(seed: int = 0, rows: int = 1500) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 5, generator=generator), torch.randint(0, 3, (rows,), generator=generator)


@pytest.mark.parametrize("seed", range(3))
def test_random_split_of_digits_has_no_drift(seed: int) -> None:
    drift = profile_of_inputs(*digits(seed)).drift
    assert drift.faults == []
    assert drift.comparisons[0].classifier is not None
    assert not drift.comparisons[0].classifier.tells_splits_apart


@pytest.mark.parametrize("shift", [0.3, 1.0])
def test_shift_of_one_column_is_found_and_largest(shift: float) -> None:
    (x, y), (other, labels) = tables(0), tables(1)
    other[:, 3] += shift
    frame = profile_of_inputs((x, y), (other, labels)).drift.to_frame()
    assert frame.query("shifted")["feature"].tolist() == ["column 3"]
    assert frame["mean_shift"][0] == pytest.approx(shift, abs=0.12)


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
        (lambda x: (x - 0.2) / 0.6, "one split lacks this normalization, or has it twice"),
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
