"""What a model has to beat, and by how much it does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.baselines.compare import Versus
from nbdebug.baselines.scored import HIGHER, MODEL, Rows
from nbdebug.result import Result
from nbdebug.views.bars import bars
from nbdebug.views.plain import short
from nbdebug.views.table import Column, Row, Table

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

INTERVALS = ("value", "low", "high", "gain", "gain_low", "gain_high")


@dataclass(frozen=True, eq=False)
class Baselines(Result):
    """A model beside each baseline on the same rows.

    ``versus`` has an entry for each answerer and metric, those of the model first; ``said`` is each answerer in words.
    ``only`` maps a baseline to the rows of the table that it alone gets right, in their order. ``notes`` say what was
    left out, and why.
    """

    task: str
    versus: tuple[Versus, ...]
    said: Mapping[str, str]
    only: Mapping[str, Rows] = field(default_factory=dict, repr=False)
    rows: int = 0
    trained_on: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics, the usual one of the task first."""
        return tuple(dict.fromkeys(one.metric for one in self.versus))

    @property
    def names(self) -> tuple[str, ...]:
        """The baselines that there are."""
        return tuple(dict.fromkeys(one.name for one in self.versus if one.name != MODEL))

    def of(self, name: str, metric: str) -> Versus | None:
        """One metric of one answerer, None where it has none."""
        return next((one for one in self.versus if one.name == name and one.metric == metric), None)

    def best(self, metric: str) -> Versus | None:
        """The baseline that is best by a metric."""
        found = [one for one in self.versus if one.metric == metric and one.name != MODEL]
        return max(found, key=lambda one: one.value if metric in HIGHER else -one.value, default=None)

    @property
    def headline(self) -> str:
        """The model and the best baseline in a line."""
        metric = self.metrics[0]
        model, best = self.of(MODEL, metric), self.best(metric)
        assert model is not None
        if best is None:
            return f"{metric} {number(metric, model.value)}; no baseline could be measured"
        against = f"{best.name} ({self.said[best.name]}): {number(metric, best.value)}"
        return f"{metric} {number(metric, model.value)}, {compared_to(best)} the best baseline, {against}"

    def to_frame(self) -> pandas.DataFrame:
        """One row an answerer and metric: the value and the gain of the model over it, both with their intervals."""
        import pandas as pd

        return pd.DataFrame([vars(one) for one in self.versus])

    def view(self) -> Table:
        """A table of all of it."""
        names = ("metric", "value", "from", "to", "better by", "from", "to")
        columns = [Column("answer"), Column(names[0]), *(Column(name, "number") for name in names[1:])]
        found = [self.row(one) for one in self.versus]
        return Table(
            title="What it has to beat", status=self.headline, columns=columns, rows=found, note=" ".join(self.notes)
        )

    def row(self, one: Versus) -> Row:
        """One row of the table."""
        values = [getattr(one, name) for name in INTERVALS]
        shown = [float(short(value)) for value in (values if one.name != MODEL else values[:3])]
        return Row(one.name, (one.metric, *shown), details=(("", self.said[one.name]),))

    def draw(self, ax: Axes) -> None:
        """The usual metric of the task as bars with intervals."""
        metric = self.metrics[0]
        found = [one for one in self.versus if one.metric == metric]
        middle = np.array([one.value for one in found])
        ends = np.array([[max(one.value - one.low, 0), max(one.high - one.value, 0)] for one in found]).T
        colors = ["tab:blue" if one.name == MODEL else "tab:gray" for one in found]
        bars(ax, [one.name for one in found], middle, xerr=ends, color=colors, capsize=3)
        ax.set(xlabel=metric, title=self.headline)

    def __str__(self) -> str:
        """The headline, a line for each answerer by the usual metric, and what was left out."""
        metric = self.metrics[0]
        lines = [f"nbdebug baselines: {self.headline}"]
        for one in self.versus:
            if one.metric == metric:
                interval = f"({number(metric, one.low)} to {number(metric, one.high)})"
                lines.append(f"  {one.name:9} {number(metric, one.value):>8} {interval:20} {self.said[one.name]}")
        return "\n".join([*lines, *(f"  note: {one}" for one in self.notes)])


def compared_to(best: Versus) -> str:
    """Whether a model is better than a baseline, and by how much."""
    low, high = sorted((best.gain_low, best.gain_high), key=abs)
    if best.gain_low <= 0 <= best.gain_high:
        ends = f"{number(best.metric, best.gain_low, True)} to {number(best.metric, best.gain_high, True)}"
        return f"no better beyond chance ({ends}) than"
    unit = " points" if best.metric in HIGHER else ""
    ends = " to ".join(number(best.metric, abs(one), True).lstrip("+") for one in (low, high))
    return f"{'better' if best.gain_low > 0 else 'worse'} by {ends}{unit} than"


def number(metric: str, value: float, signed: bool = False) -> str:
    """A value of a metric: a share in percent, or points of it where it is a difference."""
    if metric in HIGHER:
        return f"{100 * value:+.1f}" if signed else f"{value:.1%}"
    return f"{value:+.4g}" if signed else f"{value:.4g}"
