"""Tests of RegressionTable and ReconstructionTable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from nbdebug.exceptions import SetupError
from nbdebug.predictions.regression import ReconstructionTable, RegressionTable
from nbdebug.predictions.table import Query


def make_predictions(rows: int = 300, outputs: int = 1, seed: int = 0) -> tuple[Any, Any]:
    random = np.random.default_rng(seed)
    target = random.normal(2, 3, (rows, outputs))
    return target + random.normal(0.4, 1, target.shape), target


@pytest.mark.parametrize("seed", range(3))
def test_regression_metrics_equal_scikit_learn(seed: int) -> None:
    prediction, target = make_predictions(outputs=2, seed=seed)
    table = RegressionTable.from_arrays(prediction, target, output_names=["a", "b"])
    for i, name in enumerate("ab"):
        metrics, columns = table.metrics[name], (target[:, i], prediction[:, i])
        assert metrics["rmse"].value == sk.root_mean_squared_error(*columns)
        assert metrics["mae"].value == sk.mean_absolute_error(*columns)
        assert metrics["r2"].value == sk.r2_score(*columns)
        assert all(estimate.low < estimate.value < estimate.high for estimate in metrics.values())
    assert table.headline().startswith("mean RMSE 1.0")
    assert "300 samples" in table.headline()


def test_regression_columns_and_descriptions_match_arrays() -> None:
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


def test_regression_with_many_outputs_names_worst_output() -> None:
    prediction, target = make_predictions(20, 12)
    prediction[3, 5] = 99
    table = RegressionTable.from_arrays(prediction, target)
    assert list(table.columns) == ["loss", "worst output", "worst residual"]
    assert table.columns["worst output"][3] == "5"
    assert table.columns["worst residual"][3] == target[3, 5] - 99
    assert table.describe_row(3)["prediction"].startswith("5 99, ")
    assert "worst is 5" in table.headline()


def test_regression_metrics_leave_out_non_finite_rows() -> None:
    prediction, target = make_predictions(50)
    expected = RegressionTable.from_arrays(prediction[2:], target[2:]).metrics
    prediction[0], target[1] = np.nan, np.inf
    table = RegressionTable.from_arrays(prediction, target)
    assert table.metrics == expected
    assert "2 rows have a non-finite value and are left out of the metrics" in table.notes
    nan_table = RegressionTable.from_arrays([np.nan], [1.0])
    assert np.isnan(nan_table.metrics[""]["rmse"].value)
    assert nan_table.headline()
    constant_target_metrics = RegressionTable.from_arrays(prediction[2:], np.ones(48)).metrics[""]
    assert np.isnan(constant_target_metrics["r2"].value)
    assert RegressionTable.from_arrays([1.0], [2.0]).metrics[""]["rmse"].value == 1


@pytest.mark.parametrize(
    ("arrays", "options", "message"),
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
def test_regression_from_arrays_with_mismatched_data_raises(arrays: Any, options: Any, message: str) -> None:
    with pytest.raises(SetupError) as error:
        RegressionTable.from_arrays(*arrays, **options)
    assert message in str(error.value)


def test_reconstruction_columns_equal_torch() -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(20, 1, 5, 5, generator=generator)
    output = target + 0.1 * torch.randn(target.shape, generator=generator)
    output[4, 0, 2, 2] += 3
    table = ReconstructionTable.from_arrays(output, target, index=range(20))
    squared_error = (output - target).square().flatten(1).mean(1)
    np.testing.assert_allclose(table.columns["loss"], squared_error.numpy(), rtol=1e-5)
    np.testing.assert_allclose(
        table.columns["unexplained"], (squared_error / target.flatten(1).var(1, correction=0)).numpy()
    )
    assert table.page(Query(count=1)).rows.tolist() == [4]
    assert table.columns["largest"][4] > 2.5
    assert table.metrics["rmse"].value == pytest.approx(float((output - target).square().mean().sqrt()), rel=1e-5)
    assert table.grid is None
    assert table.right is None
    assert table.describe_row(0)["said"].startswith(f"rmse {float(squared_error[0].sqrt()):.4g}, largest ")
    output[1] = torch.nan
    nan_table = ReconstructionTable.from_arrays(output, target)
    assert "1 samples have a non-finite value and are left out of the metrics" in nan_table.notes
    assert "RMSE 0." in nan_table.headline()
    with pytest.raises(SetupError, match=r"the target is \(20, 1, 5, 5\); expected \(20, 1, 25\)"):
        ReconstructionTable.from_arrays(output.flatten(2), target)
