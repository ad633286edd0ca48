"""Tests of the confidence intervals and the significance of importances."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nbdebug.statistics.estimates import mean_estimates, pair_influence, ratio_estimates, significant_values


def test_mean_estimates_over_permuted_pairs_cover_the_mean() -> None:
    """The mean squared difference of pairs is twice the variance; pairs that share a row are dependent."""
    hits, naive_hits = 0, 0
    for seed in range(300):
        random = np.random.default_rng(seed)
        x, repeats = random.normal(size=40), 2
        owner, donor, pairs = np.zeros(40), np.zeros(40), []
        for _ in range(repeats):
            donors = np.roll(order := random.permutation(40), 1)[np.argsort(order)]
            squared_difference = (x - x[donors]) ** 2
            owner, pairs = owner + squared_difference / repeats, [*pairs, squared_difference]
            donor[donors] += squared_difference / repeats
        influence = pair_influence(owner, donor, float(np.var(pairs)), repeats)
        estimate = mean_estimates(np.array([owner.mean()]), influence[:, None])
        hits += bool(estimate.low[0] <= 2 <= estimate.high[0])
        naive_width = 2 * owner.std(ddof=1) / math.sqrt(40)
        naive_hits += abs(owner.mean() - 2) <= naive_width
    assert 0.88 <= hits / 300 <= 0.99
    assert naive_hits < hits


def test_significant_values_of_useless_features_are_few() -> None:
    random = np.random.default_rng(0)
    assert significant_values(random.uniform(size=1000)).sum() <= 3
    p = np.r_[np.full(10, 1e-6), np.nan, random.uniform(size=90)]
    assert significant_values(p)[:10].all()
    assert not significant_values(p)[10]


def test_ratio_estimates_of_r2_with_heavy_tailed_target_cover_the_drop() -> None:
    """The inputs are log-normal; the intervals of ``mean_estimates`` cover the drop too rarely."""
    hits, mean_hits, unbounded = 0, 0, 0
    expected = 2 * math.e * (math.e - 1) / (2 * math.e * (math.e - 1) + 1)
    for seed in range(150):
        random = np.random.default_rng(seed)
        x, noise = random.lognormal(size=(60, 2)), random.normal(size=60)
        y = x.sum(1) + noise
        weight, owner, donor, pairs = (y - y.mean()) ** 2 / y.var(), np.zeros(60), np.zeros(60), []
        for _ in range(2):
            order = random.permutation(60)
            donors = np.roll(order, 1)[np.argsort(order)]
            error_increase = ((noise + x[:, 0] - x[donors, 0]) ** 2 - noise**2) / y.var()
            owner, pairs = owner + error_increase / 2, [*pairs, error_increase]
            donor[donors] += error_increase / 2
        drop = owner.mean()
        influence = pair_influence(owner - drop * (weight - 1), donor, float(np.var(pairs)), 2)[:, None]
        ratio, mean = ratio_estimates(np.array([drop]), influence, weight), mean_estimates(np.array([drop]), influence)
        bounded = np.isfinite(ratio.low[0])
        hits += bool(not bounded or ratio.low[0] <= expected <= ratio.high[0])
        mean_hits += bool(mean.low[0] <= expected <= mean.high[0])
        unbounded += bool(not bounded)
    assert hits / 150 >= 0.91
    assert mean_hits / 150 <= 0.88
    assert unbounded / 150 <= 0.3


def test_ratio_estimates_with_constant_denominator_equal_mean_estimates() -> None:
    influence = np.random.default_rng(0).normal(size=(80, 3))
    value = np.array([0.5, 0.0, 2.0])
    ratio, mean = ratio_estimates(value, influence, np.ones(80)), mean_estimates(value, influence, one_sided=True)
    assert ratio.low == pytest.approx(value - (mean.value - mean.low))
    assert ratio.high == pytest.approx(mean.high)
    assert ratio.p == pytest.approx(mean.p)
