"""Tests of errors() on a DataFrame: columns with labels or scores, and metadata in the others."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import nbdebug
from nbdebug.exceptions import SetupError
from nbdebug.predictions import ClassificationTable


def make_frame() -> pd.DataFrame:
    return pd.DataFrame({"label": ["a", "b", None, "b"], "pred": ["a", "a", "a", "c"], "age": [4, 3, 2, 1]})


def make_table(frame: object, **options: object) -> ClassificationTable:
    table = nbdebug.errors(frame, **options).table  # type: ignore[arg-type]
    assert isinstance(table, ClassificationTable)
    return table


def test_errors_of_dataframe_with_named_columns_builds_table() -> None:
    frame = make_frame()
    table = make_table(frame, target="label", prediction="pred")
    assert (table.classes, table.target.tolist(), table.prediction.tolist()) == (
        ("a", "b", "c"),
        [0, 1, -1, 1],
        [0, 0, 0, 2],
    )
    assert {name: values.tolist() for name, values in table.columns.items()} == {"age": [4, 3, 2, 1]}
    result = nbdebug.errors(predictions=frame, targets="label", prediction="pred", columns={"more": [1, 2, 3, 4]})
    assert result.table.columns["more"].tolist() == [1, 2, 3, 4]
    reordered_table = make_table(frame, target="label", prediction="pred", class_names=["c", "b", "a"])
    assert reordered_table.target.tolist() == [2, 1, -1, 1]
    pd.testing.assert_frame_equal(frame, make_frame())


@pytest.mark.parametrize("dtype", ["int64", "Int64", "float64", "category"])
def test_errors_of_dataframe_with_missing_numbers_leaves_rows_unlabeled(dtype: str) -> None:
    numbers = pd.Series([0, 2, 1] if dtype == "int64" else [0, 2, None]).astype(dtype)
    table = make_table(pd.DataFrame({"target": numbers, "prediction": [0, 1, 1]}))
    expected = [0, 2, 1] if dtype == "int64" else [0, 2, -1]
    assert [int(table.classes[label].split(".")[0]) if label >= 0 else -1 for label in table.target] == expected


def test_errors_of_dataframe_with_score_columns_equals_table_of_arrays() -> None:
    scores = np.random.default_rng(0).dirichlet(np.ones(3), 20).astype(np.float32)
    frame = pd.DataFrame(scores, columns=["p0", "p1", "p2"]).assign(y=np.arange(20) % 3, site="x")
    table = make_table(frame, target="y", scores=["p0", "p1", "p2"])
    expected = ClassificationTable.from_arrays(scores, np.arange(20) % 3)
    assert table.prediction.tolist() == expected.prediction.tolist()
    np.testing.assert_array_equal(table.columns["loss"], expected.columns["loss"])
    assert {*table.columns} == {*expected.columns, "site"}
    text_frame = frame.assign(y=[["p2", "p0", "p1"][row % 3] for row in range(20)])
    text_table = make_table(text_frame, target="y", scores=["p0", "p1", "p2"])
    assert text_table.classes == ("p0", "p1", "p2")
    assert text_table.target.tolist() == [[2, 0, 1][row % 3] for row in range(20)]


def test_errors_of_dataframe_from_to_frame_restores_table() -> None:
    original_table = ClassificationTable.from_arrays(
        np.eye(3)[[0, 1, 2, 1]], [0, 1, 1, 1], index=[5, 9, 2, 7], columns={"age": [1, 2, 3, 4]}
    )
    restored_table = make_table(original_table.to_frame())
    pd.testing.assert_frame_equal(restored_table.to_frame(), original_table.to_frame())


def test_errors_of_dataframe_with_missing_column_or_class_raises() -> None:
    with pytest.raises(SetupError, match="column is 'target'; expected one of label, pred, age"):
        nbdebug.errors(make_frame())
    with pytest.raises(SetupError, match="column is 'prediction'; expected one of label, pred, age"):
        nbdebug.errors(make_frame(), target="label")
    with pytest.raises(SetupError, match="class_names lacks 'b'"):
        nbdebug.errors(make_frame(), target="label", prediction="pred", class_names=["a", "c"])
