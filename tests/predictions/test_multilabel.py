"""Tests of MultiLabelTable: metrics, thresholds and grid cells."""

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


def make_scores(rows: int = 200, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    target = random.random((rows, 4)) < [0.5, 0.3, 0.1, 0.0]
    return (random.normal(0, 1, target.shape) + 2 * target - 1).astype(np.float32), target


@pytest.mark.parametrize("seed", range(3))
def test_multilabel_metrics_equal_scikit_learn(seed: int) -> None:
    scores, target = make_scores(seed=seed)
    table = MultiLabelTable.from_arrays(scores, target, class_names=NAMES)
    labels = (target, scores > 0)
    precision, recall, f1, support = sk.precision_recall_fscore_support(*labels, zero_division=np.nan)
    per_label = table.per_label_metrics
    np.testing.assert_array_equal(per_label.precision.value, precision)
    np.testing.assert_array_equal(per_label.recall.value, recall)
    np.testing.assert_allclose(per_label.f1.value, f1, rtol=1e-15)
    np.testing.assert_array_equal(per_label.support, support)
    assert table.metrics["exact_match"].value == sk.accuracy_score(*labels)
    assert table.metrics["hamming_loss"].value == pytest.approx(sk.hamming_loss(*labels), rel=1e-15)
    for average in ("micro", "macro"):
        expected = sk.f1_score(*labels, average=average, zero_division=0)
        assert table.metrics[f"{average}_f1"].value == pytest.approx(expected, rel=1e-15)
    matrices = sk.multilabel_confusion_matrix(*labels)
    assert table.grid.counts.tolist() == [[m[1, 1], m[1, 0], m[0, 1], m[0, 0]] for m in matrices]
    assert list(table.per_label_metrics.to_frame(table.labels).index) == list(NAMES)


def test_multilabel_intervals_cover_true_metrics_at_nominal_rate() -> None:
    true_metrics = {
        name: estimate.value
        for name, estimate in MultiLabelTable.from_arrays(*make_scores(200_000, 99)).metrics.items()
    }
    hits = dict.fromkeys(true_metrics, 0)
    for seed in range(300):
        for name, estimate in MultiLabelTable.from_arrays(*make_scores(300, seed)).metrics.items():
            hits[name] += estimate.low <= true_metrics[name] <= estimate.high
    assert all(0.9 <= count / 300 <= 0.99 for count in hits.values()), hits


def test_multilabel_grid_cell_selects_its_rows() -> None:
    scores, target = make_scores()
    table = MultiLabelTable.from_arrays(scores, target, class_names=NAMES)
    prediction = scores > 0
    cell_masks = (target & prediction, target & ~prediction, ~target & prediction, ~target & ~prediction)
    for label in range(4):
        for column, mask in enumerate(cell_masks):
            assert table.rows_in_cell(label, column).tolist() == np.flatnonzero(mask[:, label]).tolist()
            assert len(table.rows_in_cell(label, column)) == table.grid.counts[label, column]
    page = table.page(Query(cells=((1, 1), (2, 1)), count=5))
    assert page.total == int((cell_masks[1][:, 1] | cell_masks[1][:, 2]).sum())
    assert (np.diff(table.columns["loss"][page.rows]) <= 0).all()
    assert table.right.tolist() == (target == prediction).all(1).tolist()
    assert table.grid.correct_columns == (0, 3)


def test_multilabel_loss_equals_torch_binary_cross_entropy() -> None:
    scores, target = make_scores()
    logits, float_target = torch.as_tensor(scores), torch.as_tensor(target).float()
    loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, float_target, reduction="none").mean(1)
    for predictions in (scores, logits.sigmoid()):
        table = MultiLabelTable.from_arrays(predictions, target)
        np.testing.assert_allclose(table.columns["loss"], loss.numpy(), rtol=2e-5)
        assert table.prediction.tolist() == (scores >= 0).tolist()
    certain_table = MultiLabelTable.from_arrays(np.array([[1.0, 0.0]], np.float32), [[0, 0]], form="probabilities")
    assert certain_table.columns["loss"].tolist() == [50]


def test_multilabel_with_threshold_recomputes_predictions() -> None:
    scores, target = make_scores()
    table = MultiLabelTable.from_arrays(scores, target, class_names=NAMES)
    strict_table = table.with_threshold(0.9)
    assert strict_table.prediction.tolist() == (table.chances >= np.float32(0.9)).tolist()
    assert strict_table.counts.sum() == table.counts.sum()
    per_label = table.with_threshold([0.1, 0.2, 0.3, 0.4]).with_threshold({"dog": 0.6})
    np.testing.assert_allclose(per_label.thresholds, [0.1, 0.6, 0.3, 0.4], rtol=1e-6)
    assert per_label.columns["wrong labels"].tolist() == (per_label.prediction != target).sum(1).tolist()
    subset = per_label.take([5, 2, 7, 100, 9])
    assert subset.prediction.tolist() == per_label.prediction[[5, 2, 7, 100, 9]].tolist()
    assert subset.thresholds.tolist() == per_label.thresholds.tolist()
    assert (
        MultiLabelTable.from_arrays(scores, target, threshold=0.9).prediction.tolist()
        == strict_table.prediction.tolist()
    )
    with pytest.raises(SetupError, match="threshold is for 'ox'; expected one of cat, dog"):
        table.with_threshold({"ox": 0.5})
    with pytest.raises(SetupError, match="threshold has 3 values; expected 4"):
        table.with_threshold([0.1, 0.2, 0.3])
    with pytest.raises(SetupError, match="threshold needs scores"):
        MultiLabelTable.from_arrays(target, target).with_threshold(0.5)


def test_multilabel_describe_row_lists_labels() -> None:
    table = MultiLabelTable.from_arrays(
        np.array([[1, 0, 1, 0], [0, 0, 0, 0]]), [[1, 1, 0, 0], [0, 0, 0, 0]], class_names=NAMES
    )
    assert table.describe_row(0) == {"target": "cat, dog", "prediction": "cat, cow"}
    assert table.describe_row(1) == {"target": "none", "prediction": "none"}
    assert table.severity_column == "wrong labels"
    assert table.page(Query()).rows.tolist() == [0, 1]
    assert table.headline().endswith("all labels correct in 50.0% (9.5% to 90.5%) of 2 samples")
    assert table.to_frame()["prediction cow"].tolist() == [True, False]


def test_multilabel_nan_scores_predict_no_label() -> None:
    scores, target = make_scores(10)
    scores[2] = np.nan
    table = MultiLabelTable.from_arrays(scores, target)
    assert not table.prediction[2].any()
    assert "1 rows have a non-finite score, which reaches no threshold" in table.notes


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        ((np.zeros((2, 3)), np.zeros((2, 2))), {}, "predictions has shape (2, 3); expected (2, 2)"),
        ((np.zeros((3, 2)), np.zeros((2, 2))), {}, "predictions has 3 rows; expected 2"),
        ((np.zeros((2, 2)), np.full((2, 2), 0.3)), {}, "targets holds 0.3; expected 0 and 1"),
        ((np.zeros((2, 2)), [["a"], ["b"]]), {}, "targets has shape (2, 1); expected rows × labels of 0 and 1"),
        ((np.zeros((2, 2)), np.zeros((2, 2))), {"class_names": ["a"]}, "class_names has 1 names; expected 2"),
    ],
)
def test_multilabel_from_arrays_with_mismatched_data_raises(arrays: Any, options: Any, message: str) -> None:
    with pytest.raises(SetupError) as error:
        MultiLabelTable.from_arrays(*arrays, **options)
    assert message in str(error.value)
