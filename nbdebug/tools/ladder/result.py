"""Result of a complexity ladder as plain data, with its table, its chart and its text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nbdebug.result import Result
from nbdebug.statistics.paired_differences import PairedDifference
from nbdebug.views.table import Cell, Column, FoldableTable, TableRow, TextCell

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

LadderVerdict = Literal["best", "smaller suffices", "worse", "stopped"]
YOURS = "yours"
_TITLE = "Complexity ladder"
_TONES = {"best": "good", "smaller suffices": "note", "worse": "warning", "stopped": "warning"}


@dataclass(frozen=True)
class DataPoint:
    """The scores of a learner that was fitted on a share of the training samples, one for each seed."""

    learner: str
    share: float
    samples: int
    scores: tuple[float, ...]

    @property
    def score(self) -> float:
        """The mean score; NaN without a run."""
        return float(np.mean(self.scores)) if self.scores else float("nan")


@dataclass(frozen=True)
class Rung:
    """One learner: its number of parameters, if it has a fixed one, and its scores on shares of the data.

    ``difference`` is the score of the user's model minus that of this one, paired by seed; None for the user's model.
    """

    name: str
    points: tuple[DataPoint, ...]
    parameters: int | None = None
    difference: PairedDifference | None = None

    @property
    def score(self) -> float:
        """The score with all data."""
        return self.points[-1].score

    def score_at(self, share: float) -> float | None:
        """The score on a share of the data; None if it was not measured."""
        return next((point.score for point in self.points if point.share == share), None)


@dataclass(frozen=True)
class Ladder(Result):
    """Learners of growing capacity on the same data and samples, and the user's model last.

    ``verdict`` is "worse" if a learner below is better than the user's model, "smaller suffices" if one is as good, and
    "best" if the user's model is better than all. ``suffices`` is the first rung that no later one improves on.
    ``data_gain`` is the score of the user's model on all samples minus that on half of them; None without shares.
    ``student`` has the scores of the user's model on the labels of a randomly initialized copy, one for each seed.
    """

    verdict: LadderVerdict
    headline: str
    rungs: tuple[Rung, ...]
    suffices: str = ""
    data_gain: PairedDifference | None = None
    student: tuple[float, ...] = ()
    metric: str = "validation accuracy"
    steps: int = 0
    seeds: int = 0
    total_steps: int = 0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    shares: tuple[float, ...] = field(default=(1.0,), repr=False)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per learner, share and seed: learner, parameters, share, samples, seed, score."""
        import pandas as pd

        rows = [
            (rung.name, rung.parameters, point.share, point.samples, seed, score)
            for rung in self.rungs
            for point in rung.points
            for seed, score in enumerate(point.scores)
        ]
        return pd.DataFrame(rows, columns=["learner", "parameters", "share", "samples", "seed", "score"])

    def draw(self, ax: Axes) -> None:
        """Plot the score over the number of training samples: a line for each learner, a mark for one with all data."""
        for rung in self.rungs:
            style: dict[str, Any] = {"linewidth": 2.5, "color": "black"} if rung.name == YOURS else {}
            ax.plot(
                [point.samples for point in rung.points],
                [point.score for point in rung.points],
                marker="o",
                label=rung.name,
                **style,
            )
        ax.set(xlabel="training samples", ylabel=self.metric, title=f"ladder: {self.verdict}")
        ax.legend(fontsize="small")

    def view(self) -> View:
        """Return a table: a row for each learner, a column for each share of the data."""
        return build_view(self)

    def to_text(self) -> str:
        """Return the headline, a line for each learner, and the notes."""
        width = max((len(rung.name) for rung in self.rungs), default=0)
        lines = [f"nbdebug ladder: {self.verdict}. {self.headline}"]
        for rung in self.rungs:
            scores = ", ".join(f"{point.score:.3g} with {point.samples:,} samples" for point in rung.points)
            size = f" ({rung.parameters:,} parameters)" if rung.parameters is not None else ""
            lines.append(f"  {rung.name:{width}}  {scores}{size}")
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join([*lines, f"  {self.total_steps:,} steps on copies, {self.seconds:.1f} s; nothing is changed"])


def starting_view(status: str) -> FoldableTable:
    """Build the table of a ladder before its first score."""
    return FoldableTable(title=_TITLE, status=status, columns=[Column("learner")], noun="learners")


def build_view(result: Ladder, status: str = "") -> FoldableTable:
    """Build the table of a result; with a ``status``, that of a ladder that goes on."""
    columns = [
        Column("learner"),
        Column("parameters", "number"),
        *(Column(f"{share:.0%} of data", "number") for share in result.shares),
        Column("yours minus this", hint="paired by seed, with its 95% interval"),
    ]
    return FoldableTable(
        title=_TITLE,
        status=status or f"{result.metric}; {result.total_steps:,} steps on copies in {result.seconds:.1f} s",
        columns=columns,
        rows=[TableRow(rung.name, tuple(_cells(result, rung))) for rung in result.rungs],
        notice=("", "") if status else (f"{result.verdict}: {result.headline}", _TONES[result.verdict]),  # type: ignore[arg-type]
        note="; ".join(result.notes),
        noun="learners",
    )


def _cells(result: Ladder, rung: Rung) -> Iterator[Cell]:
    yield rung.parameters
    for share in result.shares:
        score = rung.score_at(share)
        yield float(f"{score:.3g}") if score is not None and np.isfinite(score) else None
    if rung.difference is None or not rung.difference.pairs:
        yield ""
    else:
        tone: Literal["good", "error", "soft"] = ("error", "soft", "good")[rung.difference.sign + 1]
        yield TextCell(str(rung.difference).partition(", sign")[0], rung.difference.value, tone)
