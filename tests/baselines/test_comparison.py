"""Tests of compare_scores()."""

from __future__ import annotations

import numpy as np
import pytest

from nbdebug.baselines.comparison import compare_scores, score_labels, score_values
from nbdebug.metrics.comparison import compare_paired
from tests.baselines.random_predictions import PREDICTED_VALUES, PROBABILITIES, ROWS, TARGET, TARGET_VALUES


def test_compare_scores_of_accuracy_matches_paired_interval() -> None:
    model = score_labels("model", "", ROWS, TARGET, PROBABILITIES.argmax(1))
    other = score_labels("linear", "", ROWS[50:], TARGET[50:], np.zeros(250))
    _, _, comparison, _ = compare_scores(model, [other])
    expected = compare_paired(TARGET[50:] == 0, PROBABILITIES.argmax(1)[50:] == TARGET[50:])
    assert (comparison.gain, comparison.gain_low, comparison.gain_high) == pytest.approx(
        (expected.gain, expected.low, expected.high)
    )
    assert comparison.rows == 250


def test_compare_scores_bootstrap_width_matches_normal_interval() -> None:
    model, other = (
        score_values("model", "", ROWS, TARGET_VALUES, PREDICTED_VALUES),
        score_values("mean", "", ROWS, TARGET_VALUES, 0.0),
    )
    comparisons = list(compare_scores(model, [other]))
    gain = TARGET_VALUES**2 - (TARGET_VALUES - PREDICTED_VALUES) ** 2
    assert comparisons[2].gain == pytest.approx(gain.mean())
    half_width = 1.96 * gain.std() / 300**0.5
    assert (comparisons[2].gain_high - comparisons[2].gain_low) / 2 == pytest.approx(half_width, rel=0.1)


def test_compare_scores_interval_coverage_is_near_its_level() -> None:
    covered = 0
    for seed in range(200):
        random = np.random.default_rng(seed)
        target = random.integers(0, 2, 80)
        predictions = [np.where(random.random(80) < share, target, 1 - target) for share in (0.8, 0.7)]
        model, other = (
            score_labels(name, "", np.arange(80), target, labels)
            for name, labels in zip("ab", predictions, strict=True)
        )
        comparison = next(scores for scores in compare_scores(model, [other]) if scores.name == "b")
        covered += comparison.gain_low <= 0.1 <= comparison.gain_high
    assert 180 <= covered <= 198
