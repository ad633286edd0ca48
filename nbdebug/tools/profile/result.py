"""Result of the profile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbdebug.result import Result
from nbdebug.tools.batch_size.result import format_bytes
from nbdebug.tools.profile.phases import PHASES
from nbdebug.tools.profile.time_profile import Latency, LineTime, ModuleCost, SpeedTrial, TimeProfile, milliseconds
from nbdebug.tools.profile.view import build_view

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

_MAX_MODULES = 8  # in the text


@dataclass(frozen=True)
class Profile(TimeProfile, Result):
    """Where the time of a training step goes, and what each change would gain; see the fields of `TimeProfile`."""

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per step: the seconds of each phase and their sum."""
        import pandas as pd

        return pd.DataFrame([{**step.phases, "seconds": step.seconds} for step in self.steps])

    def modules_frame(self) -> pandas.DataFrame:
        """Return one row per module."""
        import pandas as pd

        return pd.DataFrame([vars(module) for module in self.modules])

    def trials_frame(self) -> pandas.DataFrame:
        """Return one row per change that was tried."""
        import pandas as pd

        return pd.DataFrame([vars(trial) for trial in self.trials])

    def draw(self, ax: Axes) -> None:
        """Plot the steps as stacked bars of their phases."""
        bottom = [0.0] * len(self.steps)
        for phase in PHASES:
            heights = [1e3 * step.phases[phase] for step in self.steps]
            if any(heights):
                ax.bar(range(len(heights)), heights, bottom=bottom, label=phase, width=1.0)
                bottom = [low + height for low, height in zip(bottom, heights, strict=True)]
        ax.set(xlabel="step", ylabel="milliseconds", title="time of each step")
        ax.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))  # beside the bars, which fill the axes

    def view(self) -> View:
        """Verdict, timeline, and the tables of phases, lines, modules, trials and latencies."""
        return build_view(self)

    def to_text(self) -> str:
        """The verdict with its reasons and code, then phases, lines, memory, modules, trials and latencies."""
        lines = [f"nbdebug profile: {self.headline}", *(f"  - {reason}" for reason in self.reasons)]
        if self.advice and (line := self.advice[0].line):
            lines.append(f"  at {line.where()}: {line.text.strip()}")
        lines += [f"  {line}" for line in self.code.splitlines()]
        shares = [f"{phase} {self.share(phase):.0%}" for phase in PHASES if self.share(phase) >= 0.005]
        lines.append(f"  step {milliseconds(self.step_seconds)}: {', '.join(shares)}")
        lines += [f"  {_line_text(item)}" for item in self.lines[:8]]
        lines += [f"  {_memory_text(self)}", *(f"  {_module_text(module)}" for module in self.modules[:_MAX_MODULES])]
        lines += [f"  {_trial_text(trial)}" for trial in self.trials]
        lines += [_latency_text(latency) for latency in self.latencies]
        lines += [f"  note: {note}" for note in self.notes]
        return "\n".join([*lines, f"  the hooks add {self.overhead:.1%} to a step; nothing of yours is changed"])


def _memory_text(profile: TimeProfile) -> str:
    """Return the memory of a step as one line."""
    peak, resident = map(format_bytes, (profile.peak_bytes, profile.resident_bytes))
    return f"peak memory of a step {peak}, of which {resident} also between steps"


def _module_text(module: ModuleCost) -> str:
    """Return the time and memory of a module as one line."""
    kept, allocated, freed = map(format_bytes, (module.kept_bytes, module.backward_bytes, module.freed_bytes))
    return (
        f"module {module.path or 'model'} ({module.kind}): forward {milliseconds(module.forward)}, keeps {kept}; "
        f"backward {milliseconds(module.backward)}, allocates {allocated}, frees {freed}; "
        f"peak memory {format_bytes(module.peak_bytes)}"
    )


def _trial_text(trial: SpeedTrial) -> str:
    """Return a trial as one line."""
    if trial.failure:
        return f"{trial.group} {trial.name}: not measured, {trial.failure}"
    mark = " (present)" if trial.is_present else ""
    difference = "" if trial.difference is None else f", output differs by {trial.difference:.1g}"
    peak = f", peak memory {format_bytes(trial.peak_bytes)}" if trial.peak_bytes else ""
    return f"{trial.group} {trial.name}{mark}: {milliseconds(trial.seconds)}, {trial.gain:.2f}×{difference}{peak}"


def _line_text(item: LineTime) -> str:
    return f"{item.phase} {milliseconds(item.seconds)}: line {item.line.number}, {item.text.strip()}"


def _latency_text(latency: Latency) -> str:
    parts = [milliseconds(value) for value in (latency.p50, latency.p95, latency.p99)]
    return f"  inference, batch of {latency.size}: P50 {parts[0]}, P95 {parts[1]}, P99 {parts[2]}"
