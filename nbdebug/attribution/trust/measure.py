"""What was measured of an attribution's worth, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nbdebug.attribution.result import Array
from nbdebug.result import Told

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
class Trust(Told):
    """The measurements, the worst light of them, and what may be concluded."""

    measures: tuple[Measure, ...]
    light: Light
    conclusion: str
    seconds: float = 0.0

    def __getitem__(self, name: str) -> Measure:
        """A measurement by its name."""
        return next(one for one in self.measures if one.name == name)

    def to_frame(self) -> pandas.DataFrame:
        """One row a measurement: name, value, light, said."""
        import pandas as pd

        return pd.DataFrame(
            [{"name": m.name, "value": m.value, "light": m.light, "said": m.said} for m in self.measures]
        )

    def html(self) -> str:
        """The conclusion and a table of the measurements, escaped."""
        from nbdebug.views.markup import paragraph, table

        rows = [[m.light, m.name, "" if m.value is None else f"{m.value:.3g}", m.said] for m in self.measures]
        return paragraph(f"Trust: {self.light}. {self.conclusion}") + table(rows, ["light", "of", "number", "meaning"])

    def __str__(self) -> str:
        """The conclusion, and a line for each measurement."""
        return "\n".join([f"nbdebug trust: {self.light}. {self.conclusion}", *(f"  {one}" for one in self.measures)])


def rank_correlations(a: Array, b: Array) -> Array:
    """Spearman's rank correlation of each row; NaN where one is constant."""
    import numpy as np
    from scipy.stats import rankdata

    x, y = (ranks - ranks.mean(1, keepdims=True) for ranks in (rankdata(a, axis=1), rankdata(b, axis=1)))
    lengths = np.sqrt((x**2).sum(1) * (y**2).sum(1))
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Array = np.where(lengths > 0, (x * y).sum(1) / lengths, np.nan)
    return found


def rank_correlation(a: Array, b: Array) -> float:
    """The median of the rank correlations of the rows; NaN where one is constant in every row."""
    import numpy as np

    found = rank_correlations(a, b)
    return float(np.nanmedian(found)) if np.isfinite(found).any() else float("nan")
