"""Slices, their conditions, and the result of a slice search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.formatting import html_list, html_paragraph, html_table, round_number
from nbdebug.predictions.table import Query
from nbdebug.result import Result

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.panel import PanelView

MISSING_TEXTS = ("nan", "None", "NaT", "<NA>")  # the texts of missing values
_MAX_NAMED_VALUES = 3  # beyond this many values only their number is shown


@dataclass(frozen=True)
class Condition:
    """A range of a column, both ends included and None for no bound, or a set of allowed values, as text.

    ``cells`` stands for a target class, which is no column: all cells in its row of the grid.
    """

    column: str
    low: float | None = None
    high: float | None = None
    values: tuple[str, ...] = ()
    cells: tuple[tuple[int, int], ...] = ()

    @property
    def description(self) -> str:
        """Return text such as ``brightness ≤ 0.21`` or ``sex = male``."""
        if self.cells:
            return f"true class {self.values[0]}"
        if self.values:
            return f"{self.column} {_describe_values(self.values)}"
        if self.low is None:
            return f"{self.column} ≤ {_format_bound(self.high)}"
        if self.high is None:
            return f"{self.column} ≥ {_format_bound(self.low)}"
        if self.low == self.high:
            return f"{self.column} = {_format_bound(self.low)}"
        return f"{self.column} {_format_bound(self.low)} to {_format_bound(self.high)}"


def _describe_values(values: tuple[str, ...]) -> str:
    if set(values) <= set(MISSING_TEXTS):
        return "is missing"
    if len(values) > _MAX_NAMED_VALUES:
        return f"is one of {len(values)} rare values"
    return "= " + " or ".join(values)


def _format_bound(value: float | None) -> str:
    """Format a bound: all digits of a short number, else four."""
    text = f"{value:.12g}"
    return text if len(text) <= 8 else f"{value:.4g}"


def build_query(conditions: Iterable[Condition], **options: Any) -> Query:
    """Return the query for the rows that meet all conditions."""
    ranges, values, cells = {}, {}, tuple[tuple[int, int], ...]()
    for condition in conditions:
        if condition.cells:
            cells = condition.cells
        elif condition.values:
            values[condition.column] = condition.values
        else:
            ranges[condition.column] = (condition.low, condition.high)
    return Query(cells=cells, ranges=ranges, values=values, **options)


def query_request(conditions: Iterable[Condition]) -> dict[str, Any]:
    """Return the query as a page sends it, without default values."""
    query = build_query(conditions)
    parts = {"cells": query.cells, "ranges": query.ranges, "values": query.values}
    return {name: value for name, value in parts.items() if value}


def separating_bounds(below: Any, above: Any, dtype: np.dtype[Any]) -> tuple[float, float]:
    """Return the shortest numbers that separate two adjacent values: the upper bound below, the lower bound above.

    They are compared as numbers of ``dtype``, like the column.
    """
    if dtype.kind != "f":
        return float(below), float(above)
    return _shortest_decimal(below, above, below, dtype, up=True), _shortest_decimal(
        below, above, above, dtype, up=False
    )


def _shortest_decimal(below: Any, above: Any, side: Any, dtype: np.dtype[Any], up: bool) -> float:
    """Return the shortest decimal from ``below`` to ``above`` on the side of ``side``."""
    if not (np.isfinite(below) and np.isfinite(above)):
        return float(np.nan_to_num(side))
    for digits in range(1, 18):
        for step in (0.0, 1.0, -1.0):
            candidate = _round_and_step(float(side), digits, step)
            converted = dtype.type(candidate)
            if (below <= converted < above) if up else (below < converted <= above):
                return candidate
    return float(side)


def _round_and_step(value: float, digits: int, step: float) -> float:
    """Round ``value`` to so many digits, then add ``step`` units of the last digit."""
    if value == 0:
        return 0.0
    unit = 10.0 ** (np.floor(np.log10(abs(value))) - digits + 1)
    return float(f"{(np.rint(value / unit) + step) * unit:.{digits}g}")


@dataclass(frozen=True)
class Slice:
    """Rows that share a condition and are worse than the rest.

    ``value`` is the error rate of its ``support`` rows, or their mean loss; ``rest`` is that of all other rows;
    ``effect`` is the difference with its interval ``low`` to ``high``. ``p`` is the p-value of a single test, ``q`` the
    false discovery rate over all tests.
    """

    conditions: tuple[Condition, ...]
    support: int
    value: float
    rest: float
    low: float
    high: float
    p: float
    q: float

    @property
    def effect(self) -> float:
        """Return by how much it is worse than the rest."""
        return self.value - self.rest

    @property
    def relative(self) -> float:
        """Return the ratio to the rest; infinite if the rest is 0."""
        return self.value / self.rest if self.rest else float("inf")

    @property
    def description(self) -> str:
        """Return text such as ``brightness ≤ 0.21 and sex = male``."""
        return " and ".join(condition.description for condition in self.conditions)

    @property
    def query(self) -> Query:
        """Return the query for its rows."""
        return build_query(self.conditions)


@dataclass(frozen=True)
class Slices(Result):
    """The weak slices of a table, strongest first; none is explained by those before it.

    ``tried`` is the number of slices tested, in ``searched`` of ``rows`` rows. ``measure`` is "wrong" for error rates,
    else the column that is averaged; ``overall`` is its mean over all rows. ``level`` is the level of the intervals,
    which are wider than usual because the slices are selected from many.
    """

    slices: tuple[Slice, ...]
    tried: int
    features: tuple[str, ...]
    rows: int
    searched: int
    measure: str
    overall: float
    level: float = 0.95
    notes: tuple[str, ...] = field(default=())

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per slice."""
        import pandas as pd

        names = ["support", "value", "rest", "effect", "relative", "low", "high", "p", "q"]
        rows = [[weak_slice.description, *(getattr(weak_slice, name) for name in names)] for weak_slice in self.slices]
        return pd.DataFrame(rows, columns=["slice", *names])

    def draw(self, ax: Axes) -> None:
        """Draw the difference of each slice from the rest with its interval."""
        positions = range(len(self.slices))
        for position, weak_slice in zip(positions, self.slices, strict=True):
            ax.plot([weak_slice.low, weak_slice.high], [position, position], color="C0")
            ax.plot(weak_slice.effect, position, "o", color="C0")
        ax.axvline(0, color="gray", lw=0.8)
        ax.set_yticks(list(positions), [weak_slice.description for weak_slice in self.slices])
        ax.invert_yaxis()
        ax.set(xlabel=f"{self.measure}, difference from the rest", title=self.headline)

    def view(self) -> PanelView:
        """The table of slices."""
        return _slices_page(self)

    @property
    def headline(self) -> str:
        """Return the result in one line."""
        if not self.slices:
            return f"None of {self.tried} slices tested is significantly worse than the rest."
        summary = f"{len(self.slices)} weak slice{'s' * (len(self.slices) > 1)} of {self.tried} tested"
        return f"{summary}; strongest: {self.slices[0].description}."

    def format_value(self, value: float) -> str:
        """Format a value: error rates in percent, losses with four digits."""
        return f"{value:.1%}" if self.measure == "wrong" else f"{value:.4g}"

    def format_slice(self, weak_slice: Slice) -> str:
        """Return one slice with its numbers."""
        show = self.format_value
        measure = "error rate" if self.measure == "wrong" else f"mean {self.measure}"
        comparison = f"{measure} {show(weak_slice.value)}, compared with {show(weak_slice.rest)} for the other rows"
        interval = f"difference {show(weak_slice.low)} to {show(weak_slice.high)}"
        return (
            f"{weak_slice.description} ({weak_slice.support} rows): {comparison} ({interval}, q = {weak_slice.q:.2g})"
        )

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [f"nbdebug slices: {self.headline}", *(f"  {self.format_slice(item)}" for item in self.slices)]
        return "\n".join([*lines, *(f"  note: {item}" for item in self.notes)])


