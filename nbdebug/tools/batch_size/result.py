"""The result of the batch-size finder as plain data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from nbdebug.result import Result

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View

Ended = Literal["memory", "data", "limit", "time", "stopped", "interrupted"]


@dataclass(frozen=True)
class Size:
    """One batch size: the bytes at the peak of a step, and its seconds by median and quartiles over ``steps`` steps."""

    size: int
    memory: int
    seconds: float
    low: float
    high: float
    steps: int

    @property
    def throughput(self) -> float:
        """Samples a second."""
        return self.size / self.seconds

    @property
    def pace(self) -> str:
        """Samples a second in words."""
        return f"{self.throughput:,.0f}" if self.throughput >= 100 else f"{self.throughput:.3g}"


@dataclass(frozen=True)
class NoiseScale:
    """The gradient-noise scale: the batch whose gradient is as much noise as signal.

    ``low`` to ``high`` is its 95 % interval; ``value`` and ``high`` are None where the gradient itself cannot be told
    from noise. All is None where it was not measured, and ``why`` says so.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None
    samples: int = 0
    why: str = ""

    def __str__(self) -> str:
        """The scale with its interval."""
        if self.low is None:
            return f"not measured: {self.why}"
        if self.value is None or self.high is None:
            return f"over {self.low:.3g} (at {self.samples} samples the gradient cannot be told from noise)"
        return f"{self.value:.3g} ({self.low:.3g} to {self.high:.3g})"


@dataclass(frozen=True)
class BatchSize(Result):
    """What a step costs at each batch size, and which size is suggested, with the reasons.

    ``ended`` says why no larger size was tried, ``failed`` is the size that did not fit or would not have fitted.
    ``now`` is the loader's own size, ``capacity`` the bytes that a step may take, ``resident`` those of weights and
    optimizer state in each of them. ``reading`` is the seconds it takes one process to read a sample.
    """

    sizes: tuple[Size, ...]
    suggestion: int | None
    headline: str
    reasons: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    ended: Ended = "data"
    failed: int | None = None
    now: int | None = None
    noise: NoiseScale = field(default_factory=NoiseScale)
    device: str = "cpu"
    measured_by: str = ""
    capacity: int | None = None
    resident: int = 0
    reading: float = 0.0
    shuffled: bool = True
    seconds: float = 0.0

    @property
    def stopped(self) -> bool:
        """Whether it was ended before it was done."""
        return self.ended in ("stopped", "interrupted")

    @property
    def code(self) -> str:
        """The loader with the suggested size; empty where none is suggested."""
        if self.suggestion is None:
            return ""
        shuffle = ", shuffle=True" if self.shuffled else ""
        return f"train_loader = torch.utils.data.DataLoader(dataset, batch_size={self.suggestion}{shuffle})"

    def of(self, size: int) -> Size | None:
        """What was measured at one size."""
        return next((one for one in self.sizes if one.size == size), None)

    def view(self) -> View:
        """A row for each size, with its memory and its throughput as bars."""
        from nbdebug.tools.batch_size.picture import view

        return view(self)

    def to_frame(self) -> pandas.DataFrame:
        """One row a size."""
        import pandas as pd

        columns = ["size", "memory", "seconds", "low", "high", "steps", "throughput"]
        return pd.DataFrame([{**vars(one), "throughput": one.throughput} for one in self.sizes], columns=columns)

    def draw(self, ax: Axes) -> None:
        """Samples a second over the batch size, with quartiles, and the suggestion."""
        for_each = [one.size for one in self.sizes]
        rates = [one.throughput for one in self.sizes]
        below = [one.throughput - one.size / one.high for one in self.sizes]
        above = [one.size / one.low - one.throughput for one in self.sizes]
        ax.errorbar(for_each, rates, (below, above), marker="o", capsize=3, label="samples a second")
        if self.suggestion is not None:
            ax.axvline(self.suggestion, color="gray", linestyle="--", label=f"suggested: {self.suggestion}")
        ax.set(xlabel="batch size", ylabel="samples a second", xscale="log", title="batch size")
        ax.set_xscale("log", base=2)
        ax.legend()

    def __str__(self) -> str:
        """The suggestion with its reasons, and a line for each size."""
        lines = [f"nbdebug batch_size: {self.headline}", *(f"  - {one}" for one in (*self.reasons, *self.notes))]
        lines += [
            f"  {one.size:>7,}: {binary(one.memory):>9}, {one.pace} samples/s, {1e3 * one.seconds:.3g} ms"
            for one in self.sizes
        ]
        return "\n".join([*lines, f"  {self.code}"] if self.code else lines)


def binary(count: float) -> str:
    """Bytes in a unit that leaves few digits, such as ``1.5 GiB``."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.3g} {unit}" if count >= 1 or unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:,.3g} GiB" if count < 100 else f"{count:,.0f} GiB"
