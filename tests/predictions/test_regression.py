"""The table of real numbers: scikit-learn's metrics to the last digit, intervals that hold, patterns in words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from nbdebug.exceptions import SetupError
from nbdebug.metrics.regression import residual_metrics, residual_pattern
from nbdebug.predictions.regression import RegressionTable
from nbdebug.predictions.table import Query


def drawn(rows: int = 300, outputs: int = 1, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    target = random.normal(2, 3, (rows, outputs))
    return target + random.normal(0.4, 1, target.shape), target


@pytest.mark.parametrize("seed", range(3))
def test_metrics_are_those_of_scikit_learn(seed: int) -> None:
    prediction, target = drawn(outputs=2, seed=seed)
    table = RegressionTable.from_arrays(prediction, target, output_names=["a", "b"])
    for i, name in enumerate("ab"):
        found, both = table.metrics[name], (target[:, i], prediction[:, i])
        assert found["rmse"].value == sk.root_mean_squared_error(*both)
        assert found["mae"].value == sk.mean_absolute_error(*both)
        assert found["r2"].value == sk.r2_score(*both)
        assert all(one.low < one.value < one.high for one in found.values())
    assert table.headline().startswith("mean RMSE 1.0")
    assert "300 samples" in table.headline()


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    truth = {"rmse": np.sqrt(1.16), "mae": 0.8687, "r2": 1 - 1.16 / 9, "bias": 0.4}
    hits = dict.fromkeys(truth, 0)
    for seed in range(400):
        prediction, target = drawn(200, seed=seed)
        found = residual_metrics(target[:, 0], prediction[:, 0])
        for name, value in truth.items():
            hits[name] += found[name].low <= value <= found[name].high
    assert all(0.91 <= count / 400 <= 0.985 for count in hits.values()), hits


def test_columns_and_words() -> None:
    table = RegressionTable.from_arrays(
        torch.tensor([1.0, 5.0, 2.0]), [1.5, 2.0, 2.0], index=[7, 8, 9], columns={"age": [1, 2, 3]}
    )
    assert list(table.columns) == ["loss", "target", "prediction", "residual", "age"]
    assert table.columns["loss"].tolist() == [0.25, 9.0, 0.0]
    assert table.columns["residual"].tolist() == [0.5, -3.0, 0.0]
    assert table.page(Query(count=1)).rows.tolist() == [1]
    assert table.describe_row(1) == {"target": "2", "prediction": "5"}
    assert table.right is None
    assert table.grid is None
    assert table.to_frame().index.tolist() == [7, 8, 9]
    assert RegressionTable.from_arrays([1, 5], [2, 2], loss="absolute").columns["loss"].tolist() == [1, 3]
    assert table.take([2, 1]).describe_row(1)["prediction"] == "5"


def test_many_outputs_have_a_worst_one() -> None:
    prediction, target = drawn(20, 12)
    prediction[3, 5] = 99
    table = RegressionTable.from_arrays(prediction, target)
    assert list(table.columns) == ["loss", "worst output", "worst residual"]
    assert table.columns["worst output"][3] == "5"
    assert table.columns["worst residual"][3] == target[3, 5] - 99
    assert table.describe_row(3)["prediction"].startswith("5 99, ")
    assert "worst is 5" in table.headline()


def test_rows_without_a_number_count_in_no_metric() -> None:
    prediction, target = drawn(50)
    wanted = RegressionTable.from_arrays(prediction[2:], target[2:]).metrics
    prediction[0], target[1] = np.nan, np.inf
    table = RegressionTable.from_arrays(prediction, target)
    assert table.metrics == wanted
    assert "2 rows have a non-finite value and are left out of the metrics" in table.notes
    nothing = RegressionTable.from_arrays([np.nan], [1.0])
    assert np.isnan(nothing.metrics[""]["rmse"].value)
    assert nothing.headline()
    same = RegressionTable.from_arrays(prediction[2:], np.ones(48)).metrics[""]
    assert np.isnan(same["r2"].value)
    assert RegressionTable.from_arrays([1.0], [2.0]).metrics[""]["rmse"].value == 1


@pytest.mark.parametrize(
    ("given", "named", "said"),
    [
        (([1.0], [1.0, 2.0]), {}, "predictions has 1 rows; expected 2"),
        ((np.zeros((2, 3)), np.zeros((2, 2))), {}, "predictions has shape (2, 3); expected (2, 2)"),
        (
            (np.zeros((2, 3, 1)), np.zeros((2, 3, 1))),
            {},
            "targets has shape (2, 3, 1); expected rows, or rows × outputs",
        ),
        ((["a"], [1.0]), {}, "predictions holds <U1; expected real numbers"),
        ((np.zeros((2, 3)), np.zeros((2, 3))), {"output_names": ["a"]}, "output_names has 1 names; expected 3"),
        (([1.0], [1.0]), {"loss": [1.0, 2.0]}, "loss has 2 rows; expected 1"),
        (([1.0], [1.0]), {"index": [1, 2]}, "index has 2 rows; expected 1"),
    ],
)
def test_what_does_not_fit_is_refused(given: Any, named: Any, said: str) -> None:
    with pytest.raises(SetupError) as error:
        RegressionTable.from_arrays(*given, **named)
    assert said in str(error.value)


def test_patterns_are_said_where_there_are_any() -> None:
    random = np.random.default_rng(0)
    x, noise = random.uniform(0, 10, 2000), random.normal(0, 1, 2000)
    assert residual_pattern(x, noise, "age") == "Residuals show no trend with age and no change of spread."
    assert residual_pattern(x, noise + x / 3, "age").startswith("Residuals rise with age: ")
    assert residual_pattern(x, noise - x / 3, "age").startswith("Residuals fall with age: ")
    assert residual_pattern(x, noise + (x - 5) ** 2 / 8, "age").startswith("Residuals bend with age: ")
    wider = residual_pattern(x, noise * (1 + x), "age")
    assert wider.startswith("Residuals spread ")
    assert wider.endswith("times as wide in the highest tenth of age as in the lowest tenth (heteroscedastic).")
    assert "in the lowest tenth of age as in the highest" in residual_pattern(-x, noise * (1 + x), "age")
    assert residual_pattern(x[:50], noise[:50], "age").startswith("Too few distinct values of age")
    assert residual_pattern(np.ones(2000), noise, "age").startswith("Too few distinct values of age")


def test_noise_is_seldom_taken_for_a_pattern() -> None:
    said = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        said += not residual_pattern(random.normal(size=150), random.standard_t(3, 150), "x").startswith(
            "Residuals show no"
        )
    assert said <= 3
