"""How far groups lie apart: the largest difference of a rate, and the smallest ratio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from nbdebug.metrics.intervals import LEVEL
from nbdebug.slices.groups import Group, Rate
from nbdebug.slices.statistics import newcombe, ratio


@dataclass(frozen=True)
class Gap:
    """The groups with the ``lowest`` and the ``highest`` rate, their difference and their ratio, with intervals.

    The intervals hold for all pairs of groups at once, and so for the largest gap among them (Bonferroni). With a low
    end above 0, or a high end of the ratio under 1, the groups differ by more than chance.
    """

    rate: str
    lowest: str
    highest: str
    difference: float
    low: float
    high: float
    ratio: float
    ratio_low: float
    ratio_high: float

    @property
    def is_real(self) -> bool:
        """Whether the groups differ by more than chance."""
        return self.low > 0


def largest(name: str, groups: Sequence[Group], fewest: int) -> Gap | None:
    """The gap in one rate between groups of enough rows; None where there are not two."""
    rates = [(one.name, one.rates[name]) for one in groups if one.rates[name].rows >= fewest]
    if len(rates) < 2:
        return None
    ordered = sorted(rates, key=lambda one: one[1].value)
    (lowest, least), (highest, most) = ordered[0], ordered[-1]
    pairs = list(combinations([one for _, one in ordered], 2))
    level = 1 - (1 - LEVEL) / len(pairs)
    ends = [newcombe(*numbers(high, low), level) for low, high in pairs]
    ratios = [ratio(*numbers(low, high), level) for low, high in pairs]
    return Gap(
        rate=name,
        lowest=lowest,
        highest=highest,
        difference=most.value - least.value,
        low=max(0.0, *(float(low) for low, _ in ends)),
        high=max(float(high) for _, high in ends),
        ratio=least.value / most.value if most.value else 1.0,
        ratio_low=min(float(low) for low, _ in ratios),
        ratio_high=min(1.0, *(float(high) for _, high in ratios)),
    )


def numbers(one: Rate, other: Rate) -> tuple[float, int, float, int]:
    """Hits and rows of both."""
    return one.hits, one.rows, other.hits, other.rows
