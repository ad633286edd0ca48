"""Result of a search of settings as plain data, with its table, its chart and its text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nbdebug.formatting import format_value
from nbdebug.result import Result
from nbdebug.statistics.paired_differences import PairedDifference
from nbdebug.tools.try_fix.matched_run import MatchedRun
from nbdebug.views.table import Column, FoldableTable, TableRow

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

TuningVerdict = Literal["better", "no better", "worse", "stopped"]
_TONES = {"better": "good", "no better": "note", "worse": "warning", "stopped": "warning"}
_MAX_LINES = 5


@dataclass(frozen=True)
class TunedTrial:
    """One trial: its values by setting, its score, and the step at which it ended.

    ``pruned`` is why it ended early: the code of a rule, or "below the median"; "" for a trial that was completed. The
    score of a pruned trial is the last one before its end.
    """

    number: int
    values: Mapping[str, Any]
    score: float
    steps: int
    pruned: str = ""

    @property
    def text(self) -> str:
        """The values in one line."""
        return ", ".join(f"{name} {format_value(value)}" for name, value in self.values.items())


@dataclass(frozen=True)
class Tuning(Result):
    """The best settings of a search, and what they gain against the present ones.

    ``trials`` are in their order; ``best`` is the completed one with the highest score. ``before`` and ``after`` are
    longer runs with the present and with the best settings, with other seeds than the trials; ``difference`` is that of
    their scores, paired by seed. ``verdict`` is "better" or "worse" if its interval excludes zero. ``code`` is what to
    write.
    """

    verdict: TuningVerdict
    headline: str
    trials: tuple[TunedTrial, ...]
    difference: PairedDifference
    before: tuple[MatchedRun, ...] = field(default=(), repr=False)
    after: tuple[MatchedRun, ...] = field(default=(), repr=False)
    code: str = ""
    metric: str = "validation accuracy"
    steps: int = 0
    path: str = ""
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def best(self) -> TunedTrial | None:
        """The completed trial with the highest score; None without one."""
        completed = [trial for trial in self.trials if not trial.pruned]
        return max(completed, key=lambda trial: trial.score, default=None)

    @property
    def helps(self) -> bool:
        """True if the best settings are a gain whose interval excludes zero."""
        return self.verdict == "better"

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per trial: number, a column for each setting, score, steps, pruned."""
        import pandas as pd

        rows = [
            {"number": item.number, **item.values, "score": item.score, "steps": item.steps, "pruned": item.pruned}
            for item in self.trials
        ]
        return pd.DataFrame(rows)

    def draw(self, ax: Axes) -> None:
        """Plot the score of each trial, and the best one so far."""
        completed = [trial for trial in self.trials if not trial.pruned]
        pruned = [trial for trial in self.trials if trial.pruned]
        ax.scatter([trial.number for trial in pruned], [trial.score for trial in pruned], marker="x", label="pruned")
        numbers, scores = [trial.number for trial in completed], [trial.score for trial in completed]
        ax.scatter(numbers, scores, label="completed")
        if scores:
            ax.step(numbers, np.maximum.accumulate(scores), where="post", label="best so far")
        ax.set(xlabel="trial", ylabel=self.metric, title=f"tune: {self.verdict}")
        ax.legend()

    def view(self) -> View:
        """Return a table of the trials, best first."""
        return build_view(self)

    def to_text(self) -> str:
        """Return the headline, the best trials, the code and the notes."""
        lines = [f"nbdebug tune: {self.verdict}. {self.headline}"]
        lines += [f"  {format_value(trial.score):>8}  {trial.text}" for trial in _ranked(self)[:_MAX_LINES]]
        count = sum(bool(trial.pruned) for trial in self.trials)
        lines += [f"  {len(self.trials)} trials, {count} of them pruned; {self.seconds:.1f} s"]
        lines += [f"  {line}" for line in self.code.splitlines()]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])


def _ranked(result: Tuning) -> list[TunedTrial]:
    """Return completed trials before pruned ones, each by score."""
    return sorted(result.trials, key=lambda trial: (bool(trial.pruned), -trial.score))


def build_view(result: Tuning, status: str = "") -> FoldableTable:
    """Build the table of a result; with a ``status``, that of a search that goes on."""
    names = list(result.trials[0].values) if result.trials else []
    columns = [Column("trial"), *map(Column, names), Column("score", "number"), Column("steps", "number"), Column("")]
    rows = [
        TableRow(
            str(trial.number),
            (
                *(format_value(trial.values[name]) for name in names),
                float(f"{trial.score:.4g}") if np.isfinite(trial.score) else None,
                trial.steps,
                f"pruned: {trial.pruned}" if trial.pruned else "",
            ),
            details=(("write", result.code),) if trial == result.best and result.code else (),
        )
        for trial in _ranked(result)
    ]
    return FoldableTable(
        title="Search of settings",
        status=status or f"{result.metric}; {len(rows)} trials in {result.seconds:.1f} s",
        columns=columns,
        rows=rows,
        notice=("", "") if status else (f"{result.verdict}: {result.headline}", _TONES[result.verdict]),  # type: ignore[arg-type]
        note="; ".join(result.notes),
        noun="trials",
    )
