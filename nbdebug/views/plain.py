"""Values as JSON and as short text: finite, rounded, never too long."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

LONGEST_TEXT = 2_000
LONGEST_LIST = 50


def plain(value: Any) -> Any:
    """``value`` ready for JSON: floats to 4 significant digits, NaN and Inf as None, long texts and lists cut."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return rounded(value)
    if isinstance(value, str):
        return value if len(value) <= LONGEST_TEXT else value[:LONGEST_TEXT] + "…"
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in _first(value.items())}
    if isinstance(value, (set, frozenset)):
        return plain(sorted(value, key=str))
    if isinstance(value, (list, tuple)):
        rest = [f"… {len(value) - LONGEST_LIST} more"] if len(value) > LONGEST_LIST else []
        return [plain(one) for one in _first(value)] + rest
    return plain(value.tolist() if hasattr(value, "tolist") else str(value))


def _first(items: Any) -> list[Any]:
    return list(items)[:LONGEST_LIST]


def rounded(value: float, digits: int = 4) -> float | int | None:
    """``value`` to so many significant digits, whole numbers exactly, None where it is not finite."""
    if not math.isfinite(value):
        return None
    if value.is_integer() and abs(value) < 2**53:
        return int(value)
    return float(f"{value:.{digits}g}")


def rounded_all(values: Iterable[Any], digits: int = 4) -> list[Any]:
    """Numbers to so many significant digits, in lists as they are nested; None for those that are not finite."""
    return [rounded_all(one, digits) if hasattr(one, "__iter__") else rounded(float(one), digits) for one in values]


def some(names: Sequence[str], most: int = 6) -> str:
    """The first of some names, and how many more there are."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def short(value: Any) -> str:
    """One line of text for a value out of a table."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (int, float)):
        return f"{value:.4g}" if isinstance(value, float) and not value.is_integer() else f"{value:.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {short(one)}" for key, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(short(one) for one in value)
    return str(value)
