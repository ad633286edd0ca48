"""Result of the treatments as plain data, with its score curves and its view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from nbdebug.result import Result
from nbdebug.statistics.time_series import CurveBand
from nbdebug.tools.compare_optimizers.view import CandidatePanel, OptimizerComparisonView
from nbdebug.tools.treatments.catalog import Treatment
from nbdebug.tools.treatments.trial import LONGER, TrialRun

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

_OUTCOMES = {"cure": "clear", "learns": "clear", "loop": "none", "faster": "tie", "none": "tie", "stopped": "stopped"}
TreatmentVerdict = Literal["learns", "loop", "cure", "faster", "none", "stopped"]


@dataclass(frozen=True)
class TreatmentResult:
    """The runs of one treatment, one for each seed that it was tried with.

    ``outcome`` is "cures", "is faster", or "" for a treatment that does not help.
    """

    treatment: Treatment
    runs: tuple[TrialRun, ...] = field(repr=False)
    outcome: Literal["cures", "is faster", ""] = ""

    @property
    def name(self) -> str:
        """The name of the treatment."""
        return self.treatment.name

    @property
    def score(self) -> float:
        """The mean score over the seeds; -inf if a run diverged."""
        return float(np.mean([run.score for run in self.runs]))


@dataclass(frozen=True)
class Treatments(Result):
    """What repairs a setup that learns poorly, tried on copies.

    ``verdict`` is "cure" if a treatment reaches what the setup does not reach in four times the steps, with each seed;
    "loop" if a plain loop reaches it although the user's own loop has not; "faster" if treatments only reach it sooner;
    "learns" if the setup needs no treatment; "none" or "stopped" otherwise. ``untreated`` are the runs without
    treatment, ``entries`` the treatments, best first. ``metric`` names the score. ``trained_steps`` are the steps of
    the user's own run, and ``trained_score`` is the score of the model as it is now; None without a run.
    """

    verdict: TreatmentVerdict
    headline: str
    entries: tuple[TreatmentResult, ...]
    untreated: tuple[TrialRun, ...] = field(repr=False)
    metric: str = "accuracy"
    split: str = "val"
    steps: int = 0
    seeds: int = 0
    total_steps: int = 0
    reference_score: float | None = None
    trained_steps: int = 0
    trained_score: float | None = None
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def best(self) -> TreatmentResult | None:
        """The treatment that cures; None if there is none."""
        return next((entry for entry in self.entries if entry.outcome == "cures"), None)

    @property
    def untreated_score(self) -> float:
        """The mean final score without treatment."""
        return float(np.mean([run.score for run in self.untreated])) if self.untreated else float("nan")

    @property
    def measure(self) -> str:
        """The score with its split, for example "validation accuracy"."""
        return f"{'validation' if self.split == 'val' else 'training'} {self.metric}"

    @property
    def code(self) -> str:
        """The code of the treatment that cures; empty if there is none."""
        return self.best.treatment.fix if self.best is not None else ""

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per score: treatment (empty for none), seed, step, score."""
        import pandas as pd

        named_runs = [("", run) for run in self.untreated]
        named_runs += [(entry.name, run) for entry in self.entries for run in entry.runs]
        rows = [
            (name, run.seed, step, score)
            for name, run in named_runs
            for step, score in zip(run.steps, run.scores, strict=True)
        ]
        return pd.DataFrame(rows, columns=["treatment", "seed", "step", "score"])

    def draw(self, ax: Axes) -> None:
        """Plot the score of the setup and of each treatment that helps, the mean over the seeds."""
        helpful = [(entry.name, entry.runs) for entry in self.entries if entry.outcome]
        for name, runs in [("without treatment", self.untreated), *helpful]:
            curve = _mean_curve(runs)
            ax.plot(curve.steps, curve.mean, label=name)
            ax.fill_between(curve.steps, curve.low, curve.high, alpha=0.2, linewidth=0)
        ax.set(xlabel="step", ylabel=self.measure, title=f"treatments: {self.verdict}")
        ax.legend()

    def view(self) -> View:
        """A small chart for each treatment, all on the same axes, and a table."""
        return build_view(self)

    def to_text(self) -> str:
        """The verdict, a line for each treatment, and the code of the one that cures."""
        lines = [f"nbdebug treatments: {self.verdict}. {self.headline}"]
        lines += [f"  - {self.best.treatment.cause}"] if self.best is not None else []
        scores = [("without treatment", self.untreated_score, "")] if self.untreated else []
        scores += [(entry.name, entry.score, entry.outcome) for entry in self.entries]
        lines += [f"  {name}: {self._score_text(score)}{', ' * bool(end)}{end}" for name, score, end in scores]
        lines += [f"  {line}" for line in self.code.splitlines()]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join([*lines, f"  {self.total_steps:,} steps on copies, {self.seconds:.1f} s; nothing is changed"])

    def _score_text(self, score: float) -> str:
        return f"{self.measure} {score:.3g}" if np.isfinite(score) else "diverges"


def _mean_curve(runs: Sequence[TrialRun]) -> CurveBand:
    """Return mean, minimum and maximum of the scores over the seeds; scores that are not finite are left out."""
    count = min((len(run.scores) for run in runs), default=0)
    table = np.array([run.scores[:count] for run in runs])
    is_finite = np.isfinite(table).all(0) if count else np.zeros(0, bool)
    if not bool(is_finite.any()):
        return CurveBand()
    scores = table[:, is_finite]
    return CurveBand.of(np.array(runs[0].steps[:count])[is_finite], scores.mean(0), scores.min(0), scores.max(0))


def build_view(result: Treatments, status: str = "") -> OptimizerComparisonView:
    """Build the view of a result; with a ``status``, that of a run that goes on."""
    live = bool(status)
    panels = [_panel("without treatment", "", result.untreated)] if result.untreated else []
    panels += [_panel(entry.name, entry.outcome, entry.runs) for entry in result.entries]
    return OptimizerComparisonView(
        title="Treatments",
        status=status or f"{result.total_steps:,} steps on copies",
        panels=panels,
        verdict="" if live else result.verdict,
        outcome=_OUTCOMES[result.verdict],
        quantity=result.measure,
        judged_by="",
        headline="" if live else result.headline,
        reasons=() if live or result.best is None else (result.best.treatment.cause,),
        notes=() if live else result.notes,
        code="" if live else result.code,
        steps=LONGER * result.steps,
        stoppable=live,
    )


def _panel(name: str, outcome: str, runs: tuple[TrialRun, ...]) -> CandidatePanel:
    curve = _mean_curve(runs)
    score = float(np.mean([run.score for run in runs]))
    last_step = max((run.steps[-1] for run in runs if run.steps), default=0)
    return CandidatePanel(
        name=name,
        rate=f"{score:.3g} after {last_step} steps" if np.isfinite(score) else "diverges",
        words=outcome,
        tone="good" if outcome == "cures" else "soft",
        x=curve.steps,
        middle=curve.mean,
        low=curve.low,
        high=curve.high,
    )
