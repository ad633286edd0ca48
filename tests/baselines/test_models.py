"""Tests of the scores of baseline models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import entropy
from sklearn.dummy import DummyClassifier, DummyRegressor
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, mean_absolute_error, mean_squared_error

from nbdebug.baselines.models import (
    score_constant_classes,
    score_constant_values,
    score_shuffled_classes,
    score_shuffled_values,
)
from tests.baselines.random_predictions import PREDICTED_VALUES, PROBABILITIES, ROWS, TARGET, TARGET_VALUES

RANDOM = np.random.default_rng(1)


def test_score_constant_classes_matches_dummy_classifier() -> None:
    training_target = RANDOM.choice(4, 500, p=[0.45, 0.3, 0.2, 0.05])
    majority, prior = score_constant_classes(ROWS, TARGET, training_target, "abcd")
    dummy = (
        DummyClassifier(strategy="most_frequent").fit(np.zeros((500, 1)), training_target).predict(np.zeros((300, 1)))
    )
    assert majority.value("accuracy") == pytest.approx(accuracy_score(TARGET, dummy))
    assert majority.value("balanced accuracy") == pytest.approx(balanced_accuracy_score(TARGET, dummy))
    assert majority.description == "always a"
    class_shares = (np.bincount(training_target) + 0.5) / 502
    assert prior.value("log loss") == pytest.approx(log_loss(TARGET, np.tile(class_shares, (300, 1))))


def test_score_constant_classes_log_loss_of_prior_equals_entropy() -> None:
    target = np.repeat(TARGET, 1000)
    _, prior = score_constant_classes(np.arange(len(target)), target, target, "abcd")
    assert prior.value("log loss") == pytest.approx(entropy(np.bincount(target) / len(target)), abs=1e-5)
    assert prior.value("accuracy") == pytest.approx(((np.bincount(target) / len(target)) ** 2).sum(), abs=1e-5)


def test_score_constant_values_matches_dummy_regressor() -> None:
    training_target = RANDOM.normal(size=200)
    for scores, strategy in zip(
        score_constant_values(ROWS, TARGET_VALUES, training_target), ("mean", "median"), strict=True
    ):
        dummy = DummyRegressor(strategy=strategy).fit(np.zeros((200, 1)), training_target).predict(np.zeros((300, 1)))
        assert scores.value("mean squared error") == pytest.approx(mean_squared_error(TARGET_VALUES, dummy))
        assert scores.value("mean absolute error") == pytest.approx(mean_absolute_error(TARGET_VALUES, dummy))


def test_score_shuffled_classes_equals_mean_over_other_rows() -> None:
    label = PROBABILITIES.argmax(1)
    scores = score_shuffled_classes(ROWS, TARGET, label, PROBABILITIES)
    other_rows = ~np.eye(300, dtype=bool)
    hits = (label[None, :] == TARGET[:, None]) & other_rows
    assert scores.value("accuracy") == pytest.approx(hits.sum() / other_rows.sum())
    logs = -np.log(PROBABILITIES).T[TARGET]
    assert scores.value("log loss") == pytest.approx(logs[other_rows].mean())
    shuffles = [np.random.default_rng(i).permutation(300) for i in range(300)]
    assert scores.value("accuracy") == pytest.approx(np.mean([np.mean(label[p] == TARGET) for p in shuffles]), abs=4e-3)


def test_score_shuffled_values_equals_mean_over_other_rows() -> None:
    scores = score_shuffled_values(ROWS, TARGET_VALUES, PREDICTED_VALUES)
    other_rows = ~np.eye(300, dtype=bool)
    errors = TARGET_VALUES[:, None] - PREDICTED_VALUES[None, :]
    assert scores.value("mean squared error") == pytest.approx((errors**2)[other_rows].mean())
    assert scores.value("mean absolute error") == pytest.approx(np.abs(errors)[other_rows].mean())
