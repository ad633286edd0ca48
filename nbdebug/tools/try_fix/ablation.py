"""Ablation: which of several changes matter, by leaving each of them out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from nbdebug.exceptions import SetupError
from nbdebug.finding import Finding
from nbdebug.parallel import Backend, choose_workers
from nbdebug.result import Result
from nbdebug.setup import Setup
from nbdebug.statistics.paired_differences import PairedDifference, paired_difference
from nbdebug.tools.compare_optimizers.view import OptimizerComparisonView
from nbdebug.tools.try_fix.arms import Arm, ArmRunner, score_differences
from nbdebug.tools.try_fix.change import parse_change
from nbdebug.tools.try_fix.matched_run import MatchedRun
from nbdebug.tools.try_fix.result import score_panel
from nbdebug.tools.try_fix.run_score import OwnScore
from nbdebug.tools.try_fix.tool import prepare_experiment
from nbdebug.validation import describe_type
from nbdebug.views.live import show_view

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

MAX_CHANGES = 12
_WITHOUT_ALL, _WITH_ALL = "without any change", "with all changes"
_WORDS = {1: "helps", -1: "harms", 0: "no clear effect"}
_PANEL_WORDS = {1: "needed", -1: "better so", 0: "no clear effect"}  # of the runs without a change
_TONES = {1: "good", -1: "error", 0: "soft"}


@dataclass(frozen=True)
class AblatedChange:
    """One change of several: ``contribution`` is the score of all changes minus that of all others, paired by seed."""

    name: str
    code: str
    contribution: PairedDifference
    runs: tuple[MatchedRun, ...] = field(repr=False)

    @property
    def words(self) -> str:
        """The effect of the change in words."""
        return _WORDS[self.contribution.sign]


@dataclass(frozen=True)
class Ablation(Result):
    """The setup with all changes, without any, and without each of them, trained on copies with matched seeds.

    ``gain`` is the paired difference of the scores with all changes and without any. ``changes`` are in the order in
    which they are applied.
    """

    headline: str
    changes: tuple[AblatedChange, ...]
    gain: PairedDifference
    before: tuple[MatchedRun, ...] = field(repr=False)
    after: tuple[MatchedRun, ...] = field(repr=False)
    metric: str = "validation accuracy"
    steps: int = 0
    total_steps: int = 0
    stopped: bool = False
    seconds: float = 0.0

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the changes that help, the others being present."""
        return tuple(change.name for change in self.changes if change.contribution.sign > 0)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per change: change, contribution, low, high, p, effect."""
        import pandas as pd

        rows = [
            (change.name, part.value, part.low, part.high, part.p, change.words)
            for change in self.changes
            for part in [change.contribution]
        ]
        return pd.DataFrame(rows, columns=["change", "contribution", "low", "high", "p", "effect"])

    def draw(self, ax: Axes) -> None:
        """Plot the contribution of each change with its interval."""
        parts = [change.contribution for change in self.changes]
        values = np.array([part.value for part in parts])
        errors = np.nan_to_num(np.array([part.high - part.value for part in parts]))
        ax.errorbar(values, range(len(parts)), xerr=errors, fmt="o", capsize=3)
        ax.axvline(0.0, linewidth=0.8, color="gray")
        ax.set_yticks(range(len(parts)), [change.name for change in self.changes])
        ax.invert_yaxis()
        ax.set(xlabel=f"contribution to the {self.metric}", title="ablation")

    def view(self) -> View:
        """A small chart for each arm, all on the same axes, and the contributions."""
        return _build_view(self)

    def to_text(self) -> str:
        """The outcome, and a line for each change."""
        lines = [f"nbdebug ablation: {self.headline}", *(f"  {line}" for line in self.lines)]
        return "\n".join([*lines, f"  {self.total_steps:,} steps on copies, {self.seconds:.1f} s; nothing is changed"])

    @property
    def lines(self) -> list[str]:
        """A line for each change."""
        return [f"{change.name}: {change.words}, {change.contribution}" for change in self.changes]


def ablation(
    setup: Setup,
    changes: Sequence[Any],
    findings: Iterable[Finding] = (),
    *,
    steps: int = 150,
    seeds: int = 5,
    score: OwnScore | None = None,
    workers: int | None = None,
    backend: Backend | None = None,
) -> Ablation:
    """Train copies with all changes, without any, and without each of them, and compare them seed by seed.

    Nothing of the user's is changed. Raises SetupError for fewer than two changes, for one that does not alter the
    setup, and for a setup that cannot be run.
    """
    if not isinstance(changes, (list, tuple)) or not 2 <= len(changes) <= MAX_CHANGES:
        got = f"{len(changes)} changes" if isinstance(changes, (list, tuple)) else describe_type(changes)
        raise SetupError(f"changes is {got}; expected a list of 2 to {MAX_CHANGES}. Use try_fix(change) for one.")
    parsed = tuple(parse_change(change, findings) for change in changes)
    pool_workers = choose_workers(backend, workers)
    run_score, in_place = prepare_experiment(setup, steps, seeds, score, pool_workers)
    arms = [Arm(_WITHOUT_ALL, (), run_score), Arm(_WITH_ALL, parsed, run_score.for_change())]
    arms += [
        Arm(f"without {change.name}", (*parsed[:i], *parsed[i + 1 :]), run_score.for_change())
        for i, change in enumerate(parsed)
    ]
    runner = ArmRunner(setup, arms, steps, seeds, in_place, pool_workers)

    def result() -> Ablation:
        complete = min(len(arm.runs) for arm in arms)
        none, every, *others = [arm.runs[:complete] for arm in arms]
        entries = [
            AblatedChange(change.name, change.code, paired_difference(score_differences(runs, every)), tuple(runs))
            for change, runs in zip(parsed, others, strict=True)
        ]
        return Ablation(
            headline="",
            changes=tuple(entries),
            gain=paired_difference(score_differences(none, every)),
            before=tuple(none),
            after=tuple(every),
            metric=run_score.metric,
            steps=steps,
            total_steps=runner.total_steps,
            stopped=runner.stopped,
            seconds=time.perf_counter() - runner.started,
        )

    make_view = partial(_running_view, result)
    with show_view(make_view("starting")) as screen:
        runner.run(screen, make_view)
        finished = result()
        finished = replace(finished, headline=_headline(finished))
        screen.finish(finished)
    return finished


def _running_view(result: Callable[[], Ablation], status: str) -> OptimizerComparisonView:
    return _build_view(result(), status)


def _headline(result: Ablation) -> str:
    """Return the outcome in one or two sentences."""
    if result.gain.pairs < 2:
        return "Stopped before two seeds were complete."
    needed = ", ".join(result.needed) or "none of them alone, as far as these seeds show"
    before, after = (float(np.mean([run.score for run in runs])) for runs in (result.before, result.after))
    return (
        f"With all {len(result.changes)} changes, the {result.metric} is {after:.3g} instead of {before:.3g} "
        f"({result.gain}). Needed: {needed}."
    )


def _build_view(result: Ablation, status: str = "") -> OptimizerComparisonView:
    """Build the view of a result; with a ``status``, that of a run that goes on."""
    live = bool(status)
    panels = [
        score_panel(_WITHOUT_ALL, "", "soft", result.before),
        score_panel(_WITH_ALL, "", "soft", result.after),
        *(
            score_panel(
                f"without {item.name}", _PANEL_WORDS[item.contribution.sign], _TONES[item.contribution.sign], item.runs
            )
            for item in result.changes
        ),
    ]
    outcome = "stopped" if result.stopped else "clear" if result.needed else "tie"
    return OptimizerComparisonView(
        title="Ablation",
        status=status or f"{result.total_steps:,} steps on copies in {result.seconds:.1f} s",
        panels=panels,
        verdict="" if live else "stopped" if result.stopped else f"{len(result.needed)} needed",
        outcome=outcome,
        quantity=result.metric,
        judged_by="",
        headline="" if live else result.headline,
        reasons=() if live else result.lines,
        notes=() if live else ("the contribution of a change is the score of all changes minus that of all others",),
        code="" if live else "\n".join(item.code for item in result.changes if item.name in result.needed),
        steps=result.steps,
        stoppable=live,
    )
