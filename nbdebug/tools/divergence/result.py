"""Result of the comparison of two runs as plain data, and its view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbdebug.result import Result
from nbdebug.tools.divergence.strip import DivergenceStrip, StripRow

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View


@dataclass(frozen=True)
class SignalDifference:
    """A signal at the first step at which it differs: the tensor, both values, and their relative difference."""

    step: int
    signal: str
    tensor: str
    first: float
    second: float
    relative: float

    @property
    def values(self) -> str:
        """Both values and their difference."""
        return f"{self.first:.6g} and {self.second:.6g} (relative difference {self.relative:.1g})"

    def __str__(self) -> str:
        """The signal with both values."""
        tensor = f"module {self.tensor}" if self.tensor.isdigit() else self.tensor
        return f"{self.signal}{f' of {tensor}' if tensor else ''}: {self.values}"


@dataclass(frozen=True)
class SignalGroup:
    """Signals that belong together, in the order of a step.

    ``differences`` has the largest relative difference by step; a step that only one run has recorded is left out.
    """

    name: str
    differences: dict[int, float]
    first: SignalDifference | None = None
    last_equal: int | None = None
    signals: int = 0


@dataclass(frozen=True)
class RunDivergence(Result):
    """The first step and signal at which two watched runs part.

    ``groups`` are in the order of a step: settings, outputs of layers, loss, gradients, updates, weights, evaluations.
    ``changes`` are facts about the runs that differ, ``only_one`` the signals that only one of them has.
    """

    headline: str
    groups: tuple[SignalGroup, ...]
    steps: tuple[int, int] = (0, 0)
    names: tuple[str, str] = ("a", "b")
    changes: tuple[str, ...] = ()
    only_one: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def first(self) -> SignalDifference | None:
        """The first difference; None if all numbers that both runs have recorded are equal."""
        known = [group.first for group in self.groups if group.first is not None]
        return min(known, key=lambda difference: difference.step, default=None)

    @property
    def agrees(self) -> bool:
        """True if all numbers that both runs have recorded are equal in every bit."""
        return self.first is None

    def _compared_steps(self) -> list[int]:
        return sorted({step for group in self.groups for step in group.differences})

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per step and a column for each group of signals, with the largest relative difference."""
        import pandas as pd

        steps = self._compared_steps()
        columns = {group.name: [group.differences.get(step) for step in steps] for group in self.groups}
        return pd.DataFrame({"step": steps, **columns})

    def draw(self, ax: Axes) -> None:
        """Draw the largest relative difference of each group by step."""
        for group in self.groups:
            points = [(step, value) for step, value in group.differences.items() if value]
            if points:
                ax.plot(*zip(*points, strict=True), marker=".", label=group.name)
        if not self.agrees:
            ax.set_yscale("log")
            ax.legend()
        ax.set(xlabel="step", ylabel="relative difference", title="equal" if self.agrees else "the runs part")

    def view(self) -> View:
        """A strip for each group of signals below the verdict."""
        steps = self._compared_steps()
        rows = [
            StripRow(group.name, [group.differences.get(step) for step in steps], self._texts(group))
            for group in self.groups
        ]
        first = self.first
        return DivergenceStrip(
            status=f"{self.names[0]}: {self.steps[0]:,} steps · {self.names[1]}: {self.steps[1]:,} steps",
            headline=self.headline,
            tone="good" if first is None else "warning",
            steps=steps,
            rows=rows,
            first=None if first is None else steps.index(first.step),
            columns=("signals", "last equal", "first different", "values there"),
            details=[("changed", change) for change in self.changes],
            notes=self._all_notes(),
        )

    @staticmethod
    def _texts(group: SignalGroup) -> Sequence[str]:
        last = "–" if group.last_equal is None else f"step {group.last_equal:,}"
        return (last, "–", "–") if group.first is None else (last, f"step {group.first.step:,}", str(group.first))

    def _all_notes(self) -> tuple[str, ...]:
        names = ", ".join(self.only_one)
        return (*((f"Recorded in one run only: {names}.",) if names else ()), *self.notes)

    def to_text(self) -> str:
        """The verdict, what changed, and the first difference of each group of signals."""
        lines = [f"nbdebug compare: {self.headline}", *(f"  changed: {change}" for change in self.changes)]
        for group in self.groups:
            if group.first is None:
                lines.append(f"  {group.name}: equal at all {len(group.differences):,} steps that both runs recorded")
            else:
                last = f" (equal at step {group.last_equal:,})" if group.last_equal is not None else ""
                lines.append(f"  {group.name}: from step {group.first.step:,}{last}, {group.first}")
        return "\n".join([*lines, *(f"  {note}" for note in self._all_notes())])
