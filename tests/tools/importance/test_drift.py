"""What changes from one importance to another, and what does not."""

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


def measured(weights: list[float], seed: int = 0, rows: int = 250, scale: Tensor | None = None) -> Importance:
    """Of a linear model with such weights, on samples of a seed."""
    size = len(weights)
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(rows, size, generator=generator) * (1 if scale is None else scale)
    ground = torch.randn(100, size, generator=torch.Generator().manual_seed(9))
    noise = torch.randn(rows, 1, generator=generator)
    model = nn.Linear(size, 1)
    with torch.no_grad():
        model.weight[:] = torch.tensor(weights)
        model.bias.zero_()
    val = DataLoader(TensorDataset(x, model(x).detach() + noise), batch_size=125)
    train = DataLoader(TensorDataset(ground, ground[:, :1]), batch_size=100)
    names = [chr(97 + j) for j in range(size)]
    return importance(Setup(model, train, val, loss_fn=nn.MSELoss(), feature_names=names), repeats=2)


def test_between_epochs_samples_are_paired() -> None:
    before, now = measured([1.0, 1.0, 1.0, 1.0]), measured([1.05, 1.0, 1.0, 1.0])
    found = now.compare(before, by="size")
    assert found.paired
    assert found.measure.significant.tolist() == [True, False, False, False]
    expected = now.size.value[0] - before.size.value[0]
    assert found.measure.change.value == pytest.approx([expected, 0, 0, 0], abs=1e-6)
    assert found.measure.change.high[0] - found.measure.change.low[0] < 0.05
    assert found.to_frame().feature[0] == "a"


def test_a_model_whose_scores_only_grew_has_the_same_shares() -> None:
    found = measured([2.0, 1.0, 0.5]).compare(measured([1.0, 0.5, 0.25]))
    assert found.measure.change.value == pytest.approx(0, abs=1e-6)
    assert not found.measure.significant.any()
    assert found.measures["size"].significant.all()
    assert found.measure.rank_correlation == pytest.approx(1)


def test_another_window_is_compared_as_another_sample() -> None:
    weights = [1.0] * 6
    same = measured(weights, 0).compare(measured(weights, 1))
    assert not same.paired
    assert not same.measure.significant.any()
    moved = measured(weights, 0, scale=torch.tensor([3.0, 1, 1, 1, 1, 1])).compare(measured(weights, 1), by="size")
    assert moved.measure.significant.tolist() == [True] + 5 * [False]
    assert "changed significantly" in moved.headline


def test_several_points_are_lines() -> None:
    points = [measured([1.0, weight, 0.2]) for weight in (0.5, 1.0, 2.0)]
    found = drift(points, ["1", "2", "3"], by="drop")
    assert found.measure.value.shape == (3, 3)
    assert (np.diff(found.measure.value[:, 1]) > 0).all()
    assert list(found.to_frame().columns[1:4]) == ["1", "2", "3"]
    assert len(found.plot().get_xticks()) == 3
    assert "→" in str(found)
    assert "<table>" in found.view().html()


def test_what_is_no_importance_is_refused() -> None:
    for given in (None, 3, [3, 3]):
        with pytest.raises(SetupError, match="expected a list of importances"):
            drift(given)  # type: ignore[arg-type]


def test_what_cannot_be_compared_is_said() -> None:
    one = measured([1.0, 1.0])
    with pytest.raises(SetupError, match="two or more"):
        drift([one])
    with pytest.raises(SetupError, match="names has 1"):
        drift([one, one], ["only"])
    with pytest.raises(SetupError, match="by is 'other'"):
        drift([one, one], by="other")  # type: ignore[arg-type]
    found = drift([one, measured([1.0, 1.0, 1.0])])
    assert found.features == ("a", "b")
    assert "1 features are missing in at least one importance" in found.notes
