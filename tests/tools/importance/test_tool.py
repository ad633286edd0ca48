"""Importance of models whose importance is known, and beside another implementation."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from nbdebug.setup import Setup
from nbdebug.statistics.estimates import mean_estimates, pair_influence, ratio_estimates, significant_values
from nbdebug.tools.importance import importance

WEIGHTS = torch.tensor([2.0, -1.0, 0.5, 0.0])


def drawn(rows: int, columns: int = 4, seed: int = 0) -> Tensor:
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(seed))


def linear(rows: int = 400, seed: int = 0) -> Setup:
    """A linear model that is right."""
    model = nn.Linear(4, 1)
    with torch.no_grad():
        model.weight[:] = WEIGHTS
        model.bias.zero_()
    train, val = drawn(100, seed=seed + 1), drawn(rows, seed=seed)
    loaders = [DataLoader(TensorDataset(x, (x @ WEIGHTS)[:, None]), batch_size=64) for x in (train, val)]
    return Setup(model, *loaders, loss_fn=nn.MSELoss(), feature_names=["a", "b", "c", "d"])


def classes(rows: int = 300) -> Setup:
    """A classifier that is right more often than not."""
    x = drawn(rows)
    noise = drawn(rows, 1, seed=5)[:, 0]
    y = ((x @ WEIGHTS + noise) > 0).long()
    model = nn.Linear(4, 2)
    with torch.no_grad():
        model.weight[0], model.weight[1] = 0, WEIGHTS
        model.bias.zero_()
    loader = DataLoader(TensorDataset(x, y), batch_size=64)
    return Setup(model, loader, loader, loss_fn=nn.CrossEntropyLoss())


def test_of_a_linear_model_it_is_the_closed_form() -> None:
    setup = linear()
    found = importance(setup)
    x = setup.val_loader.dataset.tensors[0][found.keys]
    expected = (WEIGHTS * (x - setup.train_loader.dataset.tensors[0].mean(0))).abs().mean(0)
    assert found.size.value == pytest.approx(expected.numpy(), abs=1e-5)
    assert found.attributions is not None
    assert found.attributions.sum(1) + found.base == pytest.approx((x @ WEIGHTS).numpy(), abs=1e-5)
    true = WEIGHTS.numpy() * math.sqrt(2 / math.pi)
    assert (found.size.low <= np.abs(true)).all()
    assert (np.abs(true) <= found.size.high + 1e-9).all()
    # Another sample's value is off by 2 w² of the spread w² adds up to.
    drops = (2 * WEIGHTS**2 / (WEIGHTS**2).sum()).numpy()
    assert (found.metric_drop.low - 1e-9 <= drops).all()
    assert (drops <= found.metric_drop.high + 1e-9).all()
    assert found.metric == "R²"
    assert found.significant.tolist() == [True, True, True, False]
    assert list(found.to_frame().feature) == ["a", "b", "c", "d"]
    assert found.share.sum() == pytest.approx(1)


def test_it_agrees_with_scikit_learn() -> None:
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.inspection import permutation_importance

    setup = classes()
    x, y = (one.numpy() for one in setup.val_loader.dataset.tensors)

    class Same(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
        """The same model for scikit-learn."""

        classes_ = np.array([0, 1])

        def fit(self, x: object, y: object) -> Same:
            return self

        def predict(self, x: np.ndarray) -> np.ndarray:
            return setup.model(torch.from_numpy(x)).argmax(1).numpy()

    theirs = permutation_importance(Same(), x, y, n_repeats=30, random_state=0)
    mine = importance(setup, samples=300, repeats=30, metric="accuracy")
    error = np.hypot(theirs.importances_std, theirs.importances_std) / math.sqrt(30)
    assert np.abs(mine.drop - theirs.importances_mean).max() <= 4 * error.max()
    assert mine.score is not None
    assert mine.score.value == pytest.approx((Same().predict(x) == y).mean())


def test_intervals_of_means_over_pairs_hold_their_level() -> None:
    """Squared differences of pairs, whose mean is twice the variance; each row's values are far from independent."""
    hits, told = 0, 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        x, repeats = random.normal(size=40), 2
        owner, donor, pairs = np.zeros(40), np.zeros(40), []
        for _ in range(repeats):
            donors = np.roll(order := random.permutation(40), 1)[np.argsort(order)]
            gap = (x - x[donors]) ** 2
            owner, pairs = owner + gap / repeats, [*pairs, gap]
            donor[donors] += gap / repeats
        influence = pair_influence(owner, donor, float(np.var(pairs)), repeats)
        one = mean_estimates(np.array([owner.mean()]), influence[:, None])
        hits += bool(one.low[0] <= 2 <= one.high[0])
        naive = 2 * owner.std(ddof=1) / math.sqrt(40)
        told += abs(owner.mean() - 2) <= naive
    assert 0.88 <= hits / 300 <= 0.99
    assert told < hits


