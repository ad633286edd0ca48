"""Results of the reliability checks, and their thresholds, measured with ``benchmarks/reliability.py``.

Good: 90 attributions of single samples, by expected gradients and Shapley values of trained models (MLPs on breast
cancer, one saturated, one explained as a probability, a linear and an additive model, a CNN on digits, a GRU and a
transformer on names). Bad: 408 attributions, namely random and shuffled values, those of another sample, class, seed or
an untrained model, the input itself, edges, and guided backpropagation. With all lights together, 80 of the good ones
are green, 10 yellow and none red; of the bad ones none is green, 7 are yellow (all from a model with another seed) and
401 red. Without stability, the only check that detects values the method does not produce, 10 of the bad ones are green
and 45 yellow. Grad-CAM of the CNN on digits, which flattens its feature maps, is red or gray in 6 of 6 cases, for good
reason: on 40 digits, replacing the 8 positions it ranks first lowers the score no more than 8 random positions do
(median percentile 63, against 100 for expected gradients), and 4 of its maps are empty.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from nbdebug.attribution.result import Array
from nbdebug.result import TextRepr

if TYPE_CHECKING:
    import pandas

Light = Literal["green", "yellow", "red", "gray"]


@dataclass(frozen=True)
class ReliabilityMeasure:
    """The value of a check, its meaning and its light; None and gray if it could not be measured.

    ``curves`` are the curves the value was computed from, by name.
    """

    name: str
    value: float | None
    light: Light
    meaning: str
    curves: dict[str, Array] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        number = "" if self.value is None else f" {self.value:.3g}"
        return f"{self.light}: {self.name}{number}: {self.meaning}"


@dataclass(frozen=True)
class Reliability(TextRepr):
    """The measures, the worst of their lights, and the conclusion."""

    measures: tuple[ReliabilityMeasure, ...]
    light: Light
    conclusion: str
    seconds: float = 0.0

    def __getitem__(self, name: str) -> ReliabilityMeasure:
        return next(measure for measure in self.measures if measure.name == name)

    def to_frame(self) -> pandas.DataFrame:
        """One row per measure: name, value, light, said."""
        import pandas as pd

        return pd.DataFrame(
            [{"name": m.name, "value": m.value, "light": m.light, "said": m.meaning} for m in self.measures]
        )

    def html(self) -> str:
        """Return the conclusion and a table of the measures, escaped."""
        from nbdebug.formatting import html_paragraph, html_table

        rows = [[m.light, m.name, "" if m.value is None else f"{m.value:.3g}", m.meaning] for m in self.measures]
        head = ["light", "check", "value", "meaning"]
        return html_paragraph(f"Trust: {self.light}. {self.conclusion}") + html_table(rows, head)

    def to_text(self) -> str:
        """Return the result as plain text."""
        return "\n".join(
            [f"nbdebug trust: {self.light}. {self.conclusion}", *(f"  {measure}" for measure in self.measures)]
        )


@dataclass(frozen=True)
class _LightThresholds:
    """Thresholds of a light: green up to ``green``, yellow up to ``yellow``, else red; NaN is gray."""

    green: float
    yellow: float
    low_is_good: bool = True

    def light(self, value: float) -> Light:
        """Return the light of a value."""
        if np.isnan(value):
            return "gray"
        sign = 1 if self.low_is_good else -1
        return (
            "green" if sign * value <= sign * self.green else "yellow" if sign * value <= sign * self.yellow else "red"
        )


COMPLETENESS_THRESHOLDS = _LightThresholds(0.02, 0.2)
"""Good: at most 0.016. The fast method, whose ranking is right: 0.17 in nine of ten cases, so red starts higher."""
AGREEMENT_THRESHOLDS = _LightThresholds(0.7, 0.5, low_is_good=False)
"""Good: at least 0.63, 98% above 0.67, median 0.96. Of 408 bad ones, 42 are green, 49 yellow, 303 red.

Compared with occlusion instead of random orders, good ones drop to 0 where removing a single feature does not change a
saturated probability. Cosine similarity separates good from bad no better than rank correlation.
"""
DELETION_THRESHOLDS = _LightThresholds(0.8, 0.5, low_is_good=False)
"""Good: at least 0.56, 98% above 0.69, median 0.98. Of 408 bad ones, 41 are green, 80 yellow, 287 red.

The unnormalized area does not discriminate: it is between 0.25 and 13 for good ones, depending on the distance of the
score from the background.
"""
RANDOMIZATION_THRESHOLDS = _LightThresholds(0.7, 0.85)
"""Good: at most 0.69 (names of nine letters), median 0.13. Attributions that reflect only the input have 1.

Only red is informative: 401 of 408 bad ones are green, because wrong attributions differ from each other, too.
Randomizing only the last layer gives values between -0.87 and 1 for good ones.
"""
STABILITY_THRESHOLDS = _LightThresholds(0.1, 0.25)
"""Good: at most 0.12, 98% below 0.08, median 0.01. Bad, not from the method: at least 0.11, 98% above 0.29."""
NOISE_SHARE = 0.01  # share of each feature's spread in the background
MIN_SPLIT_HALF_CORRELATION = (
    0.3  # minimum rank correlation between the two halves of the random orders for a comparison
)
