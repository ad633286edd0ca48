"""Which candidates are better beyond chance."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.tools.compare_optimizers.ranking import (
    LossArray,
    is_better,
    is_stable,
    mean_and_half_width,
    mean_score,
    rank_numbers,
)
from nbdebug.tools.compare_optimizers.result import CandidateRun


def drawn(
    mean: float, seeds: int, random: np.random.Generator, noise: float = 1.0, length: int = 40
) -> list[LossArray]:
    """A stretch of losses about a mean for each seed."""
    return [mean + noise * random.standard_normal(length) for _ in range(seeds)]


@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
def test_equals_are_seldom_told_apart(seeds: int) -> None:
    random = np.random.default_rng(0)
    told = [rank_numbers([drawn(1, seeds, random), drawn(1, seeds, random)]) != [1, 1] for _ in range(200)]
    assert np.mean(told) <= 0.1


@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_what_is_much_lower_is_better(seeds: int) -> None:
    random = np.random.default_rng(0)
    found = [rank_numbers([drawn(3, seeds, random), drawn(1, seeds, random)]) for _ in range(50)]
    assert np.mean([one == [2, 1] for one in found]) >= 0.9


def test_noise_that_both_share_does_not_hide_a_difference() -> None:
    batches = [5 * np.random.default_rng(seed).standard_normal(40) for seed in range(3)]
    wiggle = [0.01 * np.random.default_rng(seed + 9).standard_normal(40) for seed in range(3)]
    assert rank_numbers([[b + 0.1 + w for b, w in zip(batches, wiggle, strict=True)], batches]) == [2, 1]


def test_noise_that_hangs_together_counts_for_less_than_as_many_single_values() -> None:
    random = np.random.default_rng(1)
    wandering = [np.convolve(random.standard_normal(120), np.ones(20) / 20, "valid")]
    shuffled = [random.permutation(wandering[0])]
    assert mean_and_half_width(wandering)[1] > 1.3 * mean_and_half_width(shuffled)[1]


def test_a_difference_below_the_margin_is_a_tie() -> None:
    low, high = [np.full(20, 1.0)] * 3, [np.full(20, 1.01)] * 3
    assert rank_numbers([low, high]) == [1, 2]
    assert rank_numbers([low, high], margin=0.02) == [1, 1]


def test_what_was_lost_is_behind_everything_and_ties_with_its_like() -> None:
    low, high = [np.full(20, 1.0)] * 3, [np.full(20, 2.0)] * 3
    assert rank_numbers([None, high, low, None]) == [3, 2, 1, 3]
    assert mean_score(None) == np.inf


def test_losses_below_zero_are_compared_like_others() -> None:
    assert is_better([np.full(9, -3.0)] * 2, [np.full(9, -2.0)] * 2)


def test_a_run_that_falls_is_stable_and_one_that_bursts_is_not() -> None:
    steps = np.arange(200)
    noise = 0.1 * np.random.default_rng(0).standard_normal(200)
    falling = 2 * np.exp(-steps / 50) + noise
    burst = falling + 1.5 * np.exp(-(((steps - 150) / 8) ** 2))
    flat = 2 + noise
    found = [is_stable(CandidateRun(0, tuple(one.tolist()), (), "finished")) for one in (falling, burst, flat)]
    assert found == [True, False, True]
