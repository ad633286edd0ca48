"""Class weights that are inverse class counts, but belong to other classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt

_POWERS = (1.0, 0.5)  # inverse counts, and their roots
_EXACT, _SIGMAS, _MAX_NOISE = 0.03, 2.0, 0.3
_MIN_CONTRAST = 1.5


@dataclass(frozen=True)
class MisplacedWeights:
    """Two classes of which ``heavy`` has the weight of a rarer class and ``light`` that of a more common one.

    ``ratio`` is the weight of ``heavy`` over that of ``light``, ``expected`` what their counts give.
    """

    heavy: int
    light: int
    ratio: float
    expected: float


def find_misplaced_weights(counts: Mapping[int, int], weights: Mapping[int, float]) -> MisplacedWeights | None:
    """Return two classes whose weights belong to other classes; None unless the weights are inverse class counts.

    They are if weight times count is the same for all classes in some order of the weights, but clearly not in their
    own. Weights from all data fit the counts of a split up to its noise; with two classes the fit must be exact. With
    more, weights that fit as well if they are proportional to the counts are inverted, not in another order.
    """
    if set(counts) != set(weights) or len(counts) < 2 or min(counts.values()) < 1 or min(weights.values()) <= 0:
        return None
    by_count, by_weight = sorted(counts, key=lambda c: -counts[c]), sorted(weights, key=lambda c: weights[c])
    noise = min(_SIGMAS / sqrt(min(counts.values())), _MAX_NOISE) if len(counts) > 2 else 0.0
    for power in _POWERS:
        best = [weights[b] * counts[a] ** power for a, b in zip(by_count, by_weight, strict=True)]
        own = {c: weights[c] * counts[c] ** power for c in counts}
        heavy, light = max(own, key=lambda c: own[c]), min(own, key=lambda c: own[c])
        fit = 1 + _EXACT + noise * power
        ratios = [weights[c] / counts[c] ** power for c in counts]
        if len(counts) > 2 and max(ratios) <= max(1 + _EXACT, max(best) / min(best)) * min(ratios):
            return None
        if max(best) <= fit * min(best) and own[heavy] > _MIN_CONTRAST * fit * own[light]:
            expected = (counts[light] / counts[heavy]) ** power
            return MisplacedWeights(heavy, light, weights[heavy] / weights[light], expected)
    return None
