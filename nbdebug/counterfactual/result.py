"""The changes that were found, as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from nbdebug.counterfactual.columns import Floats
from nbdebug.result import Told
from nbdebug.views.plain import short

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class Change:
    """One column, or one group of which another is on now.

    ``before`` and ``after`` are values, of a group the names of what is on. ``distance`` is in median absolute
    deviations; ``percentile`` the share of training samples that are at or below the new value, ``seen`` their lowest
    and highest, both None for a choice.
    """

    feature: str
    before: float | str
    after: float | str
    distance: float
    percentile: float | None = None
    seen: tuple[float, float] | None = None

    def __str__(self) -> str:
        """The change in words."""
        return f"{self.feature} {short(self.before)} → {short(self.after)}"


@dataclass(frozen=True, eq=False)
class Counterfactual:
    """A changed sample at which the model decides otherwise.

    ``inputs`` are as the model takes them; ``outputs`` what it said of them when asked again, of them alone.
    ``decision`` is the class, or the number. ``nearest`` is a row of the training samples, ``nearest_distance`` how
    far that is, and ``farther`` the share of training samples that lie nearer to their own nearest one than this.
    """

    changes: tuple[Change, ...]
    distance: float
    decision: str
    inputs: Any = field(repr=False)
    outputs: Floats = field(repr=False)
    nearest: int = -1
    nearest_distance: float = 0.0
    farther: float = 0.0

    def __str__(self) -> str:
        """The changes in words."""
        return ", ".join(map(str, self.changes))


@dataclass(frozen=True, eq=False)
class Counterfactuals(Told):
    """The smallest changes of a sample that were found; none in ``answers`` where there were none within the budget.

    Each answer but the first leaves alone what changed the most in those before it. ``by`` is how far a number was to
    move, ``evaluations`` are the rows that the model was asked, ``samples`` those that told what values there are.
    """

    answers: tuple[Counterfactual, ...]
    decision: str
    goal: str
    outputs: Floats = field(repr=False)
    by: float | None = None
    fixed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    evaluations: int = 0
    samples: int = 0
    seconds: float = 0.0

    def __len__(self) -> int:
        return len(self.answers)

    def __getitem__(self, at: int) -> Counterfactual:
        return self.answers[at]

    def to_frame(self) -> pandas.DataFrame:
        """One row a change: answer, feature, before, after, distance, percentile, decision."""
        import pandas as pd

        rows = [
            (at, one.feature, one.before, one.after, one.distance, one.percentile, answer.decision)
            for at, answer in enumerate(self.answers)
            for one in answer.changes
        ]
        names = ["answer", "feature", "before", "after", "distance", "percentile", "decision"]
        return pd.DataFrame(rows, columns=names)

    def __str__(self) -> str:
        """What would have to be otherwise."""
        lines = [f"nbdebug counterfactual: {self.decision}; wanted: {self.goal}"]
        for one in self.answers:
            how = f"{one.distance:.2f} median deviations away"
            odd = f", farther from training samples than {one.farther:.0%} of them are from each other"
            lines.append(f"  {one.decision} with {one} ({how}{odd})")
        lines += [f"  note: {one}" for one in self.notes]
        return "\n".join([*lines, f"  {self.evaluations} rows asked, {self.seconds:.2f} s; nothing was changed"])
