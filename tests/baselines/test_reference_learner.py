"""Tests of the reference learner: it learns, it does not see the rows that it predicts, and it repeats itself."""

from __future__ import annotations

import random
import time
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from nbdebug.baselines.input_features import standardize_columns
from nbdebug.baselines.reference_learner import ReferenceLearner, Targets

GENERATOR = np.random.default_rng(0)


def one_hot(labels: Any) -> Any:
    return np.eye(int(labels.max()) + 1, dtype=np.float32)[labels]


def learner(x: Any, targets: Targets) -> ReferenceLearner:
    return ReferenceLearner(standardize_columns(np.asarray(x, np.float32)), targets)


DIGITS, CANCER, DIABETES = (load() for load in (load_digits, load_breast_cancer, load_diabetes))
THRESHOLDS = GENERATOR.normal(size=(600, 8))
LEARNABLE: dict[str, tuple[Any, Targets, float]] = {
    "digits": (DIGITS.data[:600], Targets("classes", one_hot(DIGITS.target[:600])), 0.94),
    "two classes": (CANCER.data, Targets("classes", one_hot(CANCER.target)), 0.95),
    "values": (DIABETES.data, Targets("values", DIABETES.target[:, None]), 0.4),
    "labels": (THRESHOLDS, Targets("labels", (THRESHOLDS[:, :4] > 0).astype(np.float32)), 0.9),
}


@pytest.mark.parametrize("name", LEARNABLE)
def test_kernel_ridge_of_learnable_targets_reaches_a_high_score(name: str) -> None:
    x, targets, least = LEARNABLE[name]
    reference = learner(x, targets)
    assert reference.kernel_ridge.score > least
    assert reference.shuffled_scores(6).max() < (reference.kernel_ridge.score + targets.constant_score) / 2


@pytest.mark.parametrize("kind", ["classes", "values"])
def test_out_of_fold_of_random_targets_is_no_better_than_a_constant(kind: Any) -> None:
    x = GENERATOR.normal(size=(500, 20))
    columns = one_hot(GENERATOR.integers(0, 4, 500)) if kind == "classes" else GENERATOR.normal(size=(500, 2))
    targets = Targets(kind, columns)
    prediction = learner(x, targets).out_of_fold()
    assert prediction.score < targets.constant_score + 0.05


def test_kernel_ridge_predicts_each_row_as_a_fit_without_it() -> None:
    x, y = np.asarray(GENERATOR.normal(size=(60, 3)), np.float32), GENERATOR.normal(size=(60, 1))
    reference = ReferenceLearner(x, Targets("values", y))
    basis = reference.fits[0]
    left_out = basis.left_out(y, 0.1)
    features, kept = basis.features.astype(np.float64), np.arange(60) != 7
    gram = features[kept].T @ features[kept] + 0.1 * np.eye(features.shape[1])
    expected = features[7] @ np.linalg.solve(gram, features[kept].T @ y[kept])
    assert left_out[7] == pytest.approx(expected, rel=0.02, abs=0.01)


@pytest.mark.parametrize(("rows", "features"), [(120, 1728), (200, 64)])
def test_kernel_ridge_of_rows_far_from_each_other_does_not_see_the_row(rows: int, features: int) -> None:
    generator = np.random.default_rng(0)
    x = np.asarray(generator.normal(size=(rows, features)), np.float32)
    reference = ReferenceLearner(x, Targets("classes", one_hot(generator.permutation(np.arange(rows) % 4))))
    assert reference.kernel_ridge.score < 0.4
    assert reference.shuffled_scores(6).max() < 0.4


@pytest.mark.parametrize("name", ["intervals", "stairs"])
def test_out_of_fold_of_steps_in_few_features_prefers_trees(name: str) -> None:
    x = np.random.default_rng(1).normal(size=(600, 8))
    intervals = (np.abs(x[:, 0]) < 0.5) * 2 + (np.abs(x[:, 1]) < 0.5)
    labels = intervals if name == "intervals" else np.floor(2 * x[:, 0]).astype(int) % 2
    prediction = learner(x, Targets("classes", one_hot(labels))).out_of_fold()
    assert prediction.learner == "a random forest"
    assert prediction.score > 0.8


@pytest.mark.parametrize("name", ["labels", "values"])
def test_out_of_fold_on_a_stalled_machine_gives_the_same_predictions(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, targets, _ = LEARNABLE[name]
    expected = learner(x, targets).out_of_fold()
    clock = iter(range(0, 10**9, 1000))
    monkeypatch.setattr(time, "perf_counter", lambda: next(clock))
    prediction = learner(x, targets).out_of_fold()
    assert prediction.learner == expected.learner
    assert np.array_equal(prediction.predictions, expected.predictions)


@pytest.mark.parametrize(("rows", "features", "grows"), [(300, 5, True), (2000, 20_000, False)])
def test_out_of_fold_grows_trees_only_on_tables_of_moderate_size(rows: int, features: int, grows: bool) -> None:
    x = np.zeros((rows, features), np.float32)
    reference = ReferenceLearner(x, Targets("values", GENERATOR.normal(size=(rows, 1))))
    assert (reference._tree_count() >= 4) == grows


def test_reference_learner_repeats_itself_and_leaves_the_generators() -> None:
    states = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state()  # type: ignore[index,union-attr]
    x, targets, _ = LEARNABLE["digits"]
    first, second = (learner(x, targets).kernel_ridge.predictions for _ in range(2))
    assert np.array_equal(first, second)
    assert states[0] == random.getstate()
    assert states[1] == np.random.get_state()[1].tolist()  # type: ignore[index,union-attr]
    assert torch.equal(states[2], torch.get_rng_state())


def test_balanced_agreement_of_the_majority_class_is_one_over_the_classes() -> None:
    labels = np.array([0] * 90 + [1] * 10)
    targets = Targets("classes", one_hot(labels))
    majority = np.tile([1.0, 0.0], (100, 1))
    assert targets.agreement(majority).mean() == pytest.approx(0.9)
    assert targets.balanced_agreement(majority).mean() == pytest.approx(0.5)
