"""Lines over steps: losses, rates, norms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import paragraph, table
from nbdebug.views.plain import plain, short
from nbdebug.views.series import line, number, sketch

Point = tuple[float, float | None]
MOST_POINTS = 2_000
POINTS_OF_A_PAGE = 8_000


@dataclass
class Curves(View):
    """Lines with axes, a legend, marks and limits.

    ``series`` maps a name to its ``(x, y)`` points. A row for ``append`` holds the common x under ``x_label`` and a
    value for each line that has one there: ``{"step": 3, "loss": 0.5}``; an unknown name begins a new line.
    ``marks`` are ``(x, text)``, drawn upright; ``limits`` are ``(y, text)``, drawn across. Values that are None, NaN
    or infinite become gaps, and are counted.
    """

    module: ClassVar[str] = "curves.js"
    height: ClassVar[int] = 300

    title: str = ""
    x_label: str = "step"
    y_label: str = ""
    series: Mapping[str, Iterable[Point]] = field(default_factory=dict)
    marks: Sequence[tuple[float, str]] = ()
    limits: Sequence[tuple[float, str]] = ()
    log: bool = False
    log_x: bool = False
    status: str = ""
    stoppable: bool = False

    def __post_init__(self) -> None:
        """Turns points into columns, to which rows are appended."""
        self._lines = {name: _columns(points) for name, points in self.series.items()}

    @classmethod
    def from_columns(cls, x: Sequence[float], columns: Mapping[str, Sequence[float]], **options: Any) -> Curves:
        """Lines that share ``x``; ``options`` are the other fields."""
        return cls(series={name: list(zip(x, y, strict=True)) for name, y in columns.items()}, **options)

    def append(self, row: Mapping[str, Any]) -> dict[str, float]:
        """Takes in one row: the common x and a value for some of the lines."""
        numbers = {name: number(value) for name, value in row.items()}
        for name, value in numbers.items():
            if name != self.x_label and math.isfinite(numbers[self.x_label]):
                x, y = self._lines.setdefault(name, ([], []))
                x.append(numbers[self.x_label])
                y.append(value)
        self.count += 1
        return numbers

    def head(self) -> dict[str, Any]:
        """What a tool may change between two rows."""
        return {
            "status": self.status,
            "marks": [{"at": plain(float(x)), "text": plain(text)} for x, text in self.marks if math.isfinite(x)],
            "limits": [{"at": plain(float(y)), "text": plain(text)} for y, text in self.limits if math.isfinite(y)],
        }

    def state(self) -> dict[str, Any]:
        """Lines, labels, marks and limits, thinned to what a page can hold."""
        most = max(50, min(MOST_POINTS, POINTS_OF_A_PAGE // max(1, len(self._lines))))
        labels = {"title": self.title, "x_label": self.x_label, "y_label": self.y_label}
        switches = {"log": self.log, "log_x": self.log_x, "stoppable": self.stoppable}
        lines = [line(name, x, y, most) for name, (x, y) in self._lines.items()]
        return {**labels, **switches, **self.head(), "lines": lines}

    def html(self) -> str:
        """A table with a row a line: ends, extremes, a sketch."""
        head = ("", "points", "first", "last", "lowest", f"at {self.x_label}", "highest", "not finite", "shape")
        limits = [f"{text}: {short(float(y))}" for y, text in self.limits]
        marks = [f"{text} at {self.x_label} {short(float(x))}" for x, text in self.marks]
        rows = table([_summary(name, x, y) for name, (x, y) in self._lines.items()], head)
        return paragraph(self.title) + rows + "".join(map(paragraph, [self.status, *limits, *marks]))


def _summary(name: str, x: list[float], y: list[float]) -> list[str]:
    finite = [i for i, value in enumerate(y) if math.isfinite(value)]
    return [name, str(len(y)), *_ends(x, y, finite), str(len(y) - len(finite)), sketch(y)]


def _ends(x: list[float], y: list[float], finite: list[int]) -> list[str]:
    """First, last, lowest with its place, highest."""
    if not finite:
        return [""] * 5
    low, high = min(finite, key=y.__getitem__), max(finite, key=y.__getitem__)
    return [short(value) for value in (y[finite[0]], y[finite[-1]], y[low], x[low], y[high])]


def _columns(points: Iterable[Point]) -> tuple[list[float], list[float]]:
    pairs = [(float(x), number(y)) for x, y in points if math.isfinite(x)]
    return [x for x, _ in pairs], [y for _, y in pairs]