SIGNIFICANT_DIGITS = 6  # more than the page shows, so that a share is rounded only once
MAX_VALUES_ON_PAGE = 50
_MAX_NAME_LENGTH = 200  # characters


def slices_state(slices: Slices) -> dict[str, Any]:
    """The page state of a search: its slices and how many were tried."""
    return {
        "late": False,
        "slices": [{**slice_state(one), "q": round_number(one.q, SIGNIFICANT_DIGITS)} for one in slices.slices],
        "tried": slices.tried,
        "features": list(slices.features[:MAX_VALUES_ON_PAGE]),
        "rows": slices.rows,
        "measure": slices.measure,
        "notes": list(slices.notes),
        "said": f"The intervals allow for the choice among {slices.tried} slices.",
    }


def slice_state(one: Slice) -> dict[str, Any]:
    """The page state of one slice; its numbers are rounded, its query is exact."""
    names = ("value", "rest", "effect", "relative", "low", "high", "p")
    numbers = {name: round_number(float(getattr(one, name)), SIGNIFICANT_DIGITS) for name in names}
    return {
        "words": one.description[:_MAX_NAME_LENGTH],
        "support": one.support,
        "query": query_request(one.conditions),
        **numbers,
    }


def slices_html(state: dict[str, Any]) -> str:
    """The page state of slices as an HTML table."""
    if state["late"]:
        return html_paragraph("Slices: errors.slices() searches for them.")
    names = ("value", "rest", "low", "high")
    rows = [[row["words"], str(row["support"]), *(f"{row[name]:.4g}" for name in names)] for row in state["slices"]]
    head = ("slice", "samples", state["measure"], "the rest", "worse by", "to")
    text = f"Slices: tried {state['tried']}, kept {len(rows)}."
    return html_paragraph(text) + html_table(rows, head if rows else ()) + html_list(state["notes"])


def _slices_page(slices: Slices) -> PanelView:
    """The slices on their own page."""
    from nbdebug.views.panel import PanelView

    state = {**slices_state(slices), "columns": [], "own": None}
    return PanelView("slices", f"Weak slices: {slices.headline}", state, slices_html(state))
