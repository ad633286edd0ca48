"""The browser of a DataFrame: labels or scores in some columns, metadata in all others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nbdebug
from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable


def frame() -> pd.DataFrame:
    return pd.DataFrame({"label": ["a", "b", None, "b"], "pred": ["a", "a", "a", "c"], "age": [4, 3, 2, 1]})


def table(given: object, **options: object) -> ClassificationTable:
    found = nbdebug.errors(given, **options).table  # type: ignore[arg-type]
    assert isinstance(found, ClassificationTable)
    return found


def test_a_frame_names_its_columns() -> None:
    given = frame()
    found = table(given, target="label", prediction="pred")
    assert (found.classes, found.target.tolist(), found.prediction.tolist()) == (
        ("a", "b", "c"),
        [0, 1, -1, 1],
        [0, 0, 0, 2],
    )
    assert {name: one.tolist() for name, one in found.columns.items()} == {"age": [4, 3, 2, 1]}
    same = nbdebug.errors(predictions=given, targets="label", prediction="pred", columns={"more": [1, 2, 3, 4]})
    assert same.table.columns["more"].tolist() == [1, 2, 3, 4]
    named = table(given, target="label", prediction="pred", class_names=["c", "b", "a"])
    assert named.target.tolist() == [2, 1, -1, 1]
    pd.testing.assert_frame_equal(given, frame())


@pytest.mark.parametrize("kind", ["int64", "Int64", "float64", "category"])
def test_numbers_may_be_missing(kind: str) -> None:
    numbers = pd.Series([0, 2, 1] if kind == "int64" else [0, 2, None]).astype(kind)
    found = table(pd.DataFrame({"target": numbers, "prediction": [0, 1, 1]}))
    wanted = [0, 2, 1] if kind == "int64" else [0, 2, -1]
    assert [int(found.classes[one].split(".")[0]) if one >= 0 else -1 for one in found.target] == wanted


def test_scores_are_columns_of_classes() -> None:
    scores = np.random.default_rng(0).dirichlet(np.ones(3), 20).astype(np.float32)
    given = pd.DataFrame(scores, columns=["p0", "p1", "p2"]).assign(y=np.arange(20) % 3, site="x")
    found = table(given, target="y", scores=["p0", "p1", "p2"])
    wanted = ClassificationTable.from_arrays(scores, np.arange(20) % 3)
    assert found.prediction.tolist() == wanted.prediction.tolist()
    np.testing.assert_array_equal(found.columns["loss"], wanted.columns["loss"])
    assert {*found.columns} == {*wanted.columns, "site"}
    texts = given.assign(y=[["p2", "p0", "p1"][row % 3] for row in range(20)])
    by_name = table(texts, target="y", scores=["p0", "p1", "p2"])
    assert by_name.classes == ("p0", "p1", "p2")
    assert by_name.target.tolist() == [[2, 0, 1][row % 3] for row in range(20)]


def test_a_frame_that_to_frame_gave_comes_back() -> None:
    first = ClassificationTable.from_arrays(
        np.eye(3)[[0, 1, 2, 1]], [0, 1, 1, 1], index=[5, 9, 2, 7], columns={"age": [1, 2, 3, 4]}
    )
    again = table(first.to_frame())
    pd.testing.assert_frame_equal(again.to_frame(), first.to_frame())


def test_what_does_not_fit_is_said() -> None:
    with pytest.raises(SetupError, match="column is 'target'; expected one of label, pred, age"):
        nbdebug.errors(frame())
    with pytest.raises(SetupError, match="column is 'prediction'; expected one of label, pred, age"):
        nbdebug.errors(frame(), target="label")
    with pytest.raises(SetupError, match="class_names lacks 'b'"):
        nbdebug.errors(frame(), target="label", prediction="pred", class_names=["a", "c"])
