"""Tests of the ranking of candidates by significant differences."""

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


def random_losses(
    mean: float, seeds: int, random: np.random.Generator, noise: float = 1.0, length: int = 40
) -> list[LossArray]:
    """Losses around ``mean`` for each seed."""
    return [mean + noise * random.standard_normal(length) for _ in range(seeds)]


@pytest.mark.parametrize("seeds", [1, 2, 3, 5])
def test_rank_numbers_of_equal_candidates_are_usually_tied(seeds: int) -> None:
    random = np.random.default_rng(0)
    ranks = [rank_numbers([random_losses(1, seeds, random), random_losses(1, seeds, random)]) for _ in range(200)]
    assert np.mean([pair != [1, 1] for pair in ranks]) <= 0.1


@pytest.mark.parametrize("seeds", [1, 3, 5])
def test_rank_numbers_of_much_lower_loss_is_first(seeds: int) -> None:
    random = np.random.default_rng(0)
    ranks = [rank_numbers([random_losses(3, seeds, random), random_losses(1, seeds, random)]) for _ in range(50)]
    assert np.mean([pair == [2, 1] for pair in ranks]) >= 0.9


def test_rank_numbers_with_shared_noise_see_small_difference() -> None:
    batches = [5 * np.random.default_rng(seed).standard_normal(40) for seed in range(3)]
    own_noise = [0.01 * np.random.default_rng(seed + 9).standard_normal(40) for seed in range(3)]
    higher = [losses + 0.1 + noise for losses, noise in zip(batches, own_noise, strict=True)]
    assert rank_numbers([higher, batches]) == [2, 1]


def test_mean_and_half_width_of_correlated_noise_is_wider() -> None:
    random = np.random.default_rng(1)
    correlated = [np.convolve(random.standard_normal(120), np.ones(20) / 20, "valid")]
    shuffled = [random.permutation(correlated[0])]
    assert mean_and_half_width(correlated)[1] > 1.3 * mean_and_half_width(shuffled)[1]


def test_rank_numbers_difference_below_margin_is_tie() -> None:
    low, high = [np.full(20, 1.0)] * 3, [np.full(20, 1.01)] * 3
    assert rank_numbers([low, high]) == [1, 2]
    assert rank_numbers([low, high], margin=0.02) == [1, 1]


def test_rank_numbers_of_diverged_candidates_are_last_and_tied() -> None:
    low, high = [np.full(20, 1.0)] * 3, [np.full(20, 2.0)] * 3
    assert rank_numbers([None, high, low, None]) == [3, 2, 1, 3]
    assert mean_score(None) == np.inf


def test_is_better_compares_negative_losses() -> None:
    assert is_better([np.full(9, -3.0)] * 2, [np.full(9, -2.0)] * 2)


def test_is_stable_is_false_for_run_with_burst_only() -> None:
    steps = np.arange(200)
    noise = 0.1 * np.random.default_rng(0).standard_normal(200)
    falling = 2 * np.exp(-steps / 50) + noise
    burst = falling + 1.5 * np.exp(-(((steps - 150) / 8) ** 2))
    flat = 2 + noise
    runs = [CandidateRun(0, tuple(losses.tolist()), (), "finished") for losses in (falling, burst, flat)]
    assert [is_stable(run) for run in runs] == [True, False, True]
