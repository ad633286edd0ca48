"""The tests and the intervals, against scipy and by simulation."""

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


def test_the_exact_chance_is_fishers() -> None:
    table = [[12, 18], [20, 150]]
    assert fisher_tail(30, 12, 200, 32) == pytest.approx(stats.fisher_exact(table, "greater").pvalue)


def test_the_excess_of_ranks_is_wilcoxons() -> None:
    a, b = RNG.normal(1, 1, 40), RNG.normal(0, 1, 60)
    ranks = stats.rankdata([*a, *b])
    z = excess_z_score(40, ranks[:40].sum(), 100, ranks.sum(), ranks.var())
    wanted = stats.mannwhitneyu(a, b, alternative="greater", use_continuity=False, method="asymptotic")
    assert normal_tail(z) == pytest.approx(wanted.pvalue, rel=1e-3)


def test_nothing_is_said_where_all_are_alike() -> None:
    assert normal_tail(excess_z_score(5, 5, 10, 10, 0.0)) == 1


def test_false_discoveries_are_those_of_scipy() -> None:
    p = RNG.random(50) ** 3
    np.testing.assert_allclose(benjamini_hochberg(p, 50), stats.false_discovery_control(p))
    assert (benjamini_hochberg(p[:10], 500) >= benjamini_hochberg(p[:10], 10)).all()


def test_newcombes_interval_is_that_of_his_paper() -> None:
    low, high = newcombe_interval(56, 70, 48, 80)  # his table II, example (a), method 10
    assert (round(float(low), 4), round(float(high), 4)) == (0.0524, 0.3339)


def test_welchs_interval_is_that_of_scipy() -> None:
    a, b = RNG.exponential(size=30), RNG.exponential(2, size=50)
    wanted = stats.ttest_ind(a, b, equal_var=False).confidence_interval()
    assert welch_interval(a, b) == pytest.approx((wanted.low, wanted.high))


def test_the_interval_of_a_ratio_holds_its_level() -> None:
    a, b = RNG.binomial(80, 0.3, 2000), RNG.binomial(120, 0.5, 2000)
    low, high = ratio_interval(a, 80, b, 120)
    assert 0.93 <= ((low <= 0.6) & (high >= 0.6)).mean() <= 0.98
