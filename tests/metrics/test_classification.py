"""Tests of the metrics of a confusion matrix and their intervals."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as sk

from nbdebug.metrics.classification import (
    accuracy,
    balanced_accuracy,
    cohen_kappa,
    confused_pairs,
    confusion_matrix,
    f1_score,
    matthews_correlation,
    order_by_confusion,
    per_class_metrics,
)
from nbdebug.statistics.intervals import wilson_interval


def make_labels(classes: int = 7, rows: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target = random.choice(classes, rows, p=random.dirichlet(np.ones(classes)))
    is_wrong = random.random(rows) < 0.3
    return target, np.where(is_wrong, random.integers(0, classes, rows), target)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("classes", [2, 7, 40])
def test_confusion_matrix_equals_scikit_learn(classes: int, dtype: type) -> None:
    target, prediction = make_labels(classes)
    matrix = confusion_matrix(target.astype(dtype), prediction.astype(dtype), classes)
    assert matrix.tolist() == sk.confusion_matrix(target, prediction, labels=range(classes)).tolist()


def test_confusion_matrix_leaves_out_unlabeled_rows() -> None:
    target, prediction = np.array([0, 1, -1, 1]), np.array([0, 1, 1, -1])
    assert confusion_matrix(target, prediction, 2).tolist() == [[1, 0], [0, 1]]
    assert confusion_matrix(target[:0], prediction[:0], 2).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classes", [2, 7])
def test_classification_metrics_equal_scikit_learn(classes: int, seed: int) -> None:
    target, prediction = make_labels(classes, seed=seed)
    matrix = confusion_matrix(target, prediction, classes)
    precision, recall, f1, support = sk.precision_recall_fscore_support(
        target, prediction, labels=range(classes), zero_division=np.nan
    )
    metrics = per_class_metrics(matrix)
    np.testing.assert_array_equal(metrics.precision.value, precision)
    np.testing.assert_array_equal(metrics.recall.value, recall)
    np.testing.assert_allclose(metrics.f1.value, f1, rtol=1e-15)
    assert metrics.support.tolist() == support.tolist()
    assert accuracy(matrix) == sk.accuracy_score(target, prediction)
    assert balanced_accuracy(matrix) == sk.balanced_accuracy_score(target, prediction)
    for average in ("macro", "weighted"):
        expected = sk.f1_score(target, prediction, average=average, zero_division=0)
        assert f1_score(matrix, average) == pytest.approx(expected, rel=1e-14)
    assert matthews_correlation(matrix) == pytest.approx(sk.matthews_corrcoef(target, prediction), rel=1e-12)
    assert cohen_kappa(matrix) == pytest.approx(sk.cohen_kappa_score(target, prediction), rel=1e-12)


def test_per_class_metrics_of_absent_class_are_nan() -> None:
    metrics = per_class_metrics(np.array([[3, 1, 0], [0, 2, 0], [0, 0, 0]]))
    assert np.isnan(metrics.recall.value[2])
    assert np.isnan(metrics.precision.low[2])
    assert metrics.to_frame(["a", "b", "c"]).loc["b", "precision"] == 2 / 3


@pytest.mark.parametrize(("share", "trials"), [(0.5, 20), (0.95, 30), (0.02, 200)])
def test_wilson_interval_covers_true_share_at_nominal_rate(share: float, trials: int) -> None:
    hits = np.random.default_rng(0).binomial(trials, share, 20_000)
    low, high = wilson_interval(hits, trials)
    assert 0.92 < float(((low <= share) & (share <= high)).mean()) < 0.98


def test_f1_interval_covers_true_value_at_nominal_rate() -> None:
    random, is_covered = np.random.default_rng(1), []
    probabilities = np.array([0.15, 0.05, 0.1, 0.7])  # tp, fn, fp, tn
    true_f1 = 2 * 0.15 / (2 * 0.15 + 0.15)
    for tp, fn, fp, tn in random.multinomial(300, probabilities, 2000):
        f1 = per_class_metrics(np.array([[tp, fn], [fp, tn]])).f1
        is_covered.append(f1.low[0] <= true_f1 <= f1.high[0])
    assert 0.92 < np.mean(is_covered) < 0.98


def test_confused_pairs_are_sorted_by_count_with_reverse_count() -> None:
    first_pair, second_pair = confused_pairs(np.array([[50, 9, 0], [2, 40, 0], [0, 5, 30]]), limit=2)
    assert (first_pair.target, first_pair.prediction, first_pair.count, first_pair.back) == (0, 1, 9, 2)
    assert (second_pair.target, second_pair.prediction) == (2, 1)
    assert first_pair.low < first_pair.share == 9 / 59 < first_pair.high
    assert confused_pairs(np.diag([3, 4])) == []


def test_order_by_confusion_puts_confused_classes_side_by_side() -> None:
    matrix = np.diag([50] * 6)
    for a, b in ((0, 3), (1, 4), (2, 5)):
        matrix[a, b] = matrix[b, a] = 20
    order = order_by_confusion(matrix)
    assert sorted(order) == list(range(6))
    assert all(abs(order.index(a) - order.index(b)) == 1 for a, b in ((0, 3), (1, 4), (2, 5)))
    assert order_by_confusion(np.eye(2, dtype=np.int64)) == [0, 1]
