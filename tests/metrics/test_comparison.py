"""Tests of compare_paired."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.metrics.comparison import compare_paired


def test_compare_paired_counts_flips_with_interval_at_nominal_rate() -> None:
    before = np.array([1, 1, 0, 0, 1], bool)
    after = np.array([1, 0, 1, 1, 1], bool)
    comparison = compare_paired(before, after)
    assert (comparison.fixed, comparison.broken, comparison.gain) == (2, 1, pytest.approx(0.2))
    assert comparison.low < comparison.gain < comparison.high
    assert comparison.p == 1.0
    assert compare_paired(before, before).p == 1.0
    random, is_covered = np.random.default_rng(4), []
    for _ in range(1000):
        uniform = random.random(200)
        is_right_before, is_right_after = uniform < 0.7, (uniform < 0.6) | (uniform > 0.85)
        comparison = compare_paired(is_right_before, is_right_after)
        is_covered.append(comparison.low <= 0.05 <= comparison.high)
    assert 0.92 < np.mean(is_covered) < 0.98
