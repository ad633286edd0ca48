"""Weights of the positives of several labels that follow positives / negatives in place of the inverse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log, sqrt
from statistics import median

_POWERS = (1.0, 0.5)  # positives / negatives, and its root
_EXACT, _SIGMAS, _MAX_NOISE = 0.03, 2.0, 0.3
_MIN_CONTRAST, _MIN_SPREAD = log(1.5), log(2)
_MIN_FITTING, _MIN_FOR_FACTOR = 2, 3
_TIE = 1e-3


@dataclass(frozen=True)
class InvertedLabelWeights:
    """The ``label`` whose positives have the most inappropriate ``weight``, and the ``expected`` one.

    ``power`` is 1 if the weights follow positives / negatives, and 0.5 if they follow its root.
    """

    label: int
    weight: float
    expected: float
    power: float


def find_inverted_label_weights(
    positives: Sequence[int], negatives: Sequence[int], weights: Sequence[float]
) -> InvertedLabelWeights | None:
    """Return the worst label if the weights of positives follow positives / negatives of each label; else None.

    ``weights`` are those of a positive over a negative. They may be proportional to the ratios if there are three
    labels or more whose ratios differ, and clipped at their extremes. Weights of a split fit the counts of another one
    up to the noise of the counts; weights that hardly differ between the labels must fit exactly.
    """
    if min(len(weights), len(positives)) < _MIN_FITTING or min(*positives, *negatives, *weights) <= 0:
        return None
    ratios = [log(p / n) for p, n in zip(positives, negatives, strict=True)]
    logs = [log(weight) for weight in weights]
    has_spread = max(logs) - min(logs) >= _MIN_CONTRAST
    noise = min(_SIGMAS / sqrt(min(*positives, *negatives)), _MAX_NOISE) if has_spread else 0.0
    for power in _POWERS:
        targets = [power * ratio for ratio in ratios]
        factors = [0.0]
        if len(logs) >= _MIN_FOR_FACTOR and max(targets) - min(targets) >= _MIN_SPREAD:
            factors.append(median(own - target for own, target in zip(logs, targets, strict=True)))
        tolerance = _EXACT + noise * power
        is_inverted = any(_fit(logs, [target + factor for target in targets], tolerance) for factor in factors)
        label = max(range(len(logs)), key=lambda k: abs(targets[k]))
        has_contrast = abs(logs[label] + targets[label]) > _MIN_CONTRAST + tolerance
        if is_inverted and has_contrast and abs(targets[label]) > _MIN_CONTRAST + 2 * tolerance:
            return InvertedLabelWeights(label, exp(logs[label]), exp(-targets[label]), power)
    return None


def _fit(logs: list[float], targets: list[float], tolerance: float) -> bool:
    """Return whether logarithms are the targets, except those that are clipped to the extremes of the others."""
    low, high = min(logs), max(logs)
    fitting = [abs(own - target) <= tolerance for own, target in zip(logs, targets, strict=True)]
    clipped = [
        (abs(own - low) < _TIE and target < low) or (abs(own - high) < _TIE and target > high)
        for own, target in zip(logs, targets, strict=True)
    ]
    return sum(fitting) >= _MIN_FITTING and all(a or b for a, b in zip(fitting, clipped, strict=True))
