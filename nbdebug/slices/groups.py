"""The groups of an attribute, and the rates of each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.metrics.calibration import reliability
from nbdebug.metrics.intervals import LEVEL, wilson
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.query import Query, column
from nbdebug.slices.condition import Condition, query_of
from nbdebug.slices.features import Feature, by_quantiles, by_value

QUARTERS = (0.25, 0.5, 0.75)
BINS_EACH = 20  # rows to a bin of the calibration error, at least
BINS = 10


@dataclass(frozen=True)
class Rate:
    """A share of some rows, with its interval: ``hits`` of ``rows``; NaN where there are none."""

    hits: float
    rows: int
    low: float
    high: float

    @classmethod
    def of(cls, hits: NDArray[np.bool_], among: NDArray[np.bool_] | None = None) -> Rate:
        """The share of ``hits`` among some rows."""
        kept = hits if among is None else hits[among]
        low, high = wilson(kept.sum(), len(kept))
        return cls(float(kept.sum()), len(kept), float(low), float(high))

    @property
    def value(self) -> float:
        """The share."""
        return self.hits / self.rows if self.rows else float("nan")


@dataclass(frozen=True)
class Group:
    """One group: its rates by name, and how far confidence lies above accuracy.

    ``confidence`` is that difference with its interval, ``error`` the expected calibration error and ``chance`` what
    it would be by chance alone; NaN where there are no confidences. ``is_small`` groups count in no gap.
    """

    condition: Condition
    rows: int
    rates: dict[str, Rate]
    confidence: tuple[float, float, float]
    error: float
    chance: float
    is_small: bool

    @property
    def name(self) -> str:
        """Such as ``female`` or ``20 to 28``."""
        return self.condition.words.removeprefix(f"{self.condition.column} ").removeprefix("= ")

    @property
    def query(self) -> Query:
        """Its rows."""
        return query_of((self.condition,))


def attribute(table: Predictions, by: str) -> Feature:
    """A column in groups: numbers in quarters, or by value where there are no more than four; other columns by value.

    Raises SetupError for a column that there is not, or one that has more than fifty different texts.
    """
    values = column(table.columns, by)
    if values.dtype.kind in "fiu":
        return by_quantiles(by, values, QUARTERS)
    found = by_value(by, values, 1)
    if any(one is None for one in found.levels):
        raise SetupError(f"column {by!r} has too many different values; expected groups. Put them into fewer.")
    return found


def grouped(table: Predictions, feature: Feature, positive: int | None, fewest: int) -> tuple[Group, ...]:
    """The groups that have rows with a target and a prediction."""
    known = (table.target >= 0) & (table.prediction >= 0)
    masks = [known & (feature.codes == level) for level in range(len(feature.levels))]
    pairs = zip(feature.levels, masks, strict=True)
    found = [group(table, one, mask, positive, fewest) for one, mask in pairs if one is not None and mask.any()]
    return tuple(found if feature.ordered else sorted(found, key=lambda one: one.name))


def group(
    table: Predictions, condition: Condition, mask: NDArray[np.bool_], positive: int | None, fewest: int
) -> Group:
    """One group of rows."""
    right = table.right[mask]
    rates = {"accuracy": Rate.of(right)}
    if positive is not None:
        true, said = table.target[mask] == positive, table.prediction[mask] == positive
        rates = {
            "selection rate": Rate.of(said),
            "true-positive rate": Rate.of(said, true),
            "false-positive rate": Rate.of(said, ~true),
            **rates,
        }
    sure = table.columns["confidence"][mask].astype(np.float64) if "confidence" in table.columns else None
    rows = int(mask.sum())
    return Group(condition, rows, rates, *calibrated(sure, right), is_small=rows < fewest)


def calibrated(
    sure: NDArray[np.float64] | None, right: NDArray[np.bool_]
) -> tuple[tuple[float, float, float], float, float]:
    """Confidence less accuracy with its interval, by the normal distribution; the calibration error; that by chance."""
    from nbdebug.metrics.intervals import normal

    if sure is None or len(sure) < 2:
        return (float("nan"),) * 3, float("nan"), float("nan")
    gaps = sure - right
    middle, half = float(gaps.mean()), normal(LEVEL) * float(gaps.std(ddof=1) / np.sqrt(len(gaps)))
    found = reliability(sure, right, bins=int(np.clip(len(sure) // BINS_EACH, 1, BINS)))
    return (middle, middle - half, middle + half), found.error, found.chance
