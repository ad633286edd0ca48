"""Tests of nbdebug.statistics.intervals against scipy, published values and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from nbdebug.statistics.intervals import (
    benjamini_hochberg,
    excess_z_score,
    fisher_tail,
    newcombe_interval,
    normal_tail,
    ratio_interval,
    welch_interval,
)

RNG = np.random.default_rng(0)


def test_fisher_tail_matches_scipy() -> None:
    table = [[12, 18], [20, 150]]
    assert fisher_tail(30, 12, 200, 32) == pytest.approx(stats.fisher_exact(table, "greater").pvalue)


def test_excess_z_score_of_ranks_matches_mann_whitney_test() -> None:
    a, b = RNG.normal(1, 1, 40), RNG.normal(0, 1, 60)
    ranks = stats.rankdata([*a, *b])
    z = excess_z_score(40, ranks[:40].sum(), 100, ranks.sum(), ranks.var())
    expected = stats.mannwhitneyu(a, b, alternative="greater", use_continuity=False, method="asymptotic")
    assert normal_tail(z) == pytest.approx(expected.pvalue, rel=1e-3)


def test_excess_z_score_of_equal_values_is_not_significant() -> None:
    assert normal_tail(excess_z_score(5, 5, 10, 10, 0.0)) == 1


def test_benjamini_hochberg_matches_scipy_and_grows_with_test_count() -> None:
    p = RNG.random(50) ** 3
    np.testing.assert_allclose(benjamini_hochberg(p, 50), stats.false_discovery_control(p))
    assert (benjamini_hochberg(p[:10], 500) >= benjamini_hochberg(p[:10], 10)).all()


def test_newcombe_interval_matches_published_example() -> None:
    low, high = newcombe_interval(56, 70, 48, 80)  # Newcombe (1998), table II, example (a), method 10
    assert (round(float(low), 4), round(float(high), 4)) == (0.0524, 0.3339)


def test_welch_interval_matches_scipy() -> None:
    a, b = RNG.exponential(size=30), RNG.exponential(2, size=50)
    expected = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert welch_interval(a, b) == pytest.approx((expected.low, expected.high))


def test_ratio_interval_coverage_is_near_its_level() -> None:
    a, b = RNG.binomial(80, 0.3, 2000), RNG.binomial(120, 0.5, 2000)
    low, high = ratio_interval(a, 80, b, 120)
    assert 0.93 <= ((low <= 0.6) & (high >= 0.6)).mean() <= 0.98
