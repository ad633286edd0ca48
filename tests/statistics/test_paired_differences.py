"""Tests of the paired difference: its interval covers, and its p-value equals a permutation test."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.statistics.paired_differences import paired_difference, sign_flip_p


def test_p_of_differences_of_one_sign_is_the_smallest() -> None:
    result = paired_difference(np.array([0.1, 0.2, 0.3, 0.1, 0.2]))
    assert result.p == result.smallest_p == 2 / 2**5
    assert result.sign == 1
    assert paired_difference(-np.array([0.1, 0.2, 0.3, 0.1, 0.2])).sign == -1


def test_p_equals_scipy_permutation_test() -> None:
    from scipy.stats import permutation_test

    differences = np.random.default_rng(0).normal(0.5, 1.0, 8)
    reference = permutation_test((differences,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip_p(differences) == pytest.approx(reference.pvalue)


def test_interval_covers_the_mean_at_its_level() -> None:
    generator = np.random.default_rng(1)
    intervals = [paired_difference(generator.normal(2.0, 1.0, 5)) for _ in range(1000)]
    assert 0.93 <= np.mean([item.low <= 2.0 <= item.high for item in intervals]) <= 0.97


def test_equal_differences_have_an_interval_without_width() -> None:
    result = paired_difference(np.zeros(5))
    assert (result.low, result.high, result.sign, result.p) == (0.0, 0.0, 0, 1.0)


def test_few_or_many_differences() -> None:
    assert np.isnan(paired_difference(np.zeros(0)).value)
    assert np.isnan(paired_difference(np.ones(1)).low)
    with pytest.raises(ValueError, match="expected at most 16"):
        paired_difference(np.ones(17))
