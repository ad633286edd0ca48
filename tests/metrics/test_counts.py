"""What is computed from a confusion matrix agrees with scikit-learn, and its intervals hold their level."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn import metrics as theirs

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


def labels(classes: int = 7, rows: int = 2000, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    target = random.choice(classes, rows, p=random.dirichlet(np.ones(classes)))
    wrong = random.random(rows) < 0.3
    return target, np.where(wrong, random.integers(0, classes, rows), target)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
@pytest.mark.parametrize("classes", [2, 7, 40])
def test_the_matrix_is_that_of_scikit_learn(classes: int, dtype: type) -> None:
    target, prediction = labels(classes)
    found = confusion_matrix(target.astype(dtype), prediction.astype(dtype), classes)
    assert found.tolist() == theirs.confusion_matrix(target, prediction, labels=range(classes)).tolist()


def test_rows_without_a_label_are_not_counted() -> None:
    target, prediction = np.array([0, 1, -1, 1]), np.array([0, 1, 1, -1])
    assert confusion_matrix(target, prediction, 2).tolist() == [[1, 0], [0, 1]]
    assert confusion_matrix(target[:0], prediction[:0], 2).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("classes", [2, 7])
def test_every_number_is_that_of_scikit_learn(classes: int, seed: int) -> None:
    target, prediction = labels(classes, seed=seed)
    matrix = confusion_matrix(target, prediction, classes)
    precision, recall, score, support = theirs.precision_recall_fscore_support(
        target, prediction, labels=range(classes), zero_division=np.nan
    )
    found = per_class_metrics(matrix)
    np.testing.assert_array_equal(found.precision.value, precision)
    np.testing.assert_array_equal(found.recall.value, recall)
    np.testing.assert_allclose(found.f1.value, score, rtol=1e-15)
    assert found.support.tolist() == support.tolist()
    assert accuracy(matrix) == theirs.accuracy_score(target, prediction)
    assert balanced_accuracy(matrix) == theirs.balanced_accuracy_score(target, prediction)
    for average in ("macro", "weighted"):
        wanted = theirs.f1_score(target, prediction, average=average, zero_division=0)
        assert f1_score(matrix, average) == pytest.approx(wanted, rel=1e-14)
    assert matthews_correlation(matrix) == pytest.approx(theirs.matthews_corrcoef(target, prediction), rel=1e-12)
    assert cohen_kappa(matrix) == pytest.approx(theirs.cohen_kappa_score(target, prediction), rel=1e-12)


def test_a_class_that_never_occurs_has_no_share() -> None:
    found = per_class_metrics(np.array([[3, 1, 0], [0, 2, 0], [0, 0, 0]]))
    assert np.isnan(found.recall.value[2])
    assert np.isnan(found.precision.low[2])
    assert found.to_frame(["a", "b", "c"]).loc["b", "precision"] == 2 / 3


@pytest.mark.parametrize(("share", "trials"), [(0.5, 20), (0.95, 30), (0.02, 200)])
def test_an_interval_holds_its_level(share: float, trials: int) -> None:
    hits = np.random.default_rng(0).binomial(trials, share, 20_000)
    low, high = wilson_interval(hits, trials)
    assert 0.92 < float(((low <= share) & (share <= high)).mean()) < 0.98


def test_an_interval_of_f1_holds_its_level() -> None:
    random, held = np.random.default_rng(1), []
    chances = np.array([0.15, 0.05, 0.1, 0.7])  # right, missed, taken wrongly, neither
    true = 2 * 0.15 / (2 * 0.15 + 0.15)
    for right, missed, wrong, neither in random.multinomial(300, chances, 2000):
        found = per_class_metrics(np.array([[right, missed], [wrong, neither]])).f1
        held.append(found.low[0] <= true <= found.high[0])
    assert 0.92 < np.mean(held) < 0.98


def test_pairs_come_by_their_counts_and_both_ways() -> None:
    first, second = confused_pairs(np.array([[50, 9, 0], [2, 40, 0], [0, 5, 30]]), limit=2)
    assert (first.target, first.prediction, first.count, first.back) == (0, 1, 9, 2)
    assert (second.target, second.prediction) == (2, 1)
    assert first.low < first.share == 9 / 59 < first.high
    assert confused_pairs(np.diag([3, 4])) == []


def test_classes_that_are_confused_come_beside_each_other() -> None:
    matrix = np.diag([50] * 6)
    for a, b in ((0, 3), (1, 4), (2, 5)):
        matrix[a, b] = matrix[b, a] = 20
    order = order_by_confusion(matrix)
    assert sorted(order) == list(range(6))
    assert all(abs(order.index(a) - order.index(b)) == 1 for a, b in ((0, 3), (1, 4), (2, 5)))
    assert order_by_confusion(np.eye(2, dtype=np.int64)) == [0, 1]
