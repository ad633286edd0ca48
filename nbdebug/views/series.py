"""Columns of numbers: thinned for a page, packed for the wire, sketched in text."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nbdebug.views.plain import rounded

BARS = "▁▂▃▄▅▆▇█"


def number(value: Any) -> float:
    """``value`` as a float; None is NaN."""
    return math.nan if value is None else float(value)


def thin(y: Sequence[float], most: int) -> list[int]:
    """The indices of at most ``most`` points that keep the ends, and of each stretch the extremes and a gap."""
    if len(y) <= most:
        return list(range(len(y)))
    width = math.ceil(len(y) / max(1, (most - 2) // 3))
    keep = {0, len(y) - 1}
    for start in range(0, len(y), width):
        keep.update(_extremes(y, range(start, min(start + width, len(y)))))
    return sorted(keep)


def _extremes(y: Sequence[float], stretch: range) -> list[int]:
    finite = [i for i in stretch if math.isfinite(y[i])]
    gap = [i for i in stretch if not math.isfinite(y[i])][:1]
    return gap + ([min(finite, key=y.__getitem__), max(finite, key=y.__getitem__)] if finite else [])


def line(name: str, x: Sequence[float], y: Sequence[float], most: int) -> dict[str, Any]:
    """One line as the browser reads it: rounded, thinned, with the number of values that are not finite."""
    keep = thin(y, most)
    bad = sum(not math.isfinite(value) for value in y)
    return {"name": name, "x": [_place(x[i]) for i in keep], "y": [rounded(y[i]) for i in keep], "bad": bad}


def _place(x: float) -> float | int | None:
    """Places lie closer together than 4 digits can tell."""
    return rounded(x) if float(x).is_integer() or not math.isfinite(x) else float(f"{x:.7g}")


def pack(rows: Iterable[Mapping[str, float]], columns: Sequence[str]) -> bytes:
    """Rows as float32, row by row; a missing value is NaN, a value that is not finite is Inf."""
    return array("f", [_coded(row, name) for row in rows for name in columns]).tobytes()


def _coded(row: Mapping[str, float], name: str) -> float:
    if name not in row:
        return math.nan
    value = number(row[name])
    return value if math.isfinite(value) else math.inf


def sketch(y: Sequence[float], width: int = 24) -> str:
    """A line of block characters in the shape of ``y``."""
    finite = [value for value in y if math.isfinite(value)]
    if not finite:
        return ""
    low, span = min(finite), (max(finite) - min(finite)) or 1.0
    last = min(width, len(finite)) - 1
    picked = [finite[i * (len(finite) - 1) // max(1, last)] for i in range(last + 1)]
    return "".join(BARS[round((value - low) / span * (len(BARS) - 1))] for value in picked)
