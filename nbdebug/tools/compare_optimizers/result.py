"""Result of an optimizer comparison as plain data, its loss curves and its view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from nbdebug.result import Result
from nbdebug.statistics.time_series import Curve, CurveBand, bin_means, noise_level
from nbdebug.tools.compare_optimizers.view import rank_texts
from nbdebug.training.divergence import smooth_curve

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.tools.compare_optimizers.view import CandidatePanel, OptimizerComparisonView
    from nbdebug.views.page import View

_CandidateState = Literal["learns", "does not learn", "diverges", "not run"]
ComparisonVerdict = Literal["clear", "tie", "none", "stopped"]
RateOrigin = Literal["yours", "given", "found", "default"]
_ORIGIN_TEXTS = {"yours": "your rate", "given": "as passed", "found": "from a range test", "default": "torch's default"}
_MAX_BAND_POINTS = 80
MAX_SEGMENTS = 400  # longer runs are first averaged into this many segments
_TONES = {"learns": "good", "does not learn": "soft", "diverges": "error", "not run": "soft"}


@dataclass(frozen=True)
class CandidateRun:
    """Losses of one candidate with one seed.

    ``losses`` holds the training loss of each step, ``validations`` the validation losses by batch after some steps.
    ``ended`` is "finished", "diverged", "not finite", "stopped" or "interrupted"; non-finite losses are not recorded.
    """

    seed: int
    losses: tuple[float, ...] = field(repr=False)
    validations: tuple[tuple[int, tuple[float, ...]], ...] = field(repr=False)
    ended: str

    @property
    def diverged(self) -> bool:
        """True if the loss diverged or became non-finite."""
        return self.ended in ("diverged", "not finite")


@dataclass(frozen=True)
class CandidateResult:
    """Result of one candidate.

    ``rank`` is one plus the number of candidates that are significantly better, so equal ranks are ties. ``train`` is
    the mean training loss of the last fifth of the steps, ``val`` the last loss on the validation sample, both averaged
    over the seeds; ``error`` is the half-width of the 95% interval of the loss used for ranking. ``stable`` is False if
    the loss diverged, or rose by a quarter of its total decrease, with any seed; ``falling`` is True if it was still
    decreasing at the end.
    """

    name: str
    rate: float | None
    origin: RateOrigin
    code: str = field(repr=False)
    runs: tuple[CandidateRun, ...] = field(repr=False)
    state: _CandidateState = "not run"
    stable: bool = True
    still_decreasing: bool = False
    rank: int = 0
    train: float | None = None
    val: float | None = None
    error: float | None = None

    @property
    def diverged_runs(self) -> int:
        """The number of seeds with which the loss diverged."""
        return sum(run.diverged for run in self.runs)

    @property
    def state_text(self) -> str:
        """State and stability as text."""
        if self.state == "diverges":
            return f"diverges with {self.diverged_runs} of {len(self.runs)} seeds"
        return self.state + (", stable" if self.stable else ", unstable") * (self.state != "not run")


@dataclass(frozen=True)
class OptimizerComparison(Result):
    """Candidates compared under equal conditions, best first, with the uncertainty of their order.

    ``judged_by`` is "val" if there is a validation loader, else "train". ``start`` is the loss before training.
    ``verdict`` is "clear" if one candidate is significantly better than all others, "tie", "none" if none learns, or
    "stopped" if there is too little to compare.
    """

    entries: tuple[CandidateResult, ...]
    verdict: ComparisonVerdict
    headline: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    judged_by: Literal["train", "val"] = "train"
    start: float | None = None
    steps: int = 0
    seeds: int = 0
    stopped: bool = False
    seconds: float = 0.0

    @property
    def best(self) -> CandidateResult | None:
        """The best candidate, of ties the lowest stable one; None if none learns or too few ran."""
        return self.entries[0] if self.verdict in ("clear", "tie") else None

    @property
    def tied(self) -> tuple[CandidateResult, ...]:
        """The candidates that are not significantly different from the best, including the best."""
        return tuple(entry for entry in self.entries if self.best is not None and entry.rank == 1)

    @property
    def code(self) -> str:
        """Code of the best candidate, ready to paste; empty if there is none."""
        return self.best.code if self.best is not None else ""

    def view(self) -> View:
        """A small chart for each candidate, all on the same axes, and a table."""

        return build_view(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per step of each run: candidate, rate, seed, step, loss, and val_loss if measured."""
        import pandas as pd

        rows = []
        for entry in self.entries:
            for run in entry.runs:
                validation_losses = {
                    step: sum(losses_by_batch) / len(losses_by_batch) for step, losses_by_batch in run.validations
                }
                losses = enumerate(run.losses, 1)
                rows += [
                    (entry.name, entry.rate, run.seed, step, loss, validation_losses.get(step)) for step, loss in losses
                ]
        return pd.DataFrame(rows, columns=["candidate", "rate", "seed", "step", "loss", "val_loss"])

    def draw(self, ax: Axes) -> None:
        """Plot the smoothed loss of each candidate: the mean over the seeds, with a band from minimum to maximum."""

        for entry in self.entries:
            curve = _loss_band(entry.runs)
            if not curve.steps:
                continue
            (line,) = ax.plot(curve.steps, curve.mean, label=entry.name)
            ax.fill_between(curve.steps, curve.low, curve.high, color=line.get_color(), alpha=0.2, linewidth=0)
        ax.set(xlabel="step", ylabel="training loss", title=f"optimizer comparison: {self.verdict}")
        if self.entries:
            ax.legend()

    def to_text(self) -> str:
        """The verdict with its reasons, a line for each candidate, and the code of the best one."""
        lines = [
            f"nbdebug compare_optimizers: {self.verdict}. {self.headline}",
            *(f"  - {item}" for item in self.reasons),
        ]
        places = rank_texts([item.rank for item in self.entries])
        lines += [f"  {_result_line(item, place)}" for item, place in zip(self.entries, places, strict=True)]
        lines += [f"  {text}" for text in self.code.splitlines()]
        lines += [f"  note: {item}" for item in self.notes]
        size = f"{self.steps} steps with each of {self.seeds} seeds"
        return "\n".join([*lines, f"  {size}, {self.seconds:.1f} s; model and optimizers are unchanged"])


