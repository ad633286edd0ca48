"""Result of retraining with the most suspect labels removed or replaced."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from nbdebug.result import Result
from nbdebug.statistics.intervals import Number, student_quantile
from nbdebug.views.table import Column, FoldableTable, TableRow, TextCell

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

LabelAction = Literal["relabel", "remove"]
ACTIONS = ("relabel", "remove")


@dataclass(frozen=True, eq=False)
class LabelEffect(Result):
    """The validation accuracy with the labels as they are and with the changed ones, for each seed.

    ``indices`` are the training samples that were relabeled or removed. ``before`` and ``after`` are the accuracies by
    seed, ``sample_changes`` are the mean changes of each validation sample over the seeds. ``initialized`` is False if
    the copies started from the present weights.
    """

    action: LabelAction
    indices: tuple[int, ...]
    before: tuple[float, ...]
    after: tuple[float, ...]
    sample_changes: NDArray[np.float64] = field(repr=False)
    steps: int
    samples: int
    initialized: bool
    seconds: float = 0.0
    stopped: bool = False

    @property
    def change(self) -> Number:
        """The mean change of the accuracy with its 95% interval, paired by seed and by sample; NaN for one seed.

        The variances of the seeds and of the validation samples are added, as for crossed factors, which is
        conservative; the quantile is Student's with one degree of freedom less than seeds.
        """
        differences = np.subtract(self.after, self.before)
        if len(differences) < 2:
            return Number(float(differences.mean()) if len(differences) else float("nan"), float("nan"), float("nan"))
        by_seed = float(differences.var(ddof=1)) / len(differences)
        by_sample = float(self.sample_changes.var(ddof=1)) / len(self.sample_changes)
        half = student_quantile(len(differences) - 1) * by_seed**0.5
        half = float(np.hypot(half, 1.96 * by_sample**0.5))
        mean = float(differences.mean())
        return Number(mean, mean - half, mean + half)

    @property
    def verdict(self) -> Literal["better", "worse", "undecided"]:
        """The direction of the change, if its interval excludes zero."""
        if self.change.low > 0:
            return "better"
        return "worse" if self.change.high < 0 else "undecided"

    @property
    def headline(self) -> str:
        """The change in one sentence."""
        verb = "Relabeling" if self.action == "relabel" else "Removing"
        if not self.before:
            return f"{verb} {len(self.indices):,} suspect labels: stopped before two copies were trained."
        change = self.change
        interval = f" ({100 * change.low:+.1f} to {100 * change.high:+.1f})" if change.low == change.low else ""
        return (
            f"{verb} the {len(self.indices):,} most suspect training labels changes validation accuracy by "
            f"{100 * change.value:+.1f} points{interval}, from {np.mean(self.before):.1%} to "
            f"{np.mean(self.after):.1%}: {self.verdict}."
        )

    @property
    def notes(self) -> list[str]:
        """The training of the copies, and the limits of the comparison."""
        start = "new weights" if self.initialized else "the present weights"
        notes = [
            f"{len(self.before)} seeds, {self.steps:,} steps each from {start}; {self.samples:,} validation samples, "
            "whose own labels are unchanged"
        ]
        return [*notes, *(["stopped: the result is partial"] if self.stopped else [])]

    def table(self, live: bool = False) -> FoldableTable:
        """Return a row for each seed; ``live`` while copies are trained."""
        columns = [
            Column("seed"),
            Column("as they are", "share"),
            Column(self._changed_name, "share"),
            Column("change"),
        ]
        rows = [
            TableRow(
                str(seed),
                [*map(_percent_cell, (before, after)), TextCell(f"{100 * (after - before):+.1f}", after - before)],
            )
            for seed, (before, after) in enumerate(zip(self.before, self.after, strict=True))
        ]
        tone: Literal["good", "warning", "note"] = {"better": "good", "worse": "warning"}.get(self.verdict, "note")  # type: ignore[assignment]
        notice = ("", tone) if live else (self.headline, tone)
        return FoldableTable(
            title="Effect of the labels on the validation accuracy",
            status=f"{len(rows)} seeds · {self.seconds:.0f} s",
            columns=columns,
            rows=rows,
            notice=notice,
            note="; ".join(self.notes),
            noun="seeds",
        )

    @property
    def _changed_name(self) -> str:
        return "relabeled" if self.action == "relabel" else "removed"

    def view(self) -> View:
        """Return the table of the seeds under the change."""
        return self.table()

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per seed: the accuracy before and after, and the change."""
        import pandas as pd

        frame = pd.DataFrame({"before": self.before, "after": self.after}).rename_axis("seed").reset_index()
        return frame.assign(change=frame.after - frame.before)

    def draw(self, ax: Axes) -> None:
        """Draw a line for each seed from the accuracy before to that after."""
        for before, after in zip(self.before, self.after, strict=True):
            ax.plot([0, 1], [before, after], marker="o", color="tab:blue", alpha=0.6)
        ax.set_xticks([0, 1], ["as they are", self._changed_name])
        ax.set(xlim=(-0.3, 1.3), ylabel="validation accuracy", title=f"label effect: {self.verdict}")

    def to_text(self) -> str:
        """Return the change and the accuracy of each seed."""
        lines = [f"nbdebug label_effect: {self.headline}"]
        lines += [
            f"  seed {seed}: {before:.1%} to {after:.1%}"
            for seed, (before, after) in enumerate(zip(self.before, self.after, strict=True))
        ]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def _percent_cell(share: float) -> TextCell:
    return TextCell(f"{share:.1%}", share)
