"""Tests of ``importance()`` on models whose importances are known, and against scikit-learn."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from nbdebug.tools.importance import importance
from tests.tools.importance.setups import linear_model, make_setup, random_rows

WEIGHTS = torch.tensor([2.0, -1.0, 0.5, 0.0])


def linear_regression(rows: int = 400, seed: int = 0) -> Setup:
    """A linear model without error."""
    train, val = random_rows(100, seed=seed + 1), random_rows(rows, seed=seed)
    loaders = [DataLoader(TensorDataset(x, (x @ WEIGHTS)[:, None]), batch_size=64) for x in (train, val)]
    return Setup(linear_model(WEIGHTS), *loaders, loss_fn=nn.MSELoss(), feature_names=["a", "b", "c", "d"])


def linear_classification(rows: int = 300) -> Setup:
    """A linear classifier of a noisy target."""
    x = random_rows(rows)
    noise = random_rows(rows, 1, seed=5)[:, 0]
    y = ((x @ WEIGHTS + noise) > 0).long()
    return make_setup(linear_model(torch.stack([0 * WEIGHTS, WEIGHTS])), x, y, batch_size=64)


def test_importance_of_linear_model_matches_closed_form() -> None:
    setup = linear_regression()
    result = importance(setup)
    x = setup.val_loader.dataset.tensors[0][result.keys]
    expected = (WEIGHTS * (x - setup.train_loader.dataset.tensors[0].mean(0))).abs().mean(0)
    assert result.size.value == pytest.approx(expected.numpy(), abs=1e-5)
    assert result.attributions is not None
    assert result.attributions.sum(1) + result.base == pytest.approx((x @ WEIGHTS).numpy(), abs=1e-5)
    population_size = WEIGHTS.numpy() * math.sqrt(2 / math.pi)
    assert (result.size.low <= np.abs(population_size)).all()
    assert (np.abs(population_size) <= result.size.high + 1e-9).all()
    # A permuted value adds 2 w² to the squared error; the variance of the target is the sum of w².
    drops = (2 * WEIGHTS**2 / (WEIGHTS**2).sum()).numpy()
    assert (result.metric_drop.low - 1e-9 <= drops).all()
    assert (drops <= result.metric_drop.high + 1e-9).all()
    assert result.metric == "R²"
    assert result.significant.tolist() == [True, True, True, False]
    assert list(result.to_frame().feature) == ["a", "b", "c", "d"]
    assert result.share.sum() == pytest.approx(1)


def test_metric_drop_agrees_with_permutation_importance_of_scikit_learn() -> None:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.inspection import permutation_importance

    setup = linear_classification()
    x, y = (tensor.numpy() for tensor in setup.val_loader.dataset.tensors)

    class SameModel(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """The same model for scikit-learn."""

        classes_ = np.array([0, 1])

        def fit(self, x: object, y: object) -> SameModel:
            return self

        def predict(self, x: np.ndarray) -> np.ndarray:
            return setup.model(torch.from_numpy(x)).argmax(1).numpy()

    reference = permutation_importance(SameModel(), x, y, n_repeats=30, random_state=0)
    result = importance(setup, samples=300, repeats=30, metric="accuracy")
    error = np.hypot(reference.importances_std, reference.importances_std) / math.sqrt(30)
    assert np.abs(result.drop - reference.importances_mean).max() <= 4 * error.max()
    assert result.score is not None
    assert result.score.value == pytest.approx((SameModel().predict(x) == y).mean())


def test_correlated_features_are_permuted_together() -> None:
    x = random_rows(300)
    x[:, 1] = x[:, 0] + 0.05 * x[:, 1]
    y = (x[:, :2].sum(1, keepdim=True)).float()
    model = linear_model(torch.tensor([1.0, 1.0, 0.0, 0.0]))
    result = importance(make_setup(model, x, y, batch_size=100, loss_fn=nn.MSELoss()), repeats=3)
    (group,) = result.correlated_features
    assert group.features == (0, 1)
    assert group.drop.low > 2 * result.metric_drop.high[:2].max()
    assert any("are correlated" in note for note in result.notes)


def test_interacts_with_finds_product_and_no_other_interaction() -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.scale * (x[:, :1] * x[:, 2:3] + x[:, 1:2])

    x = random_rows(300)
    model = Product()
    options = {"loss_fn": nn.MSELoss(), "feature_names": list("abcd")}
    result = importance(make_setup(model, x, model(x).detach(), batch_size=100, **options), repeats=0)
    assert result.interacts_with("a") == "c"
    assert result.interacts_with("b") is None
    assert np.isnan(result.drop).all()


def test_metric_drop_with_dominant_outlier_has_no_interval() -> None:
    x = random_rows(40, 2)
    x[0] = 1e3
    model = nn.Linear(2, 1)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=20)
    result = importance(Setup(model, loader, loss_fn=nn.MSELoss()), repeats=2)
    assert np.isnan(result.metric_drop.low).all()
    assert np.isfinite(result.metric_drop.p).all()
    assert any("R² has no interval" in note for note in result.notes)
    assert result.view().html()
    assert "R²" in str(result)
