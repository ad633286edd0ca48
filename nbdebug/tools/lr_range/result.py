"""Result of a range test, and its view."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.options import Mode
from nbdebug.result import Result
from nbdebug.tools.lr_range import apply
from nbdebug.tools.lr_range.confirmation import Confirmation, RunComparison
from nbdebug.tools.lr_range.confirmation_run import ConfirmationRun
from nbdebug.tools.lr_range.data import QUANTITY_NAMES, RangeVerdict, Suggestion, Sweep
from nbdebug.tools.lr_range.schedules import Schedule
from nbdebug.training.hyperparameters import Quantity

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.tools.lr_range.apply import Setter
    from nbdebug.tools.lr_range.sweep import SweepPlan
    from nbdebug.tools.lr_range.view import LrRangeView
    from nbdebug.views.page import View


@dataclass(frozen=True)
class ScheduleRate:
    """The recommended rate for one schedule, or the peak of one-cycle; ``proof`` is that of its confirmation runs."""

    schedule: Schedule
    verdict: RangeVerdict
    recommended: Suggestion | None
    proof: Confirmation | None = None
    headline: str = ""

    @property
    def value(self) -> float | None:
        """The recommended value, or None without a clear answer."""
        return self.recommended.value if self.recommended is not None else None

    def __str__(self) -> str:
        return f"{'peak of one-cycle' if self.schedule == 'one-cycle' else 'constant rate'}: {self.headline}"


@dataclass(frozen=True)
class LrRange(Result):
    """The curves of a range test, suggestions, the recommendation, and a judgement of the present setting.

    ``quantity`` is "lr", "momentum" or "weight_decay". ``recommended`` is None without a clear answer, and ``reasons``
    say why. ``notes`` list what else affects the curves. ``current`` is the user's own value, ``judgement`` its
    assessment. ``steps`` counts the training steps of all sweeps and confirmation runs. ``proof`` describes how the
    recommended rate was confirmed; None without ``confirm``. ``rates`` has the constant rate and the peak of one-cycle.
    The first one belongs to the user's scheduler, and is ``recommended``; without a scheduler it is the constant rate.
    """

    _live_fields: ClassVar[tuple[str, ...]] = ("setter",)

    quantity: Quantity
    mode: Mode
    sweeps: tuple[Sweep, ...] = field(repr=False)
    suggestions: tuple[Suggestion, ...]
    recommended: Suggestion | None
    verdict: RangeVerdict
    headline: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    current: float | None = None
    judgement: str = ""
    seconds: float = 0.0
    steps: int = 0
    proof: Confirmation | None = None
    rates: tuple[ScheduleRate, ...] = ()
    setter: Setter | None = field(default=None, repr=False, compare=False)

    @property
    def suggestion(self) -> float | None:
        """The recommended value, or None without a clear answer."""
        return self.recommended.value if self.recommended is not None else None

    @property
    def constant_rate(self) -> float | None:
        """The recommended constant rate, or None without a clear answer."""
        return next((item.value for item in self.rates if item.schedule == "constant"), None)

    @property
    def one_cycle_peak(self) -> float | None:
        """The recommended peak of a one-cycle schedule, or None without a clear answer."""
        return next((item.value for item in self.rates if item.schedule == "one-cycle"), None)

    @property
    def trainings(self) -> tuple[ConfirmationRun, ...]:
        """All confirmation runs, those of the leading schedule first."""
        return tuple(run for item in self.rates if item.proof is not None for run in item.proof.trainings)

    @property
    def comparisons(self) -> list[RunComparison]:
        """The comparisons of the confirmation runs of each schedule."""
        return [comparison for item in self.rates if item.proof is not None for comparison in item.proof.comparisons]

    @property
    def passes_text(self) -> str:
        """The number of sweeps and trainings as text."""
        parts = [(len(self.sweeps), "sweep")]
        parts += [(len(self.trainings), "training")] if self.trainings else []
        return " and ".join(f"{number} {name}{'' if number == 1 else 's'}" for number, name in parts)

    @property
    def code(self) -> str:
        """Code to paste: a one-cycle schedule up to its recommended peak, or the option to set; may be empty."""
        value = self.one_cycle_peak if self.quantity == "lr" else self.suggestion
        return apply.recommended_code(self.quantity, value, self.setter)

    @property
    def warmup_code(self) -> str:
        """Code to paste: a warm-up to the recommended peak, then a cosine; may be empty."""
        return apply.warmup_code(self.quantity, self.one_cycle_peak, self.setter)

    def apply(self, value: float | None = None) -> float:
        """Set ``value``, or else the recommended one, in the user's optimizers, and return it.

        Groups keep their ratios, as in the sweep; a schedule starts from the new rates. The change is added to the log
        of the Debugger. Raises SetupError if there is nothing to set.
        """
        return apply.apply_value(self.setter, self.quantity, self.suggestion if value is None else value)

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Handle a click in the view: set the selected value."""
        value = self.apply(request["value"])
        return {"current": value, "said": f"{self.quantity} is {value:.3g} now."}

    def view(self) -> View:
        """Return the view: the curves of all sweeps, with suggestions."""

        return _result_view(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per step: sweep, seed, step, value, loss, smooth, part.

        ``part`` is "sweep" or "training"; trainings are numbered from 0 like sweeps, and have the seed 0.
        """
        import pandas as pd

        columns = ["sweep", "seed", "step", self.quantity, "loss", "smooth", "part"]
        rows: list[tuple[Any, ...]] = [
            (number, sweep.seed, step, *numbers, "sweep")
            for number, sweep in enumerate(self.sweeps)
            for step, numbers in enumerate(zip(sweep.values, sweep.losses, sweep.smooth, strict=True))
        ]
        rows += [
            (number, 0, step, run.rate, *numbers, "training")
            for number, run in enumerate(self.trainings)
            for step, numbers in enumerate(zip(run.losses, run.smooth, strict=True))
        ]
        return pd.DataFrame(rows, columns=columns)

    def draw(self, ax: Axes) -> None:
        """Draw raw and smoothed losses of each sweep, the recommended value with its interval, and the present one."""
        for sweep in self.sweeps:
            (line,) = ax.plot(sweep.values, sweep.smooth, label=f"seed {sweep.seed}")
            ax.plot(sweep.values, sweep.losses, color=line.get_color(), alpha=0.25, linewidth=0.8)
        recommended = self.recommended
        if (
            recommended is not None
            and recommended.value is not None
            and recommended.low is not None
            and recommended.high is not None
        ):
            ax.axvspan(recommended.low, recommended.high, color="gray", alpha=0.2)
            ax.axvline(recommended.value, color="black", label=f"recommended {recommended.value:.2g}")
        if self.proof is not None and self.proof.kept_rate and self.proof.sweep_rate != self.proof.kept_rate:
            ax.axvline(
                self.proof.sweep_rate,
                color="black",
                linestyle=":",
                label=f"by the sweeps {self.proof.sweep_rate:.2g}",
            )
        if self.current is not None:
            ax.axvline(self.current, color="gray", linestyle="--", label=f"yours {self.current:.2g}")
        scale, label = "log" if self.mode == "exp" else "linear", "loss"
        if (limits := _axis_limits(self.sweeps)) is not None:
            padding = 0.06 * (limits[1] - limits[0])
            ax.set_ylim(limits[0] - padding, limits[1] + padding)
            is_cut = any(loss > limits[1] for sweep in self.sweeps for loss in (*sweep.losses, *sweep.smooth))
            label = "loss (cut off beyond the axis)" if is_cut else label
        ax.set(xlabel=QUANTITY_NAMES[self.quantity], ylabel=label, xscale=scale, title=f"range test: {self.verdict}")
        if self.sweeps:
            ax.legend()

    def to_text(self) -> str:
        """Return the result as plain text."""
        lines = [f"nbdebug {self.quantity}_range: {self.verdict}. {self.headline}"]
        lines += [f"  - {item}" for item in self.reasons]
        lines += [f"  {item}" for item in self.rates[1:]]
        lines += [f"  {item}" for item in self.suggestions]
        lines += [f"  {item}" for item in self.comparisons]
        lines += [f"  yours: {self.judgement}"] if self.judgement else []
        lines += [f"  {self.code}"] if self.code else []
        lines += [f"  note: {item}" for item in self.notes]
        return "\n".join(
            [*lines, f"  {self.passes_text}, {self.steps} steps in {self.seconds:.1f} s; nothing was changed"]
        )


def _axis_limits(sweeps: Sequence[Sweep]) -> tuple[float, float] | None:
    """Return the range of losses of the chart, as on the page: a curve is cut off once its divergence is visible."""
    limits = []
    for sweep in sweeps:
        smooth = [loss for loss in sweep.smooth if math.isfinite(loss)]
        if smooth:
            first, low = smooth[0], min(smooth)
            high = min(max(smooth), first + max(first - low, abs(first) / 10))
            raw = [loss for loss in sweep.losses if math.isfinite(loss)]
            limits += [max(min([low, *raw]), 2 * low - high), high]
    return (min(limits), max(limits)) if limits and min(limits) < max(limits) else None


def _result_view(result: LrRange) -> LrRangeView:
    """Return the view of a finished test."""
    return _create_view(
        result,
        span=_value_range(result),
        verdict=result.verdict,
        headline=result.headline,
        reasons=(*result.reasons, *map(str, result.rates[1:])),
        notes=result.notes,
        judgement=result.judgement,
        standings=result.comparisons,
        recommended=result.recommended,
        setting=apply.setting_code(result.quantity, result.setter),
        usable=result.setter is not None and result.setter.owned,
        recipes={"One cycle": result.code, "Warm-up and cosine": result.warmup_code} if result.quantity == "lr" else {},
        status=f"{result.passes_text}, {result.steps} steps in {result.seconds:.1f} s; everything was restored",
    )


def running_view(result: LrRange, plan: SweepPlan, training_rate: float | None = None) -> LrRangeView:
    """Return the view of a running test, to which rows are appended; ``training_rate`` is that of the next run."""
    status = f"sweep {min(len(result.sweeps) + 1, plan.seeds)} of {plan.seeds}"
    if training_rate is not None:
        status = f"training at {training_rate:.2g}, to confirm the recommended rate"
    options: dict[str, Any] = {"seeds": range(plan.seeds), "trying": training_rate, "status": status}
    return _create_view(result, span=(plan.start, plan.end), stoppable=True, **options)


def _create_view(result: LrRange, **options: Any) -> LrRangeView:
    from nbdebug.tools.lr_range.view import LrRangeView

    return LrRangeView(
        title=f"{QUANTITY_NAMES[result.quantity].replace(' ', '-').capitalize()} range test",
        quantity=result.quantity,
        mode=result.mode,
        sweeps=result.sweeps,
        suggestions=result.suggestions,
        current=result.current,
        trainings=result.trainings,
        **options,
    )


def _value_range(result: LrRange) -> tuple[float, float]:
    """Return the lowest and highest value of the sweeps, or a range around the present one."""
    values = [value for sweep in result.sweeps for value in sweep.values] or [result.current or 1e-3]
    low, high = min(values), max(values)
    return (low, high) if low < high else (low / 10, high * 10)


def training_row(training: int, index: int, loss: float, smooth: float) -> dict[str, Any]:
    """Return a step of a confirmation run as a row of the view."""
    return {"training": training, "step": index, "loss": loss, "smooth": smooth}


def sweep_row(sweep: int, value: float, loss: float, smooth: float) -> dict[str, Any]:
    """Return a step of a sweep as a row of the view."""
    return {"sweep": sweep, "value": value, "loss": loss, "smooth": smooth}