def _result_line(result: CandidateResult, place: str) -> str:
    """Return the line of one candidate."""
    rate = f", lr {result.rate:.2g} ({_ORIGIN_TEXTS[result.origin]})" if result.rate is not None else ""
    losses = [
        f"{name} {value:.4g}" for name, value in (("train", result.train), ("val", result.val)) if value is not None
    ]
    is_placed = place.isdigit()
    texts = [*losses, result.state_text, *([] if is_placed or not place else [place])]
    return f"{place + '. ' if is_placed else ''}{result.name}{rate}: {', '.join(texts)}"


def _loss_band(runs: Sequence[CandidateRun], max_points: int = _MAX_BAND_POINTS) -> CurveBand:
    """Return the band of the runs at up to ``max_points`` steps; for a single run, it is the noise of its steps."""
    started_runs = [run for run in runs if run.losses]
    if not started_runs:
        return CurveBand()
    last_step = max(len(run.losses) for run in started_runs)
    positions = np.unique(np.linspace(1, last_step, min(max_points, last_step)).round())
    table = np.array([_curve_at(run, positions) for run in started_runs])
    noise = (
        noise_level(np.asarray(started_runs[0].losses))
        if len(started_runs) == 1 and not started_runs[0].diverged
        else 0.0
    )
    return CurveBand.of(positions, np.nanmean(table, 0), np.nanmin(table, 0) - noise, np.nanmax(table, 0) + noise)


def _curve_at(run: CandidateRun, positions: Curve) -> Curve:
    """Interpolate the curve of a run at some steps, with NaN after its end; a diverged run is not smoothed."""
    curve = np.asarray(run.losses) if run.diverged else smooth_losses(run.losses)
    steps = np.linspace(1, len(run.losses), len(curve))
    return np.interp(positions, steps, curve, right=np.nan)


def smooth_losses(losses: Sequence[float]) -> Curve:
    """Smooth the losses; a long run is averaged into segments first."""
    return np.asarray(smooth_curve(bin_means(np.asarray(losses), MAX_SEGMENTS).tolist()))


def build_view(result: OptimizerComparison, status: str = "") -> OptimizerComparisonView:
    """Build the view of a result; with a ``status``, that of a comparison still running."""
    from nbdebug.tools.compare_optimizers.view import OptimizerComparisonView

    live = bool(status)
    size = f"{result.steps} steps with each of {result.seeds} seeds" + " · stopped" * result.stopped
    return OptimizerComparisonView(
        status=status or size,
        panels=[_candidate_panel(entry) for entry in result.entries],
        verdict="" if live else result.verdict,
        headline="" if live else result.headline,
        reasons=() if live else result.reasons,
        notes=() if live else result.notes,
        code="" if live else result.code,
        steps=result.steps,
        judged_by=result.judged_by,
        stoppable=live,
    )


def _candidate_panel(result: CandidateResult) -> CandidatePanel:
    from nbdebug.tools.compare_optimizers.view import CandidatePanel

    curve = _loss_band(result.runs)
    validation_steps = sorted({step for run in result.runs for step, _ in run.validations})
    means = [
        [
            sum(losses) / len(losses)
            for run in result.runs
            for step_measured, losses in run.validations
            if step_measured == step
        ]
        for step in validation_steps
    ]
    rate = (
        f"lr {result.rate:.2g}, {_ORIGIN_TEXTS[result.origin]}"
        if result.rate is not None
        else "learning rate to be determined"
    )
    return CandidatePanel(
        name=result.name,
        rate=rate,
        rank=result.rank,
        words=result.state_text,
        tone=_TONES[result.state] if result.stable or result.diverged_runs else "warning",
        train=result.train,
        val=result.val,
        error=result.error,
        x=curve.steps,
        middle=curve.mean,
        low=curve.low,
        high=curve.high,
        looks=validation_steps,
        validation=[sum(losses) / len(losses) for losses in means],
    )
