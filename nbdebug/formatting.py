"""Numbers, lists and values as short text, JSON and simple HTML."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Any

_MAX_TEXT_LENGTH = 2_000
_MAX_LIST_LENGTH = 50
_ASCII_SUBSTITUTES = str.maketrans(
    {"→": "->", "×": "x", "…": "...", "·": "-", "–": "-", "≥": ">=", "≤": "<=", "∈": " in ", "μ": "mean ", "σ": "std "}
)
_PATCHES_PER_SIDE = 6  # of an image whose patches are named one by one


def to_json_value(value: Any) -> Any:
    """Return ``value`` ready for JSON: floats with 4 digits, NaN and Inf as None, long texts and lists truncated."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return round_number(value)
    if isinstance(value, str):
        return truncate(value, _MAX_TEXT_LENGTH)
    if isinstance(value, Mapping):
        return {str(key): to_json_value(item) for key, item in _first_items(value.items())}
    if isinstance(value, (set, frozenset)):
        return to_json_value(sorted(value, key=str))
    if isinstance(value, (list, tuple)):
        truncation = [f"… {len(value) - _MAX_LIST_LENGTH} more"] if len(value) > _MAX_LIST_LENGTH else []
        return [to_json_value(item) for item in _first_items(value)] + truncation
    return to_json_value(value.tolist() if hasattr(value, "tolist") else str(value))


def _first_items(items: Any) -> list[Any]:
    return list(items)[:_MAX_LIST_LENGTH]


def round_number(value: float, digits: int = 4) -> float | int | None:
    """Round to significant digits; whole numbers stay exact, non-finite ones become None."""
    if not math.isfinite(value):
        return None
    if value.is_integer() and abs(value) < 2**53:
        return int(value)
    return float(f"{value:.{digits}g}")


def round_numbers(values: Iterable[Any], digits: int = 4) -> list[Any]:
    """Round numbers in nested lists to significant digits; non-finite ones become None."""
    return [
        round_numbers(value, digits) if hasattr(value, "__iter__") else round_number(float(value), digits)
        for value in values
    ]


def truncate(text: str, max_length: int) -> str:
    """Return a text of at most ``max_length`` characters; a longer one ends in an ellipsis."""
    return text if len(text) <= max_length else text[: max_length - 1] + "…"


def encodable_text(text: str) -> str:
    """Return a text that standard output can encode; a terminal without Unicode gets similar ASCII characters."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return text.translate(_ASCII_SUBSTITUTES).encode(encoding, "backslashreplace").decode(encoding)
    return text


def join_names(names: Sequence[str], max_names: int = 6) -> str:
    """Join the first names, with the number of the remaining ones."""
    return ", ".join(names[:max_names]) + (f" and {len(names) - max_names} more" if len(names) > max_names else "")


def format_value(value: Any) -> str:
    """Return one line of text for a value of a table."""
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, (int, float)):
        return f"{value:.4g}" if isinstance(value, float) and not value.is_integer() else f"{value:.0f}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {format_value(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(format_value(item) for item in value)
    return str(value)


def html_table(rows: Iterable[Iterable[str]], head: Iterable[str] = ()) -> str:
    """Return a table of texts; empty without rows."""
    body = "".join(_html_row(row, "td") for row in rows)
    return f"<table>{_html_row(head, 'th')}{body}</table>" if body else ""


def html_paragraph(text: Any) -> str:
    """Return a paragraph; empty for an empty text."""
    return f"<p>{escape(str(text))}</p>" if text else ""


def html_list(items: Iterable[str]) -> str:
    """Return a bulleted list; empty without items."""
    body = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f"<ul>{body}</ul>" if body else ""


def _html_row(cells: Iterable[str], tag: str) -> str:
    texts = "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells)
    return f"<tr>{texts}</tr>" if texts else ""


def round_decimals(value: Any, digits: int = 4) -> float | int | None:
    """Round a number to so many decimals; None if it is not finite."""
    return round(float(value), digits) if math.isfinite(value) else None


def round_all_decimals(values: Iterable[Any], digits: int = 4) -> list[float | int | None]:
    """Round numbers to so many decimals; None where they are not finite."""
    return [round_decimals(value, digits) for value in _to_floats(values)]


def finite_or_none(values: Iterable[Any]) -> list[float | None]:
    """Return numbers unrounded, as queries need them; None where they are not finite."""
    return [value if math.isfinite(value) else None for value in _to_floats(values)]


def _to_floats(values: Iterable[Any]) -> list[float]:
    import numpy as np  # a script under check may choose numpy's threads before it imports numpy

    numbers: list[float] = np.asarray(values, np.float64).tolist()
    return numbers


def value_with_interval(value: Any, low: Any, high: Any) -> list[float | int | None]:
    """Return a value and the ends of its interval, rounded."""
    return [round_decimals(value), round_decimals(low), round_decimals(high)]


def percent_text(value: float | None) -> str:
    """Format a share as a percentage with one decimal."""
    return "–" if value is None else f"{100 * value:.1f}%"


def interval_text(share: Sequence[float | None]) -> str:
    """Format a share and its interval as percentages."""
    value, low, high = share
    return (
        percent_text(value) if low is None else f"{percent_text(value)} ({percent_text(low)} to {percent_text(high)})"
    )


def split_evenly(length: int, max_parts: int) -> list[tuple[int, int]]:
    """Split an axis into at most ``max_parts`` parts of nearly equal length."""
    import numpy as np

    boundaries = np.linspace(0, length, min(length, max_parts) + 1).round().astype(int).tolist()
    return list(pairwise(boundaries))


def range_name(axis: str, start: int, stop: int) -> str:
    """Name positions along an axis, such as "row 3" or "rows 0–4"."""
    return f"{axis} {start}" if stop == start + 1 else f"{axis}s {start}–{stop - 1}"


def named_patches(height: int, width: int) -> Iterator[tuple[slice, slice, str]]:
    """Yield the rows, the columns and the name of each patch of an image, on a grid of up to 6 × 6."""
    for top, bottom in split_evenly(height, _PATCHES_PER_SIDE):
        for left, right in split_evenly(width, _PATCHES_PER_SIDE):
            name = f"{range_name('row', top, bottom)}, {range_name('column', left, right)}"
            yield slice(top, bottom), slice(left, right), name
