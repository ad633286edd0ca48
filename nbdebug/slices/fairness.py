"""Whether groups of people, or of anything, are treated alike by a classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbdebug.exceptions import SetupError
from nbdebug.predictions.classes import Predictions
from nbdebug.predictions.table import Table
from nbdebug.result import Result
from nbdebug.slices.gaps import Gap, largest
from nbdebug.slices.groups import Group, attribute, grouped

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.errors.panel_page import PanelView

FEWEST = 20
CRITERIA: Mapping[str, tuple[str, ...]] = {
    "demographic parity": ("selection rate",),
    "equal opportunity": ("true-positive rate",),
    "equalized odds": ("true-positive rate", "false-positive rate"),
    "equal accuracy": ("accuracy",),
}


@dataclass(frozen=True)
class Fairness(Result):
    """The rates of each group of a column, and how far they lie apart.

    ``positive`` is the class that is wanted, "" where none was named. ``gaps`` are by the name of the rate, and leave
    out groups with less than ``fewest`` rows that count in it.
    """

    by: str
    positive: str
    groups: tuple[Group, ...]
    gaps: dict[str, Gap]
    fewest: int = FEWEST

    @property
    def criteria(self) -> dict[str, float]:
        """The largest difference that each criterion speaks of; those for which groups are too small are left out.

        Demographic parity: Dwork et al. 2012, arXiv:1104.3913. Equal opportunity and equalized odds (the larger gap of
        both rates): Hardt, Price and Srebro 2016, arXiv:1610.02413.
        """
        known = {name: [self.gaps[one] for one in rates if one in self.gaps] for name, rates in CRITERIA.items()}
        return {
            name: max(one.difference for one in found)
            for name, found in known.items()
            if len(found) == len(CRITERIA[name])
        }

    @property
    def headline(self) -> str:
        """The result in a line."""
        real = [one for one in self.gaps.values() if one.is_real]
        if not self.gaps:
            return f"The groups of {self.by} are too few or too small to compare."
        if not real:
            return f"No rate differs between the groups of {self.by} by more than chance."
        worst = max(real, key=lambda one: one.difference)
        return (
            f"The {worst.rate} differs by {worst.difference:.1%} ({worst.low:.1%} to {worst.high:.1%}) between "
            f"{self.by} {worst.lowest} and {worst.highest}."
        )

    def to_frame(self) -> pandas.DataFrame:
        """One row a group: each rate with its interval, and its calibration."""
        import pandas as pd

        rows = []
        for one in self.groups:
            row = {self.by: one.name, "rows": one.rows, "small": one.is_small}
            for name, rate in one.rates.items():
                row |= {name: rate.value, f"{name} low": rate.low, f"{name} high": rate.high}
            row |= dict(
                zip(("overconfidence", "overconfidence low", "overconfidence high"), one.confidence, strict=True)
            )
            rows.append({**row, "calibration error": one.error, "calibration error by chance": one.chance})
        return pd.DataFrame(rows)

    def draw(self, ax: Axes) -> None:
        """The rates of the groups with their intervals."""
        for i, name in enumerate(self.groups[0].rates if self.groups else ()):
            rates = [one.rates[name] for one in self.groups]
            places = [place + 0.15 * i for place in range(len(rates))]
            ax.hlines(places, [one.low for one in rates], [one.high for one in rates], color=f"C{i}")
            ax.plot([one.value for one in rates], places, "o", color=f"C{i}", label=name)
        ax.set_yticks(range(len(self.groups)), [one.name for one in self.groups])
        ax.invert_yaxis()
        ax.legend()
        ax.set(xlim=(0, 1), ylabel=self.by, title=self.headline)

    def view(self) -> PanelView:
        """The rates as a dot plot, and the gaps."""
        from nbdebug.tools.errors.panel_fairness import page

        return page(self)

    def __str__(self) -> str:
        """The headline, a line for each group, and the gaps."""
        lines = [f"nbdebug fairness: {self.headline}"]
        for one in self.groups:
            rates = ", ".join(f"{name} {rate.value:.1%}" for name, rate in one.rates.items())
            lines.append(f"  {self.by} {one.name}: {rates}, in {one.rows} rows{', too few' * one.is_small}")
        for gap in self.gaps.values():
            lines.append(f"  {gap.rate}: {gap.difference:.1%} apart ({gap.low:.1%} to {gap.high:.1%})")
        return "\n".join(lines)


def fairness(table: Table, by: str, positive: str | int | None = None, *, fewest: int = FEWEST) -> Fairness:
    """The rates of each group of a column, and their gaps, with intervals.

    Numbers are cut into quarters. ``positive`` is the wanted class, by name or number; of two classes it is the
    second; of more, without it, only accuracy and calibration are compared. Raises SetupError for a table that is no
    classifier's, a column or a class that there is not.
    """
    if not isinstance(table, Predictions):
        raise SetupError(
            f"the table is one of {table.task or 'no task'}; expected a classifier's. Pass predicted labels."
        )
    wanted = positive_class(table.classes, positive)
    groups = grouped(table, attribute(table, by), wanted, fewest)
    names = groups[0].rates if groups else {}
    gaps = {name: found for name in names if (found := largest(name, groups, fewest)) is not None}
    return Fairness(by, "" if wanted is None else table.classes[wanted], groups, gaps, fewest)


def positive_class(classes: tuple[str, ...], positive: str | int | None) -> int | None:
    """The number of the wanted class."""
    if positive is None:
        return 1 if len(classes) == 2 else None
    if str(positive) in classes:
        return classes.index(str(positive))
    if isinstance(positive, int) and 0 <= positive < len(classes):
        return positive
    raise SetupError(f"positive is {positive!r}; expected one of {', '.join(classes[:20])}. Name the wanted class.")
