"""Line charts; thinning and packing of columns of numbers."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbdebug.formatting import format_value, html_paragraph, html_table, round_number, to_json_value
from nbdebug.views.page import View

_SPARKLINE_CHARACTERS = "▁▂▃▄▅▆▇█"
_Point = tuple[float, float | None]
_MAX_POINTS_PER_LINE = 2_000
_MAX_POINTS_ON_PAGE = 8_000


def as_float(value: Any) -> float:
    """Return ``value`` as a float; None is NaN."""
    return math.nan if value is None else float(value)


def thin_indices(y: Sequence[float], max_points: int) -> list[int]:
    """Return the indices of at most ``max_points`` points: the ends, and the extremes and a gap of each segment."""
    if len(y) <= max_points:
        return list(range(len(y)))
    width = math.ceil(len(y) / max(1, (max_points - 2) // 3))
    indices = {0, len(y) - 1}
    for start in range(0, len(y), width):
        indices.update(_extremes(y, range(start, min(start + width, len(y)))))
    return sorted(indices)


def _extremes(y: Sequence[float], segment: range) -> list[int]:
    finite = [i for i in segment if math.isfinite(y[i])]
    gap = [i for i in segment if not math.isfinite(y[i])][:1]
    return gap + ([min(finite, key=y.__getitem__), max(finite, key=y.__getitem__)] if finite else [])


def line_data(name: str, x: Sequence[float], y: Sequence[float], max_points: int) -> dict[str, Any]:
    """Return one line for the browser: rounded, thinned, with the number of non-finite values."""
    indices = thin_indices(y, max_points)
    non_finite = sum(not math.isfinite(value) for value in y)
    return {
        "name": name,
        "x": [round_number(float(x[i]), 7) for i in indices],  # 4 digits may not separate neighbors
        "y": [round_number(y[i]) for i in indices],
        "bad": non_finite,
    }


def pack_rows(rows: Iterable[Mapping[str, float]], columns: Sequence[str]) -> bytes:
    """Return rows as float32, row by row; a missing value is NaN, a non-finite value is Inf."""
    return array("f", [_encoded_value(row, name) for row in rows for name in columns]).tobytes()


def _encoded_value(row: Mapping[str, float], name: str) -> float:
    if name not in row:
        return math.nan
    value = as_float(row[name])
    return value if math.isfinite(value) else math.inf


def sparkline(y: Sequence[float], width: int = 24) -> str:
    """Return a sparkline of ``y`` in block characters."""
    finite = [value for value in y if math.isfinite(value)]
    if not finite:
        return ""
    low, span = min(finite), (max(finite) - min(finite)) or 1.0
    last = min(width, len(finite)) - 1
    sampled = [finite[i * (len(finite) - 1) // max(1, last)] for i in range(last + 1)]
    return "".join(
        _SPARKLINE_CHARACTERS[round((value - low) / span * (len(_SPARKLINE_CHARACTERS) - 1))] for value in sampled
    )


@dataclass
class LineChart(View):
    """Lines with axes, a legend, marks and limits.

    ``series`` maps a name to its ``(x, y)`` points. A row for ``append`` holds the common x under ``x_label`` and a
    value for each line that has one there: ``{"step": 3, "loss": 0.5}``; an unknown name starts a new line. ``marks``
    are vertical ``(x, text)``; ``limits`` are horizontal ``(y, text)``. Values that are None, NaN or infinite become
    gaps, and are counted. ``spacing`` is the usual distance of points, by default that of the densest line; points that
    lie several times further apart are not joined.
    """

    module: ClassVar[str] = "views/curves.js"
    height: ClassVar[int] = 300

    title: str = ""
    x_label: str = "step"
    y_label: str = ""
    series: Mapping[str, Iterable[_Point]] = field(default_factory=dict)
    marks: Sequence[tuple[float, str]] = ()
    limits: Sequence[tuple[float, str]] = ()
    log: bool = False
    log_x: bool = False
    spacing: float | None = None
    status: str = ""
    stoppable: bool = False

    def __post_init__(self) -> None:
        self._lines = {name: _columns(points) for name, points in self.series.items()}

    @classmethod
    def from_columns(cls, x: Sequence[float], columns: Mapping[str, Sequence[float]], **options: Any) -> LineChart:
        """Create lines that share ``x``; ``options`` are the other fields."""
        return cls(series={name: list(zip(x, y, strict=True)) for name, y in columns.items()}, **options)

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Add one row: the common x and a value for some of the lines."""
        numbers = {name: as_float(value) for name, value in row.items()}
        for name, value in numbers.items():
            if name != self.x_label and math.isfinite(numbers[self.x_label]):
                x, y = self._lines.setdefault(name, ([], []))
                x.append(numbers[self.x_label])
                y.append(value)
        self.count += 1
        return numbers

    def head(self) -> dict[str, Any]:
        """Return what a tool may change between two rows."""
        return {
            "status": self.status,
            "marks": [
                {"at": to_json_value(float(x)), "text": to_json_value(text)}
                for x, text in self.marks
                if math.isfinite(x)
            ],
            "limits": [
                {"at": to_json_value(float(y)), "text": to_json_value(text)}
                for y, text in self.limits
                if math.isfinite(y)
            ],
        }

    def state(self) -> dict[str, Any]:
        """Return lines, labels, marks and limits, thinned to fit a page."""
        max_points = max(50, min(_MAX_POINTS_PER_LINE, _MAX_POINTS_ON_PAGE // max(1, len(self._lines))))
        labels = {"title": self.title, "x_label": self.x_label, "y_label": self.y_label}
        switches = {"log": self.log, "log_x": self.log_x, "stoppable": self.stoppable}
        lines = [line_data(name, x, y, max_points) for name, (x, y) in self._lines.items()]
        return {**labels, **switches, **self.head(), "spacing": self.spacing, "lines": lines}

    def html(self) -> str:
        """Return a table with one row per line: ends, extremes, a sparkline."""
        head = ("", "points", "first", "last", "lowest", f"at {self.x_label}", "highest", "not finite", "shape")
        limits = [f"{text}: {format_value(float(y))}" for y, text in self.limits]
        marks = [f"{text} at {self.x_label} {format_value(float(x))}" for x, text in self.marks]
        rows = html_table([_summary(name, x, y) for name, (x, y) in self._lines.items()], head)
        return html_paragraph(self.title) + rows + "".join(map(html_paragraph, [self.status, *limits, *marks]))


def _summary(name: str, x: list[float], y: list[float]) -> list[str]:
    finite = [i for i, value in enumerate(y) if math.isfinite(value)]
    return [name, str(len(y)), *_ends(x, y, finite), str(len(y) - len(finite)), sparkline(y)]


def _ends(x: list[float], y: list[float], finite: list[int]) -> list[str]:
    """Return first, last, lowest with its x, and highest."""
    if not finite:
        return [""] * 5
    low, high = min(finite, key=y.__getitem__), max(finite, key=y.__getitem__)
    return [format_value(value) for value in (y[finite[0]], y[finite[-1]], y[low], x[low], y[high])]


def _columns(points: Iterable[_Point]) -> tuple[list[float], list[float]]:
    pairs = [(float(x), as_float(y)) for x, y in points if math.isfinite(x)]
    return [x for x, _ in pairs], [y for _, y in pairs]
