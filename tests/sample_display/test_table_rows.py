"""Tests of feature vectors and other rows of tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris, load_wine

from nbdebug.sample_display import SampleDisplay


@pytest.mark.parametrize("load", [load_iris, load_wine, load_breast_cancer, load_diabetes])
@pytest.mark.parametrize("is_standardized", [False, True])
def test_feature_vector_is_shown_as_table_rows(load: Any, is_standardized: bool) -> None:
    data = load()
    values = (data.data - data.data.mean(0)) / data.data.std(0) if is_standardized else data.data
    card = SampleDisplay(values, feature_names=list(data.feature_names)).show(0, full=True)
    assert [name for name, _, _ in card["rows"]] == list(data.feature_names)
    assert SampleDisplay(values).show(0)["kind"] == "table"


def test_unusual_values_are_listed_first_with_robust_score() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(200, 30))
    values[:, 7] = 1.0
    values[:, 8] = random.random(200) < 0.02  # rare, but one of two
    values[3, 4], values[3, 20] = 9.0, -30.0
    samples = SampleDisplay(values)
    card, full = samples.show(3), samples.show(3, full=True)
    assert [name for name, _, _ in card["rows"]][:2] == ["feature 20", "feature 4"]
    assert (len(card["rows"]), card["more"], len(full["rows"])) == (12, 18, 30)
    median = np.median(values[:, 4])
    score = 0.6745 * (9.0 - median) / np.median(np.abs(values[:, 4] - median))
    assert card["rows"][1][2] == pytest.approx(score, rel=0.01)
    marked_counts = [
        sum(mark is not None for *_, mark in SampleDisplay(values).show(index)["rows"]) for index in range(100)
    ]
    assert np.mean(marked_counts) < 0.1


def test_missing_values_are_marked_only_where_rare() -> None:
    random = np.random.default_rng(0)
    values = random.normal(size=(100, 3))
    values[5, 0] = np.nan
    values[::2, 1] = np.nan
    samples = SampleDisplay(np.concatenate([values[:5], values[6:], values[5:6]]))
    samples.example_inputs()
    rows = {name: (text, score) for name, text, score in samples.show(99)["rows"]}
    assert rows["feature 0"][0] == "missing"
    assert SampleDisplay(values).show(2)["rows"][1] == ["feature 1", "missing", None]


def test_rows_of_frame_mapping_record_and_sparse_matrix_are_shown() -> None:
    frame = pd.DataFrame({"age": [22.0, 38.0, 4.0], "sex": ["male", "female", "<b>"]})
    assert SampleDisplay(frame).show(2)["rows"] == [["age", "4", None], ["sex", "<b>", None]]
    assert SampleDisplay([{"age": 3, "label": 1}] * 2).show(0)["rows"] == [["age", "3", None]]
    records = np.array([(1.5, 2)], dtype=[("x", "f8"), ("n", "i4")])
    assert SampleDisplay(records).show(0)["rows"] == [["x", "1.5", None], ["n", "2", None]]
    matrix = csr_matrix(([2.0, 3.0], ([0, 0], [10, 900])), shape=(2, 1_000))
    assert SampleDisplay(matrix).show(0)["rows"] == [["feature 10", "2", None], ["feature 900", "3", None]]


def test_long_row_of_zeros_is_shown_as_table() -> None:
    card = SampleDisplay(torch.zeros(20, 784)).show(0)
    assert (card["kind"], len(card["rows"]), card["more"]) == ("table", 12, 772)
