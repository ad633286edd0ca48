"""What a search for weak slices came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbdebug.predictions.query import Query
from nbdebug.result import Result
from nbdebug.slices.condition import Condition, query_of

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.errors.panel_page import PanelView


@dataclass(frozen=True)
class Slice:
    """Rows that have something in common and are worse than the rest.

    ``value`` is the share of its ``support`` rows that is wrong, or their mean loss; ``rest`` that of all others;
    ``effect`` their difference with its interval ``low`` to ``high``. ``p`` is the chance of it in one test, ``q`` the
    rate of false discoveries among all that were tried.
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
        """By how much it is worse than the rest."""
        return self.value - self.rest

    @property
    def relative(self) -> float:
        """How many times as bad as the rest it is; infinite where nothing else is wrong."""
        return self.value / self.rest if self.rest else float("inf")

    @property
    def words(self) -> str:
        """Such as ``brightness ≤ 0.21 and sex = male``."""
        return " and ".join(one.words for one in self.conditions)

    @property
    def query(self) -> Query:
        """Its rows."""
        return query_of(self.conditions)


@dataclass(frozen=True)
class Slices(Result):
    """The weak slices of a table, the strongest first, none of which is explained by those before it.

    ``tried`` is how many were looked at, in ``searched`` of ``rows`` rows; ``measure`` is "wrong" for shares of wrong
    rows, else the column that is averaged; ``overall`` is that of all rows. ``level`` is that of the intervals, which
    are wider than usual since the slices were picked out of many.
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
        """One row a slice."""
        import pandas as pd

        names = ["support", "value", "rest", "effect", "relative", "low", "high", "p", "q"]
        rows = [[one.words, *(getattr(one, name) for name in names)] for one in self.slices]
        return pd.DataFrame(rows, columns=["slice", *names])

    def draw(self, ax: Axes) -> None:
        """The difference of each slice from the rest with its interval."""
        places = range(len(self.slices))
        for place, one in zip(places, self.slices, strict=True):
            ax.plot([one.low, one.high], [place, place], color="C0")
            ax.plot(one.effect, place, "o", color="C0")
        ax.axvline(0, color="gray", lw=0.8)
        ax.set_yticks(list(places), [one.words for one in self.slices])
        ax.invert_yaxis()
        ax.set(xlabel=f"{self.measure}, more than the rest", title=self.headline)

    def view(self) -> PanelView:
        """The table of slices."""
        from nbdebug.tools.errors.panel_slices import page

        return page(self)

    @property
    def headline(self) -> str:
        """The result in a line."""
        if not self.slices:
            return f"No slice is worse than the rest beyond chance, of {self.tried} tried."
        found = f"{len(self.slices)} weak slice{'s' * (len(self.slices) > 1)} of {self.tried} tried"
        return f"{found}; the strongest: {self.slices[0].words}."

    def shown(self, value: float) -> str:
        """A share of wrong rows in percent, a mean loss in digits."""
        return f"{value:.1%}" if self.measure == "wrong" else f"{value:.4g}"

    def line(self, one: Slice) -> str:
        """One slice with its numbers."""
        show = self.shown
        both = f"{self.measure} {show(one.value)} against {show(one.rest)} of the rest"
        return f"{one.words}: {both}, in {one.support} rows (by {show(one.low)} to {show(one.high)}, q = {one.q:.2g})"

    def __str__(self) -> str:
        """The headline, a line for each slice, and the notes."""
        lines = [f"nbdebug slices: {self.headline}", *(f"  {self.line(one)}" for one in self.slices)]
        return "\n".join([*lines, *(f"  note: {one}" for one in self.notes)])
