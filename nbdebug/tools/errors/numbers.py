"""Numbers of panels, ready for JSON: rounded as far as nobody sees it, null where there is none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from nbdebug.metrics.per_class import Share


def one(value: Any, digits: int = 4) -> float | int | None:
    """A number to so many decimals; None where it is not finite."""
    return round(float(value), digits) if np.isfinite(value) else None


def many(values: Iterable[Any], digits: int = 4) -> list[float | int | None]:
    """Numbers to so many decimals."""
    return [one(value, digits) for value in np.asarray(values, np.float64).tolist()]


def exact(values: Iterable[Any]) -> list[float | None]:
    """Numbers in full, such as a query needs them."""
    return [value if np.isfinite(value) else None for value in np.asarray(values, np.float64).tolist()]


def triple(value: Any, low: Any, high: Any) -> list[float | int | None]:
    """A value and the ends of its interval."""
    return [one(value), one(low), one(high)]


def triples(share: Share, at: Sequence[int]) -> list[list[float | int | None]]:
    """The values of some classes, each with the ends of its interval."""
    return [triple(share.value[i], share.low[i], share.high[i]) for i in at]


def percent(value: float | None) -> str:
    """A share in percent, to a tenth."""
    return "–" if value is None else f"{100 * value:.1f}%"


def interval(share: Sequence[float | None]) -> str:
    """A value with its interval, in percent."""
    value, low, high = share
    return percent(value) if low is None else f"{percent(value)} ({percent(low)} to {percent(high)})"