def test_of_many_useless_features_few_are_told() -> None:
    random = np.random.default_rng(0)
    assert significant_values(random.uniform(size=1000)).sum() <= 3
    p = np.r_[np.full(10, 1e-6), np.nan, random.uniform(size=90)]
    assert significant_values(p)[:10].all()
    assert not significant_values(p)[10]


def test_what_goes_together_is_permuted_together_too() -> None:
    x = drawn(300)
    x[:, 1] = x[:, 0] + 0.05 * x[:, 1]
    y = (x[:, :2].sum(1, keepdim=True)).float()
    model = nn.Linear(4, 1)
    with torch.no_grad():
        model.weight[:] = torch.tensor([1.0, 1.0, 0.0, 0.0])
        model.bias.zero_()
    loader = DataLoader(TensorDataset(x, y), batch_size=100)
    found = importance(Setup(model, loader, loader, loss_fn=nn.MSELoss()), repeats=3)
    (one,) = found.correlated_features
    assert one.features == (0, 1)
    assert one.drop.low > 2 * found.metric_drop.high[:2].max()
    assert any("are correlated" in note for note in found.notes)


def test_interactions_are_seen_and_none_invented() -> None:
    class Product(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))

        def forward(self, x: Tensor) -> Tensor:
            return self.scale * (x[:, :1] * x[:, 2:3] + x[:, 1:2])

    x = drawn(300)
    model = Product()
    loader = DataLoader(TensorDataset(x, model(x).detach()), batch_size=100)
    found = importance(Setup(model, loader, loader, loss_fn=nn.MSELoss(), feature_names=list("abcd")), repeats=0)
    assert found.interacts_with("a") == "c"
    assert found.interacts_with("b") is None
    assert np.isnan(found.drop).all()


def test_intervals_of_r2_hold_where_the_target_has_heavy_tails() -> None:
    """The drop of a right model whose two inputs are log-normal, which Student's interval holds in three of four."""
    hits, student, below = 0, 0, 0
    wanted = 2 * math.e * (math.e - 1) / (2 * math.e * (math.e - 1) + 1)
    for seed in range(150):
        random = np.random.default_rng(seed)
        x, noise = random.lognormal(size=(60, 2)), random.normal(size=60)
        y = x.sum(1) + noise
        weight, owner, donor, pairs = (y - y.mean()) ** 2 / y.var(), np.zeros(60), np.zeros(60), []
        for _ in range(2):
            order = random.permutation(60)
            donors = np.roll(order, 1)[np.argsort(order)]
            lost = ((noise + x[:, 0] - x[donors, 0]) ** 2 - noise**2) / y.var()
            owner, pairs = owner + lost / 2, [*pairs, lost]
            donor[donors] += lost / 2
        drop = owner.mean()
        influence = pair_influence(owner - drop * (weight - 1), donor, float(np.var(pairs)), 2)[:, None]
        found, plain = ratio_estimates(np.array([drop]), influence, weight), mean_estimates(np.array([drop]), influence)
        known = np.isfinite(found.low[0])
        hits += bool(not known or found.low[0] <= wanted <= found.high[0])
        student += bool(plain.low[0] <= wanted <= plain.high[0])
        below += bool(not known)
    assert hits / 150 >= 0.91
    assert student / 150 <= 0.88
    assert below / 150 <= 0.3


def test_of_a_ratio_whose_mean_below_is_sure_it_is_the_usual_interval() -> None:
    influence = np.random.default_rng(0).normal(size=(80, 3))
    value = np.array([0.5, 0.0, 2.0])
    found, usual = ratio_estimates(value, influence, np.ones(80)), mean_estimates(value, influence, one_sided=True)
    assert found.low == pytest.approx(value - (usual.value - usual.low))
    assert found.high == pytest.approx(usual.high)
    assert found.p == pytest.approx(usual.p)


def test_where_few_samples_make_up_the_spread_there_is_no_interval() -> None:
    x = drawn(40, 2)
    x[0] = 1e3
    model = nn.Linear(2, 1)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=20)
    found = importance(Setup(model, loader, loss_fn=nn.MSELoss()), repeats=2)
    assert np.isnan(found.metric_drop.low).all()
    assert np.isfinite(found.metric_drop.p).all()
    assert any("R² has no interval" in note for note in found.notes)
    assert found.view().html()
    assert "R²" in str(found)
