"""The curves and thresholds of one class, in as many points as a page can show."""

from __future__ import annotations

from typing import Any

import numpy as np

from nbdebug.metrics.curves import Curve, curves
from nbdebug.metrics.thin import thinned
from nbdebug.metrics.thresholds import Thresholds, thresholds
from nbdebug.predictions.one_class import OneClass, keep_chance, one_class
from nbdebug.predictions.table import Table
from nbdebug.tools.errors.numbers import exact, many, triple

POINTS = 200


def of_class(table: Table, number: int, asked: bool) -> dict[str, Any] | None:
    """The curves of a class against the rest, and what each threshold comes to; None without chances.

    Thresholds lead to rows by a column with the chance, which the table is given once somebody ``asked``.
    """
    if asked:
        keep_chance(table, number)
    found = one_class(table, number)
    return None if found is None else {"at": number, **of_one(found, found.column in table.columns)}


def of_one(found: OneClass, swept: bool) -> dict[str, Any]:
    """The same of any chances and targets."""
    both = curves(found.chance, found.target)
    of = int(found.target.sum())
    return {
        "name": found.name,
        "of": of,
        "others": len(found.target) - of,
        "roc": both and points(both.roc),
        "pr": both and points(both.precision_recall),
        "sweep": sweep(thresholds(found.chance, found.target, found.usual), found.column) if swept else None,
    }


def points(curve: Curve) -> dict[str, Any]:
    """A curve in few points, and its area."""
    kept = thinned(curve.x, curve.y, POINTS)
    columns = {name: many(getattr(curve, name)[kept]) for name in ("x", "y")}
    return {**columns, "at": many(curve.thresholds[kept]), "area": triple(curve.area, curve.low, curve.high)}


def sweep(found: Thresholds, column: str) -> dict[str, Any]:
    """Some of the thresholds with their counts; ``below`` is the highest chance under each."""
    kept = found.some(POINTS)
    return {
        "column": column,
        "at": exact(found.at[kept]),
        "below": exact(found.below[kept]),
        "hits": found.hits[kept].tolist(),
        "alarms": found.alarms[kept].tolist(),
        "usual": int(np.searchsorted(found.at[kept], found.usual)),
    }
