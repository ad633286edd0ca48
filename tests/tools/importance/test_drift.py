"""Tests of the drift of importances between models and between samples."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.exceptions import SetupError
from nbdebug.setup import Setup
from nbdebug.tools.importance import drift, importance
from nbdebug.tools.importance.result import Importance
from tests.tools.importance.setups import linear_model


def linear_importance(weights: list[float], seed: int = 0, rows: int = 250, scale: Tensor | None = None) -> Importance:
    """Importance of a linear model with these weights on random samples."""
    size = len(weights)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, size, generator=generator) * (1 if scale is None else scale)
    background = torch.randn(100, size, generator=torch.Generator().manual_seed(9))
    noise = torch.randn(rows, 1, generator=generator)
    model = linear_model(torch.tensor(weights))
    val = DataLoader(TensorDataset(x, model(x).detach() + noise), batch_size=125)
    train = DataLoader(TensorDataset(background, background[:, :1]), batch_size=100)
    names = [chr(97 + j) for j in range(size)]
    return importance(Setup(model, train, val, loss_fn=nn.MSELoss(), feature_names=names), repeats=2)


def test_compare_on_same_samples_is_paired() -> None:
    before, after = linear_importance([1.0, 1.0, 1.0, 1.0]), linear_importance([1.05, 1.0, 1.0, 1.0])
    comparison = after.compare(before, by="size")
    assert comparison.paired
    assert comparison.measure.significant.tolist() == [True, False, False, False]
    expected = after.size.value[0] - before.size.value[0]
    assert comparison.measure.change.value == pytest.approx([expected, 0, 0, 0], abs=1e-6)
    assert comparison.measure.change.high[0] - comparison.measure.change.low[0] < 0.05
    assert comparison.to_frame().feature[0] == "a"


def test_compare_with_scaled_model_changes_sizes_but_no_shares() -> None:
    comparison = linear_importance([2.0, 1.0, 0.5]).compare(linear_importance([1.0, 0.5, 0.25]))
    assert comparison.measure.change.value == pytest.approx(0, abs=1e-6)
    assert not comparison.measure.significant.any()
    assert comparison.measures["size"].significant.all()
    assert comparison.measure.rank_correlation == pytest.approx(1)


def test_compare_on_other_samples_is_unpaired() -> None:
    weights = [1.0] * 6
    same_model = linear_importance(weights, 0).compare(linear_importance(weights, 1))
    assert not same_model.paired
    assert not same_model.measure.significant.any()
    scale = torch.tensor([3.0, 1, 1, 1, 1, 1])
    scaled_feature = linear_importance(weights, 0, scale=scale).compare(linear_importance(weights, 1), by="size")
    assert scaled_feature.measure.significant.tolist() == [True] + 5 * [False]
    assert "changed significantly" in scaled_feature.headline


def test_drift_over_three_points_has_frame_plot_text_and_html() -> None:
    points = [linear_importance([1.0, weight, 0.2]) for weight in (0.5, 1.0, 2.0)]
    comparison = drift(points, ["1", "2", "3"], by="drop")
    assert comparison.measure.value.shape == (3, 3)
    assert (np.diff(comparison.measure.value[:, 1]) > 0).all()
    assert list(comparison.to_frame().columns[1:4]) == ["1", "2", "3"]
    assert len(comparison.plot().get_xticks()) == 3
    assert "→" in str(comparison)
    assert "<table>" in comparison.view().html()


def test_drift_of_other_values_raises_setup_error() -> None:
    for values in (None, 3, [3, 3]):
        with pytest.raises(SetupError, match="expected a list of importances"):
            drift(values)  # type: ignore[arg-type]


def test_drift_refuses_invalid_arguments_and_notes_missing_features() -> None:
    result = linear_importance([1.0, 1.0])
    with pytest.raises(SetupError, match="two or more"):
        drift([result])
    with pytest.raises(SetupError, match="names has 1"):
        drift([result, result], ["only"])
    with pytest.raises(SetupError, match="by is 'other'"):
        drift([result, result], by="other")  # type: ignore[arg-type]
    comparison = drift([result, linear_importance([1.0, 1.0, 1.0])])
    assert comparison.features == ("a", "b")
    assert "features missing in at least one importance: 1" in comparison.notes
