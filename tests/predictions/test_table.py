"""The prediction table of arrays in all their forms, and the way from a cell to its rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable
from nbdebug.predictions.classification import ConfusionCells


def logits(rows: int = 400, classes: int = 6, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    target = torch.randint(0, classes, (rows,), generator=generator)
    scores = torch.randn(rows, classes, generator=generator)
    scores[torch.arange(rows), target] += 1.5
    return scores, target


def test_columns_are_what_torch_computes() -> None:
    scores, target = logits()
    table = ClassificationTable.from_arrays(scores, target)
    chances = scores.softmax(1)
    best = chances.topk(5, 1)
    assert table.prediction.tolist() == scores.argmax(1).tolist()
    assert table.top.tolist() == best.indices.tolist()
    wanted = {
        "loss": torch.nn.functional.cross_entropy(scores, target, reduction="none"),
        "confidence": chances.max(1).values,
        "margin": best.values[:, 0] - best.values[:, 1],
        "entropy": torch.distributions.Categorical(logits=scores).entropy(),
    }
    for name, values in wanted.items():
        np.testing.assert_allclose(table.columns[name], values.numpy(), rtol=2e-5, atol=1e-6)
    same = ClassificationTable.from_arrays(chances, target)
    assert same.notes == ("predictions are interpreted as probabilities",)
    np.testing.assert_allclose(same.columns["loss"], table.columns["loss"], rtol=1e-4, atol=1e-6)


def test_a_loss_beyond_the_smallest_probability_is_still_a_number() -> None:
    scores, target = torch.tensor([[0.0, 200.0, 3.0], [90.0, 0.0, -50.0]]), torch.tensor([0, 2])
    table = ClassificationTable.from_arrays(scores, target)
    wanted = torch.nn.functional.cross_entropy(scores, target, reduction="none")
    np.testing.assert_allclose(table.columns["loss"], wanted.numpy(), rtol=1e-6)
    assert (table.columns["entropy"] >= 0).all()


def test_many_classes_give_the_same_best_ones() -> None:
    scores, target = logits(300, 500)
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
)
def test_labels_and_scores_of_all_kinds(predictions: Any, targets: Any) -> None:
    table = ClassificationTable.from_arrays(predictions, targets)
    assert table.matrix.tolist() == [[1, 1], [0, 1]]
    assert table.right.tolist() == [True, True, False]
    assert len(table.to_frame()) == 3


def test_names_are_those_of_the_classes() -> None:
    table = ClassificationTable.from_arrays(["dog", "cat"], ["dog", "dog"], class_names=["dog", "cat", "cow"])
    assert table.classes == ("dog", "cat", "cow")
    assert table.to_frame().prediction.tolist() == ["dog", "cat"]
    assert ClassificationTable.from_arrays(np.array([0, 2]), np.array([0, 1])).classes == ("0", "1", "2")


def test_what_is_to_be_ignored_is_in_no_cell() -> None:
    table = ClassificationTable.from_arrays(
        np.array([0, 1, 1]), np.array([0, -100, 255]), class_names=["a", "b"], ignore_index=255
    )
    assert table.matrix.tolist() == [[1, 0], [0, 0]]
    assert table.to_frame().target.tolist() == ["a", "", ""]


def test_scores_that_are_no_numbers_have_no_prediction() -> None:
    scores, target = logits(10)
    scores[3, 2] = torch.nan
    table = ClassificationTable.from_arrays(scores, target)
    assert table.prediction[3] == -1
    assert np.isnan(table.columns["loss"][3])
    assert table.matrix.sum() == 9
    assert "1 rows have a non-finite score and no prediction" in table.notes


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (([0, 1], [0, 1, 1]), "targets has 3 rows and predictions 2; expected equal numbers"),
        ((np.zeros((2, 3, 4), np.float32), [0, 1]), "predictions has shape (2, 3, 4); expected rows × classes"),
        ((np.zeros((2, 3), np.float32), [0, 5]), "targets go up to 5; expected less than 3"),
        (([0, 1], np.array([[0.3, 0.6], [0.5, 0.5]])), "targets has shape (2, 2); expected one label per row"),
        (([0, 1], [0.5, 1.0]), "targets holds fractions; expected class labels"),
    ],
)
def test_what_does_not_fit_is_refused(given: tuple[Any, Any], said: str) -> None:
    with pytest.raises(SetupError) as error:
        ClassificationTable.from_arrays(*given)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("named", "said"),
    [
        ({"class_names": ["a"]}, "class_names has 1 names; expected 2"),
        ({"class_names": ["a", "a"]}, "class_names has duplicates"),
        ({"columns": {"age": [1]}}, "column 'age' has 1 rows; expected 2"),
        ({"index": [1, 2, 3]}, "index has 3 rows; expected 2"),
    ],
)
def test_columns_and_names_must_fit(named: dict[str, Any], said: str) -> None:
    with pytest.raises(SetupError) as error:
        ClassificationTable.from_arrays([0, 1], [0, 1], **named)
    assert said in str(error.value)
    with pytest.raises(SetupError, match="class_names lacks 'b'"):
        ClassificationTable.from_arrays(["a", "b"], ["a", "a"], class_names=["a"])


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_the_worst_rows_of_a_cell_come_first(most: int) -> None:
    random = np.random.default_rng(0)
    target, prediction = random.integers(-1, 4, 5000), random.integers(0, 4, 5000)
    loss = random.random(5000).astype(np.float32)
    cells = ConfusionCells(target, prediction, 4, loss)
    for i, j in ((0, 0), (2, 3)):
        inside = np.flatnonzero((target == i) & (prediction == j))
        assert cells.count(i, j) == len(inside)
        assert cells.all_rows(i, j).tolist() == inside.tolist()
        assert cells.rows(i, j, most).tolist() == inside[np.argsort(-loss[inside], kind="stable")][:most].tolist()
    assert (
        cells.matrix.tolist()
        == ClassificationTable(target=target, prediction=prediction, classes=tuple("abcd")).matrix.tolist()
    )


def test_some_rows_make_a_table_of_their_own() -> None:
    scores, target = logits(20)
    table = ClassificationTable.from_arrays(scores, target, index=range(100, 120), columns={"age": np.arange(20)})
    some = table.take(np.flatnonzero(~table.right))
    assert not some.right.any()
    assert some.to_frame().index.tolist() == (100 + some.columns["age"]).tolist()
