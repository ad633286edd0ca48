"""Tests of the share of wrong labels, on scores whose calibration is known."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.metrics import average_precision_score

from nbdebug.statistics.label_noise import LabelNoise, estimate_label_noise

Labels = NDArray[np.int64]


def scored_labels(
    seed: int, rate: float, rows: int = 1000, classes: int = 4, spread: float = 3.0, pair: bool = False
) -> tuple[NDArray[np.float64], Labels, NDArray[np.bool_]]:
    """Logits, labels drawn from their softmax and then flipped, and which were flipped."""
    generator = np.random.default_rng(seed)
    logits = spread * generator.normal(size=(rows, classes))
    probabilities = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    labels = (probabilities.cumsum(1) > generator.random((rows, 1))).argmax(1)
    flipped = generator.random(rows) < rate
    other = (labels + 1) % classes if pair else (labels + generator.integers(1, classes, rows)) % classes
    return logits[None], np.where(flipped, other, labels), flipped


def noise_of(seed: int, rate: float, **options: object) -> tuple[LabelNoise, NDArray[np.bool_]]:
    scores, labels, flipped = scored_labels(seed, rate, **options)  # type: ignore[arg-type]
    return estimate_label_noise(scores, labels), flipped


@pytest.mark.parametrize(
    ("rate", "options"), [(0.05, {}), (0.1, {"pair": True, "spread": 6.0}), (0.03, {"classes": 2})]
)
def test_interval_covers_the_share_of_wrong_labels(rate: float, options: dict[str, object]) -> None:
    estimates = [noise_of(seed, rate, **options) for seed in range(20)]
    covered = [noise.rate.low <= flipped.mean() <= noise.rate.high for noise, flipped in estimates]
    assert sum(covered) >= 18
    assert abs(np.mean([noise.rate.value for noise, _ in estimates]) - rate) < 0.01


def test_ambiguous_inputs_are_no_wrong_labels() -> None:
    for seed in range(10):
        noise, _ = noise_of(seed, 0.0, spread=1.0)
        assert noise.rate.low < 0.02
        assert not noise.looks_wrong


def test_scale_of_the_scores_does_not_matter() -> None:
    scores, labels, _ = scored_labels(0, 0.05)
    noises = [estimate_label_noise(scores * scale, labels) for scale in (1.0, 0.2)]
    assert noises[0].rate.value == pytest.approx(noises[1].rate.value, abs=1e-3)
    assert noises[1].weights[0] == pytest.approx(5 * noises[0].weights[0], rel=0.02)


def test_useless_scores_get_no_weight() -> None:
    scores, labels, _ = scored_labels(0, 0.05)
    useless = np.random.default_rng(1).normal(size=scores.shape)
    noise = estimate_label_noise(np.concatenate([scores, useless]), labels)
    assert noise.weights[1] < 0.1 * noise.weights[0]


def test_constant_preference_of_a_class_does_not_matter() -> None:
    scores, labels, flipped = scored_labels(0, 0.05)
    shifted = scores + np.array([0.0, 1.0, 0.0, -1.0])
    wrong = [estimate_label_noise(each, labels).wrong for each in (scores, shifted)]
    assert np.corrcoef(*wrong)[0, 1] > 0.99
    assert average_precision_score(flipped, wrong[1]) > average_precision_score(
        flipped, -_self_confidence(shifted, labels)
    )


def _self_confidence(scores: NDArray[np.float64], labels: Labels) -> NDArray[np.float64]:
    exponentials = np.exp(scores[0])
    confidence: NDArray[np.float64] = exponentials[np.arange(len(labels)), labels] / exponentials.sum(1)
    return confidence


@pytest.mark.parametrize("pair", [False, True])
def test_ranking_is_at_least_that_of_self_confidence(pair: bool) -> None:
    """Flips between certain pairs of classes are learned, and random ones are not taken for such pairs."""
    gains = []
    for seed in range(10):
        scores, labels, flipped = scored_labels(seed, 0.08, classes=8, spread=20.0, pair=pair)
        noise = estimate_label_noise(scores, labels)
        by_confidence = average_precision_score(flipped, -_self_confidence(scores, labels))
        gains.append(average_precision_score(flipped, noise.wrong) - by_confidence)
    assert np.mean(gains) > (0.002 if pair else -0.002)


def test_probability_of_being_wrong_is_calibrated() -> None:
    results = [noise_of(seed, 0.08) for seed in range(10)]
    wrong, flipped = (
        np.concatenate([result[part] for result in [(n.wrong, f) for n, f in results]]) for part in (0, 1)
    )
    for low, high in ((0.02, 0.3), (0.3, 0.7), (0.7, 1.0)):
        inside = (wrong > low) & (wrong <= high)
        assert flipped[inside].mean() == pytest.approx(wrong[inside].mean(), abs=0.12)


@pytest.mark.parametrize("rate", [0.0, 0.1])
def test_ambiguous_inputs_leave_open_which_errors_are_wrong_labels(rate: float) -> None:
    scores, labels, _ = scored_labels(0, rate, spread=2.0)
    noise = estimate_label_noise(scores, labels)
    assert not noise.is_decidable
    assert noise.rate.low == 0
    assert noise.rate.high > 0.9 * (noise.scored_class != labels).mean()
    assert not noise.looks_wrong


def test_flips_between_two_classes_are_named() -> None:
    scores, labels, _ = scored_labels(0, 0.0, spread=8.0)
    changed = labels.copy()
    rows = np.flatnonzero(labels == 2)[:40]
    changed[rows] = 0
    noise = estimate_label_noise(scores, changed)
    first = noise.unusual_pairs(changed)[0]
    assert (first.correct, first.given) == (2, 0)
    assert 20 <= first.count <= 50
    assert noise_of(1, 0.05)[0].unusual_pairs(scored_labels(1, 0.05)[1]) == ()


def test_gradient_is_that_of_the_loss() -> None:
    from nbdebug.statistics.label_noise import _NoiseModel

    scores, labels, _ = scored_labels(0, 0.05, rows=50)
    model = _NoiseModel(np.concatenate([scores, scores**2]), labels)
    point, step = np.array([0.1, -2.0, 0.3, -0.2, 0.5, 0.1, -3.0]), 1e-6  # two weights, four offsets and the rate
    _, gradient = model.loss(point)
    for axis in range(len(point)):
        moved = np.eye(len(point))[axis] * step
        slope = (model.loss(point + moved)[0] - model.loss(point - moved)[0]) / (2 * step)
        assert gradient[axis] == pytest.approx(slope, rel=1e-4)
