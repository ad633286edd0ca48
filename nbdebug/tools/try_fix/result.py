"""Result of trying one change as plain data, with its score curves and its view."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.result import Result
from nbdebug.statistics.paired_differences import PairedDifference
from nbdebug.statistics.time_series import CurveBand
from nbdebug.tools.compare_optimizers.view import CandidatePanel, OptimizerComparisonView
from nbdebug.tools.try_fix.matched_run import MatchedRun
from nbdebug.tools.try_fix.settings import GroupSetting

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

FixVerdict = Literal["helps", "harms", "undecided", "no effect", "stopped"]
_OUTCOMES = {"helps": "clear", "harms": "none", "undecided": "tie", "no effect": "tie", "stopped": "stopped"}
_TONES = {"helps": "good", "harms": "error"}
WITHOUT = "without the change"


@dataclass(frozen=True)
class TriedFix(Result):
    """The setup with and without one change, trained on copies with matched seeds.

    ``verdict`` is "helps" or "harms" if the interval of the paired difference of the scores excludes zero, "no effect"
    if all pairs of runs are equal, and "undecided" or "stopped" otherwise. ``before`` and ``after`` are the runs
    without and with the change, seed by seed. ``metric`` names the score, of which a higher one is better. ``vanished``
    and ``appeared`` are the findings of a checkup that the change has removed or added. ``settings`` are those of the
    optimizers that the change consists of, and that ``apply()`` sets; empty for any other change.
    """

    _live_fields: ClassVar[tuple[str, ...]] = ("_assign",)

    verdict: FixVerdict
    headline: str
    change: str
    code: str
    before: tuple[MatchedRun, ...] = field(repr=False)
    after: tuple[MatchedRun, ...] = field(repr=False)
    difference: PairedDifference
    metric: str = "validation accuracy"
    steps: int = 0
    vanished: tuple[Finding, ...] = ()
    appeared: tuple[Finding, ...] = ()
    settings: tuple[GroupSetting, ...] = ()
    notes: tuple[str, ...] = ()
    total_steps: int = 0
    seconds: float = 0.0
    _assign: Callable[[], None] | None = field(default=None, repr=False, compare=False)

    @property
    def helps(self) -> bool:
        """True if the change is a gain whose interval excludes zero."""
        return self.verdict == "helps"

    @property
    def time_ratio(self) -> float:
        """The shortest time of a run with the change, relative to that of a run without it; NaN without runs."""
        seconds = [min((run.seconds for run in runs), default=0.0) for runs in (self.before, self.after)]
        return seconds[1] / seconds[0] if seconds[0] else float("nan")

    @property
    def experiment(self) -> dict[str, str]:
        """The texts of an experiment in the journal; empty without a complete comparison."""
        if self.verdict == "stopped":
            return {}
        before, after = (
            f"{self.metric} {np.mean([run.score for run in runs]):.3g}" for runs in (self.before, self.after)
        )
        conclusion = f"{self.verdict}: the paired difference is {self.difference}"
        return {"change": self.change, "before": before, "after": after, "conclusion": conclusion}

    def apply(self) -> None:
        """Set the settings of the change in the user's optimizers, and add them to the log of the Debugger.

        Raises SetupError for a change of another kind, with the code to write, and for a result that was loaded.
        """
        if not self.settings:
            raise SetupError(
                f"the change {self.change!r} is not a setting of your optimizer; expected one. "
                f"Write it yourself: {self.code}"
            )
        if self._assign is None:
            raise SetupError("this result has no setup; expected one to set. Run try_fix again in this process.")
        self._assign()

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per score: changed, seed, step, score."""
        import pandas as pd

        rows = [
            (changed, run.seed, step, score)
            for changed, runs in ((False, self.before), (True, self.after))
            for run in runs
            for step, score in zip(run.steps, run.scores, strict=True)
        ]
        return pd.DataFrame(rows, columns=["changed", "seed", "step", "score"])

    def draw(self, ax: Axes) -> None:
        """Plot the score without and with the change, the mean and the range over the seeds."""
        for name, runs in ((WITHOUT, self.before), (self.change, self.after)):
            curve = _mean_curve(runs)
            ax.plot(curve.steps, curve.mean, label=name)
            ax.fill_between(curve.steps, curve.low, curve.high, alpha=0.2, linewidth=0)
        ax.set(xlabel="step", ylabel=self.metric, title=f"{self.change}: {self.verdict}")
        ax.legend()

    def view(self) -> View:
        """The two charts on the same axes, the difference, and the findings that changed."""
        return build_view(self)

    def to_text(self) -> str:
        """The verdict, the difference, the findings that changed, the cost, and what to write."""
        lines = [f"nbdebug try_fix: {self.verdict}. {self.headline}"]
        lines += [f"  {line}" for line in (*self.finding_lines, *self.cost_lines)]
        lines += [f"  {line}" for line in self.code.splitlines()]
        return "\n".join([*lines, *(f"  note: {note}" for note in self.notes)])

    @property
    def finding_lines(self) -> list[str]:
        """A line for each finding that vanished or appeared."""
        lines = [f"vanished: {finding.summary_line}" for finding in self.vanished]
        return lines + [f"appeared: {finding.summary_line}" for finding in self.appeared]

    @property
    def cost_lines(self) -> list[str]:
        """The cost of the change and that of the trial, and how the change is applied."""
        ratio = f"a step takes {self.time_ratio:.2f} times as long; " if np.isfinite(self.time_ratio) else ""
        cost = f"cost: {ratio}{self.total_steps:,} steps on copies took {self.seconds:.1f} s"
        settings = "; ".join(map(str, self.settings))
        return [
            cost,
            f"apply() sets {settings}" if settings else "nothing of yours is changed; this code keeps the change",
        ]


