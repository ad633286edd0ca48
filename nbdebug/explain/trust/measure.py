"""What was measured of an attribution's worth, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from nbdebug.explain.result import Array

if TYPE_CHECKING:
    import pandas

Light = Literal["green", "yellow", "red", "gray"]


@dataclass(frozen=True)
class Measure:
    """One number, what it means, and its light; ``value`` is None and the light gray where it could not be taken.

    ``curves`` are what it was read from, by name.
    """

    name: str
    value: float | None
    light: Light
    said: str
    curves: dict[str, Array] = field(default_factory=dict, repr=False)

    def __str__(self) -> str:
        """The light, the number, what it means."""
        number = "" if self.value is None else f" {self.value:.3g}"
        return f"{self.light}: {self.name}{number}: {self.said}"


@dataclass(frozen=True)
class Trust:
    """The measurements, the worst light of them, and what may be concluded."""

    measures: tuple[Measure, ...]
    light: Light
    conclusion: str

    def __getitem__(self, name: str) -> Measure:
        """A measurement by its name."""
        return next(one for one in self.measures if one.name == name)

    def to_frame(self) -> pandas.DataFrame:
        """One row a measurement: name, value, light, said."""
        import pandas as pd

        return pd.DataFrame(
            [{"name": m.name, "value": m.value, "light": m.light, "said": m.said} for m in self.measures]
        )

    def __str__(self) -> str:
        """The conclusion, and a line for each measurement."""
        return "\n".join([f"nbdebug trust: {self.light}. {self.conclusion}", *(f"  {one}" for one in self.measures)])


def light(value: float, green: float, yellow: float, low_is_good: bool = True) -> Light:
    """Green up to one bound, yellow up to the next."""
    if np.isnan(value):
        return "gray"
    sign = 1 if low_is_good else -1
    return "green" if sign * value <= sign * green else "yellow" if sign * value <= sign * yellow else "red"


def rank_correlation(a: Array, b: Array) -> float:
    """Spearman's rank correlation of each row, the median over rows; NaN where one is constant in every row."""
    from scipy.stats import rankdata

    ranks = [rankdata(one, axis=1) for one in (a, b)]
    x, y = (one - one.mean(1, keepdims=True) for one in ranks)
    lengths = np.sqrt((x**2).sum(1) * (y**2).sum(1))
    there = lengths > 0
    return float(np.median((x * y).sum(1)[there] / lengths[there])) if there.any() else float("nan")
