"""Plain data of a profile: steps, lines, modules, trials and advice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import mean, median
from typing import Literal

from nbdebug.source.location import SourceLine
from nbdebug.tools.profile.phases import PHASES, StepTime

AdviceKind = Literal[
    "data",
    "transfer",
    "batch size",
    "threads",
    "dtype",
    "settings",
    "loss",
    "module",
    "optimizer",
    "line",
    "checkpoint",
    "evaluation",
    "growing",
]
_REPEATED_PHASES = ("forward", "loss", "backward", "optimizer")
MIN_GAIN = 1.3  # of the throughput; below it a change is not worth its trouble, and noise may imitate it


@dataclass(frozen=True)
class LineTime:
    """Seconds per step of a line of the user in one phase; in the phase "python" those of a line of the loop.

    ``is_loop_line`` marks a line of the loop, which calls what takes the time. ``growth`` is its time in the last third
    of the steps divided by that in the first third.
    """

    phase: str
    line: SourceLine
    text: str
    seconds: float
    growth: float = 1.0
    is_loop_line: bool = False


@dataclass(frozen=True)
class ModuleCost:
    """Seconds per step, bytes and operations of the module itself, without its submodules.

    ``kept_bytes`` were allocated by its forward pass and are alive when the backward pass begins. ``backward_bytes``
    were allocated by its backward pass: gradients of its inputs and parameters, and intermediate results.
    ``freed_bytes`` were freed by its backward pass. ``peak_bytes`` is the most memory that the step has in use while
    the module runs. ``flops`` and ``moved_bytes`` are those of the operations of its forward pass, ``calls`` their
    number.
    """

    path: str
    kind: str
    forward: float
    backward: float
    parameter_bytes: int
    kept_bytes: int
    backward_bytes: int
    freed_bytes: int
    peak_bytes: int
    flops: int
    moved_bytes: int
    calls: int

    @property
    def seconds(self) -> float:
        """Forward and backward pass."""
        return self.forward + self.backward

    @property
    def intensity(self) -> float:
        """Floating-point operations per byte that the operations of the forward pass read and write."""
        return self.flops / max(self.moved_bytes, 1)


@dataclass(frozen=True)
class SpeedTrial:
    """A change that was tried: its step time and gain, as the ratio of samples per second, and the code to write.

    ``gain`` is the median over the rounds, ``low`` the smallest, ``high`` the largest.
    ``difference`` is the largest difference of the output divided by its largest value; None if it is unchanged by
    construction. ``peak_bytes`` is the memory at the peak of the step; 0 if it was not measured. ``data_seconds`` is
    the time to read a batch of this size in one process; None if it was not measured. ``failure`` is the reason why it
    could not run; ``is_present`` marks the present setting.
    """

    group: str
    name: str
    seconds: float = 0.0
    size: int = 0
    gain: float = 1.0
    low: float = 1.0
    code: str = ""
    difference: float | None = None
    peak_bytes: int = 0
    data_seconds: float | None = None
    failure: str = ""
    is_present: bool = False
    high: float = 1.0


@dataclass(frozen=True)
class Latency:
    """Percentiles of the seconds of a pass in eval mode, without gradients, on a batch of ``size`` samples."""

    size: int
    p50: float
    p95: float
    p99: float
    passes: int


@dataclass(frozen=True)
class Roofline:
    """The highest rates that were measured on this device: operations per second, and bytes per second."""

    flops_per_second: float
    bytes_per_second: float

    @property
    def ridge(self) -> float:
        """Operations per byte above which the arithmetic, not the memory, limits an operation."""
        return self.flops_per_second / self.bytes_per_second

    def seconds(self, flops: int, moved_bytes: int) -> float:
        """Return the least seconds that this many operations and bytes take."""
        return max(flops / self.flops_per_second, moved_bytes / self.bytes_per_second)


@dataclass(frozen=True)
class Advice:
    """A bottleneck: the gain of a change, why, the code to write, and the user's line.

    If ``is_measured``, the loop has run with and without the change, and the gain was between ``low`` and ``high`` in
    all rounds; otherwise it is an estimate from the parts of a step, and between ``low`` and ``high`` by the rounds of
    its trial. Both are 1 if there was no trial.
    """

    kind: AdviceKind
    gain: float
    headline: str
    cause: str
    code: str
    line: SourceLine | None = None
    low: float = 1.0
    high: float = 1.0
    is_measured: bool = False

    @property
    def gain_text(self) -> str:
        """The gain as a sentence, with the range over the rounds in which it was measured."""
        if not self.is_measured:
            span = f" ({self.low:.2f} to {self.high:.2f})" if self.low < self.high else ""
            return f"Estimated gain: {self.gain:.2f}×{span}."
        text = f"Measured gain: {self.gain:.2f}× ({self.low:.2f} to {self.high:.2f})."
        return f"{text} The rounds disagree whether it gains at all." if self.low < 1 else text


@dataclass(frozen=True)
class TimeProfile:
    """Where the time of a training step goes, and what each change would gain.

    ``steps`` are those of the user's loop if ``is_user_loop``, otherwise those of a standard loop over the setup.
    ``advice`` is sorted, the largest gain first, and empty if no change gains MIN_GAIN. ``data_seconds`` is the wait
    for data in a step of the standard loop, ``replay_seconds`` is the time of that step with cached batches.
    ``plain_reading_seconds`` is the time to collate a batch of samples that are in memory, which any loader needs.
    ``reading_cpu_share`` is the share of that wait in which this process computes. ``overhead`` is the share of the
    step time that the hooks add.
    """

    headline: str
    steps: tuple[StepTime, ...] = field(repr=False)
    advice: tuple[Advice, ...] = ()
    lines: tuple[LineTime, ...] = ()
    modules: tuple[ModuleCost, ...] = ()
    trials: tuple[SpeedTrial, ...] = ()
    latencies: tuple[Latency, ...] = ()
    roofline: Roofline | None = None
    is_user_loop: bool = False
    device: str = "cpu"
    batch_size: int = 0
    threads: int = 1
    cores: int = 1
    workers: int = 0
    data_seconds: float = 0.0
    reading_cpu_share: float = 0.0
    plain_reading_seconds: float = 0.0
    standard_seconds: float = 0.0
    replay_seconds: float = 0.0
    device_busy: float | None = None
    transferred_bytes: int = 0
    pinned_share: float = 1.0
    peak_bytes: int = 0
    resident_bytes: int = 0
    overhead: float = 0.0
    notes: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def step_seconds(self) -> float:
        """The time of a step, as the sum of its phases."""
        return sum(self.phases.values())

    @property
    def phases(self) -> dict[str, float]:
        """The seconds of each phase in a step: the median of what each step repeats, otherwise the mean."""
        if not self.steps:
            return dict.fromkeys(PHASES, 0.0)
        seconds = {phase: [step.phases[phase] for step in self.steps] for phase in PHASES}
        return {phase: (median if phase in _REPEATED_PHASES else mean)(seconds[phase]) for phase in PHASES}

    @property
    def bottleneck(self) -> str:
        """The kind of the first advice; "balanced" if there is none."""
        return self.advice[0].kind if self.advice else "balanced"

    @property
    def gain(self) -> float:
        """The gain of the first advice; 1 if there is none."""
        return self.advice[0].gain if self.advice else 1.0

    @property
    def code(self) -> str:
        """The code of the first advice."""
        return self.advice[0].code if self.advice else ""

    @property
    def loader_gain(self) -> float:
        """The gain of a perfect loader: cached batches, replayed."""
        return self.standard_seconds / self.replay_seconds if self.replay_seconds else 1.0

    @property
    def computing_seconds(self) -> float:
        """The seconds of a step that the trials repeat: without data, evaluation and other lines of the user's loop."""
        names = ("forward", "loss", "backward", "optimizer", *(() if self.is_user_loop else ("python",)))
        return sum(self.phases[phase] for phase in names)

    def share(self, phase: str) -> float:
        """Return the share of a phase in the step time."""
        return self.phases[phase] / self.step_seconds if self.step_seconds else 0.0

    def best(self, group: str) -> SpeedTrial | None:
        """Return the trial of a group with the largest gain, except the present setting; None if none has run."""
        ran = [trial for trial in self.trials if trial.group == group and not trial.failure and not trial.is_present]
        return max(ran, key=lambda trial: trial.gain, default=None)

    @property
    def cached_trial(self) -> SpeedTrial | None:
        """The trial of the present step on cached batches; None if none has run."""
        return next((trial for trial in self.trials if trial.group == "loader" and not trial.is_present), None)

    def slowest_line(self, *phases: str) -> LineTime | None:
        """Return the line with the most time in some phases; a line of the loop only if there is no other."""
        lines = [item for item in self.lines if item.phase in phases]
        own = [item for item in lines if not item.is_loop_line]
        return max(own or lines, key=lambda item: item.seconds, default=None)

    @property
    def reasons(self) -> tuple[str, ...]:
        """The causes: of the bottleneck, and of the next ones."""
        first, *others = self.advice or (None,)
        if first is None:
            return (f"The largest phase is {max(self.phases, key=lambda phase: self.phases[phase])}.",)
        return (first.cause, *(f"{item.headline} {item.gain_text}" for item in others if item))


def milliseconds(seconds: float) -> str:
    """Return seconds as text in milliseconds."""
    return f"{1e3 * seconds:.3g} ms" if seconds < 100 else f"{seconds:.3g} s"


def typical_seconds(steps: Sequence[StepTime], phase: str | None = None) -> float:
    """Return the median time of some steps, or of one phase of them."""
    return median(step.seconds if phase is None else step.phases[phase] for step in steps) if steps else 0.0
