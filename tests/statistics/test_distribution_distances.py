"""Tests of distances between distributions, and of the power of their tests by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import ks_2samp, mannwhitneyu

from nbdebug.statistics.distribution_distances import category_distance, numeric_distance
from nbdebug.statistics.power import (
    detectable_cramers_v,
    detectable_ks_distance,
    detectable_overlap,
    detectable_pair_share,
    detectable_share,
    normal_shift_of_ks_distance,
)

GENERATOR = np.random.default_rng(0)


def test_distance_of_shifted_normal_has_known_effects() -> None:
    first, second = GENERATOR.normal(2, 3, 40_000), GENERATOR.normal(5, 3, 40_000)
    distance = numeric_distance(first, second)
    assert distance.wasserstein == pytest.approx(1.0, abs=0.03)
    assert distance.mean_shift == pytest.approx(1.0, abs=0.03)
    assert normal_shift_of_ks_distance(distance.effect) == pytest.approx(1.0, abs=0.03)
    assert distance.p < 1e-9


def test_distance_of_equal_samples_is_zero() -> None:
    values = np.array([1.0, 2.0, np.nan, 4.0, 5.0])
    distance = numeric_distance(values, values)
    assert (distance.effect, distance.wasserstein, distance.jensen_shannon, distance.psi) == (0, 0, 0, 0)


@pytest.mark.parametrize("digits", [1, 6])  # with and without ties
def test_p_value_is_twice_the_smaller_one_of_two_tests(digits: int) -> None:
    generator = np.random.default_rng(2)
    for shift in (0.0, 0.2, 0.5):
        first = generator.normal(0, 1, 150).round(digits)
        second = generator.normal(shift, 1, 120).round(digits)
        ranks = mannwhitneyu(first, second, method="asymptotic", use_continuity=False).pvalue
        steps = ks_2samp(first, second, method="asymp").pvalue
        assert numeric_distance(first, second).p == pytest.approx(min(2 * min(ranks, steps), 1))


def test_distance_of_few_values_is_unknown() -> None:
    assert np.isnan(numeric_distance(np.array([1.0]), np.array([np.nan, np.inf])).effect)


def test_distance_of_disjoint_categories_is_one() -> None:
    distance = category_distance(np.array([50.0, 0.0]), np.array([0.0, 50.0]))
    assert distance.effect == pytest.approx(1.0, abs=0.02)
    assert distance.jensen_shannon == pytest.approx(1.0)


def test_distance_of_proportional_categories_is_zero() -> None:
    distance = category_distance(np.array([50.0, 100.0]), np.array([25.0, 50.0]))
    assert distance.effect == 0
    assert distance.p == pytest.approx(1.0)


def test_detectable_ks_distance_is_detected_in_nine_of_ten_draws() -> None:
    shift = normal_shift_of_ks_distance(detectable_ks_distance(400, 200, 0.01))
    generator = np.random.default_rng(1)
    p_values = [ks_2samp(generator.normal(0, 1, 400), generator.normal(shift, 1, 200)).pvalue for _ in range(200)]
    assert np.mean(np.array(p_values) < 0.01) >= 0.87


def test_detectable_cramers_v_is_detected_in_nine_of_ten_draws() -> None:
    v = detectable_cramers_v(500, 500, 2, 0.01)
    generator = np.random.default_rng(1)
    rates = (0.5 - v / 2, 0.5 + v / 2)
    counts = [[generator.binomial(500, rate) for rate in rates] for _ in range(400)]
    p_values = [category_distance(*(np.array([n, 500.0 - n]) for n in pair)).p for pair in counts]
    assert 0.85 <= np.mean(np.array(p_values) < 0.01) <= 0.95


def test_detectable_share_is_drawn_with_nine_chances_in_ten() -> None:
    share = detectable_share(100, 5000)
    generator = np.random.default_rng(0)
    hits = [generator.hypergeometric(round(share * 5000), 5000 - round(share * 5000), 100) > 0 for _ in range(2000)]
    assert 0.87 <= np.mean(hits) <= 0.93
    assert detectable_share(5000, 5000) == 1 / 5000
    assert detectable_share(0) == 1.0


def test_detectable_overlap_and_pairs_are_drawn_with_nine_chances_in_ten() -> None:
    generator = np.random.default_rng(0)
    share = detectable_overlap((400, 200), (2000, 1000))
    pairs = round(share * 1000)
    hits = [((generator.random(pairs) < 0.2) & (generator.random(pairs) < 0.2)).any() for _ in range(2000)]
    assert 0.87 <= np.mean(hits) <= 0.93
    assert detectable_pair_share(400, 2000) == pytest.approx(detectable_overlap((400, 400), (2000, 2000)), rel=0.01)
