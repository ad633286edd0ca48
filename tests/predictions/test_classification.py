"""Tests of ClassificationTable and ConfusionCells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.classification import ConfusionCells


def make_logits(rows: int = 400, classes: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, classes, (rows,), generator=generator)
    scores = torch.randn(rows, classes, generator=generator)
    scores[torch.arange(rows), target] += 1.5
    return scores, target


def test_classification_columns_equal_torch() -> None:
    scores, target = make_logits()
    table = ClassificationTable.from_arrays(scores, target)
    probabilities = scores.softmax(1)
    top = probabilities.topk(5, 1)
    assert table.prediction.tolist() == scores.argmax(1).tolist()
    assert table.top.tolist() == top.indices.tolist()
    expected = {
        "loss": torch.nn.functional.cross_entropy(scores, target, reduction="none"),
        "confidence": probabilities.max(1).values,
        "margin": top.values[:, 0] - top.values[:, 1],
        "entropy": torch.distributions.Categorical(logits=scores).entropy(),
    }
    for name, values in expected.items():
        np.testing.assert_allclose(table.columns[name], values.numpy(), rtol=2e-5, atol=1e-6)
    probability_table = ClassificationTable.from_arrays(probabilities, target)
    assert probability_table.notes == ("predictions are interpreted as probabilities",)
    np.testing.assert_allclose(probability_table.columns["loss"], table.columns["loss"], rtol=1e-4, atol=1e-6)


def test_classification_loss_beyond_smallest_probability_is_finite() -> None:
    scores, target = torch.tensor([[0.0, 200.0, 3.0], [90.0, 0.0, -50.0]]), torch.tensor([0, 2])
    table = ClassificationTable.from_arrays(scores, target)
    expected = torch.nn.functional.cross_entropy(scores, target, reduction="none")
    np.testing.assert_allclose(table.columns["loss"], expected.numpy(), rtol=1e-6)
    assert (table.columns["entropy"] >= 0).all()


def test_classification_with_many_classes_has_top_classes_of_torch() -> None:
    scores, target = make_logits(300, 500)
    table = ClassificationTable.from_arrays(scores, target)
    assert table.top.tolist() == scores.topk(5, 1).indices.tolist()


@pytest.mark.parametrize(
    ("predictions", "targets"),
    [
        (["cat", "dog", "dog"], ["cat", "dog", "cat"]),
        (np.array([0, 1, 1]), np.array([0, 1, 0])),
        (torch.tensor([0.0, 1.0, 1.0]), torch.tensor([[0], [1], [0]])),
        (np.array([False, True, True]), [0, 1, 0]),
        (np.array([0.2, 0.7, 0.9]), np.array([[1, 0], [0, 1], [1, 0]])),
        (torch.tensor([-1.5, 2.5, 0.5]), torch.tensor([0, 1, 0])),
        (np.array([[0.8, 0.2], [0.3, 0.7], [0.1, 0.9]]), ["a", "b", "a"]),
    ],
    ids=[
        "text labels",
        "integer labels",
        "float labels",
        "boolean labels",
        "probabilities of second class",
        "logits of second class",
        "probabilities with text targets",
    ],
)
def test_classification_from_arrays_accepts_all_formats(predictions: Any, targets: Any) -> None:
    table = ClassificationTable.from_arrays(predictions, targets)
    assert table.matrix.tolist() == [[1, 1], [0, 1]]
    assert table.right.tolist() == [True, True, False]
    assert len(table.to_frame()) == 3


def test_classification_class_names_come_from_option_or_labels() -> None:
    table = ClassificationTable.from_arrays(["dog", "cat"], ["dog", "dog"], class_names=["dog", "cat", "cow"])
    assert table.classes == ("dog", "cat", "cow")
    assert table.to_frame().prediction.tolist() == ["dog", "cat"]
    assert ClassificationTable.from_arrays(np.array([0, 2]), np.array([0, 1])).classes == ("0", "1", "2")


def test_classification_ignored_labels_are_in_no_cell() -> None:
    table = ClassificationTable.from_arrays(
        np.array([0, 1, 1]), np.array([0, -100, 255]), class_names=["a", "b"], ignore_index=255
    )
    assert table.matrix.tolist() == [[1, 0], [0, 0]]
    assert table.to_frame().target.tolist() == ["a", "", ""]


def test_classification_nan_scores_have_no_prediction() -> None:
    scores, target = make_logits(10)
    scores[3, 2] = torch.nan
    table = ClassificationTable.from_arrays(scores, target)
    assert table.prediction[3] == -1
    assert np.isnan(table.columns["loss"][3])
    assert table.matrix.sum() == 9
    assert "1 rows have a non-finite score and no prediction" in table.notes


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
    [
        (([0, 1], [0, 1, 1]), {}, "targets has 3 rows and predictions 2; expected equal numbers"),
        ((np.zeros((2, 3, 4), np.float32), [0, 1]), {}, "predictions has shape (2, 3, 4); expected rows × classes"),
        ((np.zeros((2, 3), np.float32), [0, 5]), {}, "targets go up to 5; expected less than 3"),
        (([0, 1], np.array([[0.3, 0.6], [0.5, 0.5]])), {}, "targets has shape (2, 2); expected one label per row"),
        (([0, 1], [0.5, 1.0]), {}, "targets holds fractions; expected class labels"),
        (([0, 1], [0, 1]), {"class_names": ["a"]}, "class_names has 1 names; expected 2"),
        (([0, 1], [0, 1]), {"class_names": ["a", "a"]}, "class_names has duplicates"),
        (([0, 1], [0, 1]), {"columns": {"age": [1]}}, "column 'age' has 1 rows; expected 2"),
        (([0, 1], [0, 1]), {"index": [1, 2, 3]}, "index has 3 rows; expected 2"),
        ((["a", "b"], ["a", "a"]), {"class_names": ["a"]}, "class_names lacks 'b'"),
    ],
)
def test_classification_from_arrays_with_mismatched_data_raises(
    arrays: tuple[Any, Any], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SetupError) as error:
        ClassificationTable.from_arrays(*arrays, **options)
    assert message in str(error.value)


@pytest.mark.parametrize("limit", [1, 7, 1000])
def test_confusion_cells_list_rows_by_loss(limit: int) -> None:
    random = np.random.default_rng(0)
    target, prediction = random.integers(-1, 4, 5000), random.integers(0, 4, 5000)
    loss = random.random(5000).astype(np.float32)
    cells = ConfusionCells(target, prediction, 4, loss)
    for i, j in ((0, 0), (2, 3)):
        cell_rows = np.flatnonzero((target == i) & (prediction == j))
        assert cells.count(i, j) == len(cell_rows)
        assert cells.all_rows(i, j).tolist() == cell_rows.tolist()
        assert (
            cells.rows(i, j, limit).tolist() == cell_rows[np.argsort(-loss[cell_rows], kind="stable")][:limit].tolist()
        )
    assert (
        cells.matrix.tolist()
        == ClassificationTable(target=target, prediction=prediction, classes=tuple("abcd")).matrix.tolist()
    )


def test_classification_take_keeps_index_and_columns() -> None:
    scores, target = make_logits(20)
    table = ClassificationTable.from_arrays(scores, target, index=range(100, 120), columns={"age": np.arange(20)})
    wrong_rows = table.take(np.flatnonzero(~table.right))
    assert not wrong_rows.right.any()
    assert wrong_rows.to_frame().index.tolist() == (100 + wrong_rows.columns["age"]).tolist()
