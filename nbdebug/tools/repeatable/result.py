"""Result of the repeated runs as plain data, and its view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from nbdebug.finding import Location, format_module
from nbdebug.result import Result
from nbdebug.source.location import SourceLine
from nbdebug.tools.divergence.strip import DivergenceStrip, StripRow
from nbdebug.tools.repeatable.diagnosis import DifferenceCause
from nbdebug.tools.repeatable.records import PHASES, Phase

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

Verdict = Literal["repeatable", "not repeatable", "unseeded", "stopped"]
_COLORS = {"equal": "#4c9f70", "differs": "#c8553d", "not compared": "#d8d8d8"}
_DIFFERENCES = {"equal": 0.0, "differs": 1.0, "not compared": None}


@dataclass(frozen=True)
class Repeatable(Result):
    """Whether two runs from the same state are equal in every bit, and if not, where and why they part.

    ``verdict`` is "unseeded" if runs are equal from the same state, but a generator that they draw from was never
    seeded, so that a new process starts from another state. ``step``, ``phase``, ``tensor``, ``operation`` and
    ``module`` are those of the first difference, ``line`` the user's line of that operation. ``causes`` have been
    confirmed by an intervention each. ``unchecked`` says what could not be tried.
    """

    verdict: Verdict
    headline: str
    steps: int
    step: int | None = None
    phase: Phase | None = None
    tensor: str = ""
    operation: str = ""
    module: str = ""
    line: SourceLine | None = None
    causes: tuple[DifferenceCause, ...] = ()
    unchecked: tuple[str, ...] = ()
    total_steps: int = 0
    seconds: float = 0.0

    @property
    def source(self) -> str:
        """The name of the first source; empty if there is none."""
        return self.causes[0].name if self.causes else ""

    @property
    def where(self) -> Location:
        """The user's line that reads the source, else that of the operation."""
        line = next((cause.line for cause in self.causes if cause.line is not None), self.line)
        return line.where(self.module or None) if line else Location(module=self.module or None)

    @property
    def place(self) -> str:
        """The step, phase and tensor of the first difference in words; empty if there is none."""
        if self.step is None:
            return ""
        module = f" in {format_module(self.module)}" if self.module else ""
        return f"step {self.step}, {self.phase}: {self.tensor}{module}"

    def status(self, step: int, phase: Phase) -> str:
        """Return "equal", "differs" or "not compared" for one phase of one step."""
        if self.step is None or self.phase is None:
            return "equal" if self.verdict != "stopped" else "not compared"
        position, first = (step, PHASES.index(phase)), (self.step, PHASES.index(self.phase))
        return "equal" if position < first else "differs" if position == first else "not compared"

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per step, with the status of each phase."""
        import pandas as pd

        rows = [{"step": step, **{phase: self.status(step, phase) for phase in PHASES}} for step in range(self.steps)]
        return pd.DataFrame(rows, columns=["step", *PHASES])

    def draw(self, ax: Axes) -> None:
        """Draw a strip of steps and phases up to the first difference."""
        for row, phase in enumerate(reversed(PHASES)):
            colors = [_COLORS[self.status(step, phase)] for step in range(self.steps)]
            ax.barh([row] * self.steps, [0.9] * self.steps, left=range(self.steps), color=colors, height=0.8)
        ax.set(yticks=range(len(PHASES)), yticklabels=PHASES[::-1], xlabel="step", title=self.verdict)

    def view(self) -> View:
        """A strip of steps for each phase up to the first difference, below the verdict."""
        rows = [
            StripRow(phase, [_DIFFERENCES[self.status(step, phase)] for step in range(self.steps)]) for phase in PHASES
        ]
        return DivergenceStrip(
            title="Repeatability",
            status=f"{self.total_steps:,} steps, {self.seconds:.1f} s",
            headline=self.headline,
            tone="good" if self.verdict == "repeatable" else "warning",
            steps=range(self.steps),
            rows=rows,
            first=self.step,
            details=self._details(),
            notes=[f"Not checked: {reason}" for reason in self.unchecked],
        )

    def _details(self) -> list[tuple[str, str]]:
        """Return the first difference and the causes as labelled texts; nothing for equal runs."""
        if self.step is None:
            return []
        details = [("first difference", self.place)]
        details += [("line", f"{self.line.where()}: {self.line.text.strip()}")] if self.line is not None else []
        for cause in self.causes:
            line = f", {cause.line.where()}: {cause.line.text.strip()}" if cause.line is not None else ""
            details += [("source", cause.description + line), ("confirmed", cause.intervention), ("cure", cause.cure)]
        return details

    def to_text(self) -> str:
        """The verdict, the first difference, and each cause with its line and its cure."""
        lines = [f"nbdebug repeatable: {self.headline}"]
        if self.place:
            lines.append(f"  first difference: {self.place}")
        if self.line is not None:
            lines.append(f"  at {self.line.where()}: {self.line.text.strip()}")
        for cause in self.causes:
            lines.append(f"  source: {cause.description}")
            if cause.line is not None and cause.line != self.line:
                lines.append(f"    at {cause.line.where()}: {cause.line.text.strip()}")
            lines += [f"    confirmed: {cause.intervention}", f"    cure: {cause.cure}"]
        if self.step is not None and not self.causes:
            lines.append("  source: unknown; no source that was held constant makes the runs equal")
        lines += [f"  not checked: {reason}" for reason in self.unchecked]
        return "\n".join([*lines, f"  {self.total_steps:,} steps, {self.seconds:.1f} s; everything is restored"])
