"""What a replay tells, as plain data."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from nbdebug.finding import Finding, Where
from nbdebug.report import Report
from nbdebug.result import Result
from nbdebug.views.bars import bars

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View

GROWN = 1e3  # the largest weight, in units of the largest before training


@dataclass(frozen=True)
class Replay(Result):
    """A step whose loss or gradient (``phase``) was not finite, run again from where it began.

    ``loss`` was seen then, ``again`` now; ``exact`` says whether they are the same, None where the loss of the loop
    could not be run. ``samples`` are those that are at fault, ``ruined`` the weights that were not finite before the
    step, ``largest`` the largest weight before training and before the step. ``notes`` are what limits all this,
    ``place`` is the line of the loop that met it; of the last ``unheard`` steps only the loss was kept.
    """

    step: int
    phase: str
    loss: float | None = None
    again: float | None = None
    exact: bool | None = None
    report: Report = field(default_factory=Report)
    samples: tuple[int, ...] = ()
    ruined: tuple[str, ...] = ()
    largest: tuple[float, float] = (math.nan, math.nan)
    notes: tuple[str, ...] = ()
    place: Where = field(default_factory=Where)
    unheard: int = 0

    @property
    def finding(self) -> Finding | None:
        """The cause, where one was found."""
        return next(iter(self.report.loud), None)

    @property
    def operation(self) -> str | None:
        """The first operation, forward or backward, that gave NaN or Inf of finite numbers."""
        found = (one.evidence.get("operation") for one in self.report.findings)
        return next((one for one in found if one), None)

    @property
    def where(self) -> Where:
        """The place of the cause; where none was found, that of the backward pass or the step of the loop."""
        return self.finding.where if self.finding else replace(self.place, step=self.step)

    @property
    def diverged(self) -> bool:
        """Whether the weights had run away before this step."""
        before, now = self.largest
        return now > GROWN * max(before, 1e-3)

    @property
    def verdict(self) -> str:
        """What is to blame, in a sentence or two."""
        if self.ruined:
            early = f" Of the last {self.unheard} steps only the loss was kept, for the budget." if self.unheard else ""
            more = ", …" if len(self.ruined) > 4 else ""
            return f"The weights were not finite before the step began: {', '.join(self.ruined[:4])}{more}.{early}"
        if self.diverged:
            before, now = self.largest
            return (
                f"The largest weight had grown from {before:.3g} to {now:.3g} before the step began: the run diverged, "
                "and no single operation is to blame."
            )
        if self.finding:
            return self.finding.message
        if self.unheard and self.again is None:
            return "The weights were finite before the step began; what went into it was not kept, for the budget."
        return "No operation was found that makes NaN or Inf of finite numbers."

    @property
    def course(self) -> str:
        """What was seen, and what the second run gave."""
        value = f" ({self.loss:.6g})" if self.loss is not None else ""
        seen = f"The {self.phase} of step {self.step} was not finite{value if self.phase == 'loss' else ''}."
        if self.again is None:
            return f"{seen} It could not be run again."
        if self.exact:
            return f"{seen} Run again from where it began, it gives the same loss, {self.again:.6g}."
        if self.exact is None:
            return f"{seen} The model was run again, without the loss of the loop."
        then = "one that was not seen" if self.loss is None else f"{self.loss:.6g}"
        return f"{seen} Run again, it gives the loss {self.again:.6g} instead of {then}: something else was different."

    def view(self) -> View:
        """A card for each cause."""
        from nbdebug.views.findings import Findings

        words = [self.course, *([] if self.finding else [self.verdict]), *self.notes]
        return Findings(
            title=f"Replay of step {self.step}",
            subtitle=" ".join(words),
            findings=[one.to_dict() for one in self.report],
            checked=len(self.report.asked),
        )

    def to_frame(self) -> pandas.DataFrame:
        """One row a finding, by rank."""
        return self.report.to_frame()

    def draw(self, ax: Axes) -> None:
        """The largest weight before training and before the step."""
        names, values = ("before training", f"before step {self.step}"), self.largest
        bars(ax, names, [one if math.isfinite(one) else 0.0 for one in values])
        ax.set_xlabel("largest weight")

    def __str__(self) -> str:
        """What was seen, what is to blame, and what limits that."""
        told = any(one.evidence.get("samples") for one in self.report)
        of = f"In sample {', '.join(map(str, self.samples[:10]))}{', …' if len(self.samples) > 10 else ''}."
        head = f"nbdebug replay: {self.course}"
        verdict = "" if self.finding and not (self.ruined or self.diverged) else self.verdict
        parts = [head, verdict, *map(str, self.report), of if self.samples and not told else "", *self.notes]
        return "\n\n".join(filter(None, parts))
