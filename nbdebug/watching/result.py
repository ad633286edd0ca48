"""What is left of a run that was watched."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from nbdebug.curves.shape import Shape, shape
from nbdebug.record import Record
from nbdebug.report import Report
from nbdebug.result import Result

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View


@dataclass(frozen=True)
class Watched(Result):
    """A run that was watched: its record, and what the rules say of it.

    ``overhead`` is the share of the time that watching cost, and ``left_out`` of how many steps only the loss was
    kept, for a budget that was given; ``trouble`` is what could not be watched, and why.
    """

    record: Record
    steps: int = 0
    interrupted: bool = False
    overhead: float = 0.0
    report: Report = field(default_factory=Report)
    trouble: str = ""
    left_out: int = 0

    @property
    def loss(self) -> list[tuple[int, float]]:
        """The loss by step."""
        return [(int(step), float(value)) for step, value in zip(*self.record.series("loss"), strict=True)]

    @property
    def shape(self) -> Shape:
        """The shape of the loss curve, by name, with a sentence."""
        return shape(self.record)

    def view(self) -> View:
        """Curves above, every layer below."""
        from nbdebug.watching.picture import picture

        return picture(self.record, self.report.findings, self.status)

    def to_frame(self) -> pandas.DataFrame:
        """One row a recorded step: step, loss, lr and what else was measured at each; ``record`` has every layer."""
        import pandas as pd

        run = self.record.run
        frame = pd.DataFrame(run.values, columns=list(run.columns))
        frame.insert(0, "step", run.steps)
        return frame.rename(columns={"lr": "learning_rate"})

    def draw(self, ax: Axes) -> None:
        """The loss by step."""
        ax.plot(*zip(*self.loss, strict=True) if self.loss else ([], []))
        ax.set(xlabel="step", ylabel="loss")

    def __str__(self) -> str:
        """Steps, the loss at both ends, and what was found."""
        ends = f", loss {self.loss[0][1]:.4g} → {self.loss[-1][1]:.4g}" if self.loss else ", no backward pass was seen"
        head = f"nbdebug watch: {self.steps} steps{ends}{' (interrupted)' if self.interrupted else ''}; {self.cost}"
        early = f"not watched: {self.trouble}" if self.trouble else ""
        samples = self.record.about.get("not measured")
        unseen = f"not measured: {samples}" if samples else ""
        form = f"{self.shape.name}: {self.shape.sentence}" if self.loss else ""
        return "\n\n".join(filter(None, [head, form, early, unseen, *map(str, self.report.loud)]))

    @property
    def status(self) -> str:
        """One line: steps and cost."""
        return f"{self.steps} steps{', interrupted' if self.interrupted else ''}; {self.cost}"

    @property
    def cost(self) -> str:
        """The overhead in words."""
        return cost(self.overhead, self.left_out)


def cost(overhead: float, left_out: int) -> str:
    """What watching took, in words, and what was left out for it."""
    took = f"watching took {overhead:.1%} of the time"
    return f"{took}; of {left_out:,} steps only the loss was kept, for the budget" if left_out else took
