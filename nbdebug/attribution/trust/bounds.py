"""Where the lights change, as ``benchmarks/trust.py`` measured it.

90 attributions of single samples that are known to be good: expected gradients and Shapley values of trained models
(MLPs on breast cancer, one saturated, one explained as a probability, a linear and an additive model, a CNN on
digits, a GRU and a transformer on names). 408 that are known to be bad: random and shuffled numbers, those of
another sample, class, seed or an untrained model, the input itself, edges, guided backpropagation. All lights
together: of the good ones 80 are green, 10 yellow, none red; of the bad ones none is green, 7 yellow (all of a model
of another seed), 401 red. Without stability, which alone tells whether the engine gives these numbers at all, 10 of
the bad ones are green and 45 yellow. Grad-CAM of the CNN on digits, which flattens its maps, is red or gray in 6 of 6
and deserves it: of 40 digits, the 8 places it ranks first cost the score no more than 8 at random do (median percentile
63, for expected gradients 100), and 4 of its maps are empty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.attribution.trust.measure import Light


@dataclass(frozen=True)
class Bound:
    """Green up to one number, yellow up to the next; down to them where much is good. NaN is gray."""

    green: float
    yellow: float
    low_is_good: bool = True

    def light(self, value: float) -> Light:
        """The light of a number."""
        if np.isnan(value):
            return "gray"
        sign = 1 if self.low_is_good else -1
        return (
            "green" if sign * value <= sign * self.green else "yellow" if sign * value <= sign * self.yellow else "red"
        )


COMPLETENESS = Bound(0.02, 0.2)
"""Good ones miss 0.016 at most; the quick mode, whose order is right, 0.17 in nine of ten cases, so red is far off."""
AGREEMENT = Bound(0.7, 0.5, low_is_good=False)
"""Good ones: 0.63 at least, 98% over 0.67, median 0.96. Of 408 bad ones 42 are green, 49 yellow, 303 red.

With occlusion in the place of random orders the same good ones went down to 0, where a saturated probability does not
move when one feature alone is taken away; cosine told good from bad no better than ranks.
"""
DELETION = Bound(0.8, 0.5, low_is_good=False)
"""Good ones: 0.56 at least, 98% over 0.69, median 0.98. Of 408 bad ones 41 are green, 80 yellow, 287 red.

The bare area was of no use: good ones had between 0.25 and 13, as the score's way to the background is long or short.
"""
RANDOMIZATION = Bound(0.7, 0.85)
"""Good ones: 0.69 at most (names of nine letters), median 0.13; what shows the input alone has 1.

Only a red light tells something: 401 of 408 bad ones are green, since numbers that are wrong are not alike either.
Random weights in the last layer alone gave good ones anything between -0.87 and 1.
"""
STABILITY = Bound(0.1, 0.25)
"""Good ones: 0.12 at most, 98% under 0.08, median 0.01; bad ones, not of the engine: 0.11 at least, 98% over 0.29."""
NOISE = 0.01  # of each feature's spread in the background
RELIABLE = 0.3  # the rank correlation of two halves of the random orders, below which nothing is compared with them
