"""Tests of concept shift: the relation of inputs and targets, apart from a shift of the inputs."""

from __future__ import annotations

import torch
from sklearn.datasets import load_breast_cancer
from torch import Tensor

from nbdebug.tools.data.drift_data import SplitComparison

from .setups import profile_of_inputs


def splits(seed: int) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
    loaded = load_breast_cancer()
    x, y = torch.tensor(loaded.data, dtype=torch.float32), torch.tensor(loaded.target)
    x = (x - x.mean(0)) / x.std(0)
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(seed))
    return (x[order[:300]], y[order[:300]]), (x[order[300:]], y[order[300:]])


def compare(train: tuple[Tensor, Tensor], val: tuple[Tensor, Tensor]) -> SplitComparison:
    return profile_of_inputs(train, val).drift.comparisons[0]


def test_equal_splits_have_the_same_relation() -> None:
    comparison = compare(*splits(0))
    assert comparison.concept is not None
    assert comparison.concept.is_decidable
    assert comparison.kind_text == "no shift"
    assert comparison.faults == []


def test_other_labels_of_the_same_inputs_are_a_concept_shift() -> None:
    train, (x, y) = splits(1)
    y = torch.where(x[:, 0] > 0, 1 - y, y)
    comparison = compare(train, (x, y))
    assert comparison.concept is not None
    assert comparison.concept.transferred > comparison.concept.own + 0.5
    assert "concept shift" in comparison.kind_text
    assert any("relation of inputs and targets differs" in text for text in comparison.faults)


def test_other_inputs_with_the_same_relation_are_a_covariate_shift() -> None:
    train, (x, y) = splits(2)
    is_large = x[:, 4] > x[:, 4].quantile(0.3)
    comparison = compare(train, (x[is_large], y[is_large]))
    assert comparison.kind_text.startswith("covariate shift")
    assert "concept" not in comparison.kind_text


def test_inputs_that_do_not_overlap_leave_the_question_open() -> None:
    (x, y), (other, labels) = splits(3)
    other = other + torch.linspace(-9, 9, 30)
    comparison = compare((x, y), (other, labels))
    assert comparison.concept is None or not comparison.concept.is_decidable
    assert comparison.kind_text == ""
