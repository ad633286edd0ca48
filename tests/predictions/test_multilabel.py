"""The table of several labels a sample: scikit-learn's metrics to the last digit, thresholds, the way to the rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from nbdebug.exceptions import SetupError
from nbdebug.predictions.multilabel import MultiLabelTable
from nbdebug.predictions.table import Query

NAMES = ("cat", "dog", "cow", "<b>")


def drawn(rows: int = 200, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    target = random.random((rows, 4)) < [0.5, 0.3, 0.1, 0.0]
    return (random.normal(0, 1, target.shape) + 2 * target - 1).astype(np.float32), target


@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_those_of_scikit_learn(seed: int) -> None:
    scores, target = drawn(seed=seed)
    table = MultiLabelTable.from_arrays(scores, target, class_names=NAMES)
    both = (target, scores > 0)
    precision, recall, f1, support = sk.precision_recall_fscore_support(*both, zero_division=np.nan)
    found = table.per_label_metrics
    np.testing.assert_array_equal(found.precision.value, precision)
    np.testing.assert_array_equal(found.recall.value, recall)
    np.testing.assert_allclose(found.f1.value, f1, rtol=1e-15)
    np.testing.assert_array_equal(found.support, support)
    assert table.metrics["exact_match"].value == sk.accuracy_score(*both)
    assert table.metrics["hamming_loss"].value == pytest.approx(sk.hamming_loss(*both), rel=1e-15)
    for kind in ("micro", "macro"):
        wanted = sk.f1_score(*both, average=kind, zero_division=0)
        assert table.metrics[f"{kind}_f1"].value == pytest.approx(wanted, rel=1e-15)
    matrices = sk.multilabel_confusion_matrix(*both)
    assert table.grid.counts.tolist() == [[m[1, 1], m[1, 0], m[0, 1], m[0, 0]] for m in matrices]
    assert list(table.per_label_metrics.to_frame(table.labels).index) == list(NAMES)


def test_intervals_of_f1_hold_the_truth_about_as_often_as_they_say() -> None:
    truth = {name: one.value for name, one in MultiLabelTable.from_arrays(*drawn(200_000, 99)).metrics.items()}
    hits = dict.fromkeys(truth, 0)
    for seed in range(300):
        for name, found in MultiLabelTable.from_arrays(*drawn(300, seed)).metrics.items():
            hits[name] += found.low <= truth[name] <= found.high
    assert all(0.9 <= count / 300 <= 0.99 for count in hits.values()), hits


def test_a_cell_leads_to_its_rows() -> None:
    scores, target = drawn()
    table = MultiLabelTable.from_arrays(scores, target, class_names=NAMES)
    said = scores > 0
    wanted = (target & said, target & ~said, ~target & said, ~target & ~said)
    for label in range(4):
        for way, rows in enumerate(wanted):
            assert table.rows_in_cell(label, way).tolist() == np.flatnonzero(rows[:, label]).tolist()
            assert len(table.rows_in_cell(label, way)) == table.grid.counts[label, way]
    page = table.page(Query(cells=((1, 1), (2, 1)), count=5))
    assert page.total == int((wanted[1][:, 1] | wanted[1][:, 2]).sum())
    assert (np.diff(table.columns["loss"][page.rows]) <= 0).all()
    assert table.right.tolist() == (target == said).all(1).tolist()
    assert table.grid.correct_columns == (0, 3)


def test_loss_is_that_of_torch() -> None:
    scores, target = drawn()
    logits, wanted = torch.as_tensor(scores), torch.as_tensor(target).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, wanted, reduction="none").mean(1)
    for given in (scores, logits.sigmoid()):
        table = MultiLabelTable.from_arrays(given, target)
        np.testing.assert_allclose(table.columns["loss"], loss.numpy(), rtol=2e-5)
        assert table.prediction.tolist() == (scores >= 0).tolist()
    certain = MultiLabelTable.from_arrays(np.array([[1.0, 0.0]], np.float32), [[0, 0]], form="probabilities")
    assert certain.columns["loss"].tolist() == [50]


def test_other_thresholds_give_another_table() -> None:
    scores, target = drawn()
    table = MultiLabelTable.from_arrays(scores, target, class_names=NAMES)
    high = table.with_threshold(0.9)
    assert high.prediction.tolist() == (table.chances >= np.float32(0.9)).tolist()
    assert high.counts.sum() == table.counts.sum()
    each = table.with_threshold([0.1, 0.2, 0.3, 0.4]).with_threshold({"dog": 0.6})
    np.testing.assert_allclose(each.thresholds, [0.1, 0.6, 0.3, 0.4], rtol=1e-6)
    assert each.columns["wrong labels"].tolist() == (each.prediction != target).sum(1).tolist()
    some = each.take([5, 2, 7, 100, 9])
    assert some.prediction.tolist() == each.prediction[[5, 2, 7, 100, 9]].tolist()
    assert some.thresholds.tolist() == each.thresholds.tolist()
    assert MultiLabelTable.from_arrays(scores, target, threshold=0.9).prediction.tolist() == high.prediction.tolist()
    with pytest.raises(SetupError, match="threshold is for 'ox'; expected one of cat, dog"):
        table.with_threshold({"ox": 0.5})
    with pytest.raises(SetupError, match="threshold has 3 values; expected 4"):
        table.with_threshold([0.1, 0.2, 0.3])
    with pytest.raises(SetupError, match="threshold needs scores"):
        MultiLabelTable.from_arrays(target, target).with_threshold(0.5)


def test_words_of_a_row() -> None:
    table = MultiLabelTable.from_arrays(
        np.array([[1, 0, 1, 0], [0, 0, 0, 0]]), [[1, 1, 0, 0], [0, 0, 0, 0]], class_names=NAMES
    )
    assert table.describe_row(0) == {"target": "cat, dog", "prediction": "cat, cow"}
    assert table.describe_row(1) == {"target": "none", "prediction": "none"}
    assert table.severity_column == "wrong labels"
    assert table.page(Query()).rows.tolist() == [0, 1]
    assert table.headline().endswith("all labels correct in 50.0% (9.5% to 90.5%) of 2 samples")
    assert table.to_frame()["prediction cow"].tolist() == [True, False]


def test_scores_that_are_no_numbers_predict_nothing() -> None:
    scores, target = drawn(10)
    scores[2] = np.nan
    table = MultiLabelTable.from_arrays(scores, target)
    assert not table.prediction[2].any()
    assert "1 rows have a non-finite score, which reaches no threshold" in table.notes


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        ((np.zeros((2, 3)), np.zeros((2, 2))), {}, "predictions has shape (2, 3); expected (2, 2)"),
        ((np.zeros((3, 2)), np.zeros((2, 2))), {}, "predictions has 3 rows; expected 2"),
        ((np.zeros((2, 2)), np.full((2, 2), 0.3)), {}, "targets holds 0.3; expected 0 and 1"),
        ((np.zeros((2, 2)), [["a"], ["b"]]), {}, "targets has shape (2, 1); expected rows × labels of 0 and 1"),
        ((np.zeros((2, 2)), np.zeros((2, 2))), {"class_names": ["a"]}, "class_names has 1 names; expected 2"),
    ],
)
def test_what_does_not_fit_is_refused(given: Any, named: Any, said: str) -> None:
    with pytest.raises(SetupError) as error:
        MultiLabelTable.from_arrays(*given, **named)
    assert said in str(error.value)