def _mean_curve(runs: Sequence[MatchedRun]) -> CurveBand:
    """Return mean, minimum and maximum of the scores over the seeds."""
    count = min((len(run.scores) for run in runs), default=0)
    if not count:
        return CurveBand()
    table = np.array([run.scores[:count] for run in runs])
    return CurveBand.of(np.array(runs[0].steps[:count]), table.mean(0), table.min(0), table.max(0))


def score_panel(name: str, words: str, tone: str, runs: Sequence[MatchedRun]) -> CandidatePanel:
    """Return the chart of one arm."""
    curve = _mean_curve(runs)
    diverged = sum(run.ended == "diverged" for run in runs)
    scores = [run.score for run in runs]
    texts = [f"{np.mean(scores):.3g} after {max(run.steps[-1] for run in runs)} steps"] if runs else []
    texts += [f"{diverged} of {len(runs)} runs diverge"] if diverged else []
    return CandidatePanel(
        name=name,
        rate=", ".join(texts),
        words=words,
        tone=tone,
        x=curve.steps,
        middle=curve.mean,
        low=curve.low,
        high=curve.high,
    )


def build_view(result: TriedFix, status: str = "") -> OptimizerComparisonView:
    """Build the view of a result; with a ``status``, that of a run that goes on."""
    live = bool(status)
    verdict = "" if live else result.verdict
    panels = [
        score_panel(WITHOUT, "", "soft", result.before),
        score_panel(result.change, verdict, _TONES.get(verdict, "soft"), result.after),
    ]
    return OptimizerComparisonView(
        title=f"Try a fix: {result.change}",
        status=status or f"{result.total_steps:,} steps on copies in {result.seconds:.1f} s",
        panels=panels,
        verdict=verdict,
        outcome=_OUTCOMES[result.verdict],
        quantity=result.metric,
        judged_by="",
        headline="" if live else result.headline,
        reasons=() if live else result.finding_lines,
        notes=() if live else (*result.cost_lines, *result.notes),
        code="" if live else result.code,
        steps=result.steps,
        stoppable=live,
    )
