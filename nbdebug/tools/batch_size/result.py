"""Result of the batch-size finder as plain data, and its view."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nbdebug.result import Result

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.tools.batch_size.view import BatchSizeRow, BatchSizeView
    from nbdebug.views.page import View

EndReason = Literal["memory", "data", "limit", "time", "stopped", "interrupted"]


@dataclass(frozen=True)
class SizeMeasurement:
    """Measurements of one size: peak bytes of a step, and median and quartiles of its seconds over ``steps`` steps."""

    size: int
    memory: int
    seconds: float
    low: float
    high: float
    steps: int

    @property
    def throughput(self) -> float:
        """Samples per second."""
        return self.size / self.seconds

    @property
    def throughput_text(self) -> str:
        """Samples per second as text."""
        return f"{self.throughput:,.0f}" if self.throughput >= 100 else f"{self.throughput:.3g}"


@dataclass(frozen=True)
class NoiseScale:
    """Gradient noise scale: the batch size at which noise and signal of the gradient are equal.

    ``low`` to ``high`` is its 95% interval; ``value`` and ``high`` are None if the gradient cannot be distinguished
    from noise. All are None if it was not measured; ``why`` is the reason.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    why: str = ""

    def __str__(self) -> str:
        """The noise scale with its interval."""
        if self.low is None:
            return f"not measured: {self.why}"
        if self.value is None or self.high is None:
            return f"above {self.low:.3g} (at {self.samples} samples, the gradient cannot be distinguished from noise)"
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class BatchSize(Result):
    """Cost of a step at each batch size, and the suggested size with the reasons.

    ``ended`` is the reason why no larger size was tested, ``failed`` is the size that did not fit into memory or was
    predicted not to. ``now`` is the loader's own size, ``capacity`` the bytes available to a step, ``resident`` those
    of weights and optimizer state, which are part of each measurement. ``reading`` is the time in seconds that one
    process takes to read a sample.
    """

    sizes: tuple[SizeMeasurement, ...]
    suggestion: int | None
    headline: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ended: EndReason = "data"
    failed: int | None = None
    current_size: int | None = None
    noise: NoiseScale = field(default_factory=NoiseScale)
    device: str = "cpu"
    measured_by: str = ""
    capacity: int | None = None
    resident_bytes: int = 0
    seconds_per_sample: float = 0.0
    shuffled: bool = True
    seconds: float = 0.0

    @property
    def stopped(self) -> bool:
        """True if the search was stopped before it was complete."""
        return self.ended in ("stopped", "interrupted")

    @property
    def code(self) -> str:
        """Code for the loader with the suggested size; empty if none is suggested."""
        if self.suggestion is None:
            return ""
        shuffle = ", shuffle=True" if self.shuffled else ""
        return f"train_loader = torch.utils.data.DataLoader(dataset, batch_size={self.suggestion}{shuffle})"

    def get(self, size: int) -> SizeMeasurement | None:
        """Return the measurements of one size, or None."""
        return next((measurement for measurement in self.sizes if measurement.size == size), None)

    def view(self) -> View:
        """A row for each size, with bars for its memory and its throughput."""

        return build_view(self)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per size."""
        import pandas as pd

        columns = ["size", "memory", "seconds", "low", "high", "steps", "throughput"]
        return pd.DataFrame(
            [{**vars(measurement), "throughput": measurement.throughput} for measurement in self.sizes], columns=columns
        )

    def draw(self, ax: Axes) -> None:
        """Plot samples per second over the batch size, with quartiles, and the suggestion."""
        batch_sizes = [measurement.size for measurement in self.sizes]
        rates = [measurement.throughput for measurement in self.sizes]
        below = [measurement.throughput - measurement.size / measurement.high for measurement in self.sizes]
        above = [measurement.size / measurement.low - measurement.throughput for measurement in self.sizes]
        ax.errorbar(batch_sizes, rates, (below, above), marker="o", capsize=3, label="samples per second")
        if self.suggestion is not None:
            ax.axvline(self.suggestion, color="gray", linestyle="--", label=f"suggested: {self.suggestion}")
        ax.set(xlabel="batch size", ylabel="samples per second", xscale="log", title="batch size")
        ax.set_xscale("log", base=2)
        ax.legend()

    def to_text(self) -> str:
        """The suggestion with its reasons, and a line for each size."""
        lines = [f"nbdebug batch_size: {self.headline}", *(f"  - {item}" for item in (*self.reasons, *self.notes))]
        lines += [
            f"  {item.size:>7,}: {format_bytes(item.memory):>9}, "
            f"{item.throughput_text} samples/s, {1e3 * item.seconds:.3g} ms"
            for item in self.sizes
        ]
        return "\n".join([*lines, f"  {self.code}"] if self.code else lines)


def format_bytes(count: float) -> str:
    """Format bytes with a binary unit, such as ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if count >= 1 or unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:,.3g} GiB" if count < 100 else f"{count:,.0f} GiB"


def build_view(result: BatchSize, live: bool = False) -> BatchSizeView:
    """Build the view of a result; ``live`` if more sizes will follow."""
    from nbdebug.tools.batch_size.view import BatchSizeView

    rows = [_size_row(measurement) for measurement in result.sizes]
    capacity = f" · {format_bytes(result.capacity)} free for a step" if result.capacity is not None else ""
    stopped_text = " · stopped" if result.stopped else ""
    return BatchSizeView(
        status=f"{result.device}{capacity}{stopped_text}",
        headline="" if live else result.headline,
        reasons=() if live else result.reasons,
        notes=() if live else result.notes,
        rows=rows,
        suggestion=None if live else result.suggestion,
        now=result.current_size,
        limit=result.capacity if result.device.startswith("cuda") else None,
        code="" if live else result.code,
        stoppable=live,
    )


def _size_row(measurement: SizeMeasurement) -> BatchSizeRow:
    from nbdebug.tools.batch_size.view import BatchSizeRow

    throughputs = (measurement.throughput, measurement.size / measurement.high, measurement.size / measurement.low)
    return BatchSizeRow(
        measurement.size, measurement.memory, format_bytes(measurement.memory), *throughputs, 1e3 * measurement.seconds
    )
