"""What to clip the gradient norm at: the 95th percentile of what the run itself had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.record import Record
from nbdebug.result import Result
from nbdebug.views.curves import Curves

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.base import View

LEAST = 20
PERCENTILE = 95.0
HEAVY = 10.0  # the largest norm over the percentile: from here on clipping is worth while


@dataclass(frozen=True)
class ClipThreshold(Result):
    """A bound for the gradient norm, taken from the norms of a run.

    ``max_norm`` is the percentile of the norms before any clipping; ``clipped`` is the share of the steps over it,
    ``largest`` and ``median`` are of the same norms, ``now`` is the share of the steps that the run itself clipped.
    """

    max_norm: float
    percentile: float
    clipped: float
    median: float
    largest: float
    not_finite: int
    now: float
    norms: tuple[tuple[float, float], ...]

    @property
    def code(self) -> str:
        """The line to write between backward() and step()."""
        return f"torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={self.max_norm:.3g})"

    @property
    def worth(self) -> str:
        """Whether this run needs it."""
        if self.not_finite:
            return f"at {self.not_finite} steps the norm was not finite: clipping does not mend those"
        if self.largest > HEAVY * self.max_norm:
            return "a few steps are far longer than the others: clipping is worth while"
        return "no step is far longer than the others: clipping would change little"

    def view(self) -> View:
        """The norm of each step, with the bound across."""
        limits = [(self.max_norm, f"max_norm {self.max_norm:.3g}")]
        title, status = "Where to clip the gradient", f"{self.code} · {self.worth}"
        series = {"gradient norm": list(self.norms)}
        return Curves(title=title, y_label="gradient norm", series=series, limits=limits, log=True, status=status)

    def to_frame(self) -> pandas.DataFrame:
        """One row a step: step, gradient norm, whether it lies over the bound."""
        import pandas as pd

        frame = pd.DataFrame(self.norms, columns=["step", "gradient_norm"]).astype({"step": int})
        return frame.assign(clipped=frame.gradient_norm > self.max_norm)

    def draw(self, ax: Axes) -> None:
        """The norm of each step on a logarithmic scale, and the bound."""
        ax.plot(*zip(*self.norms, strict=True), linewidth=0.8, label="gradient norm")
        ax.axhline(self.max_norm, color="tab:red", linestyle="--", label=f"max_norm {self.max_norm:.3g}")
        ax.set(xlabel="step", ylabel="gradient norm", yscale="log")
        ax.legend()

    def __str__(self) -> str:
        """The line to write, and the numbers behind it."""
        clips = f"; the run clips {self.now:.0%} of its steps already" if self.now else ""
        return (
            f"nbdebug clip_threshold: {self.code}\n"
            f"the {self.percentile:g}th percentile of {len(self.norms)} norms: {self.clipped:.1%} of the steps lie "
            f"over it; median {self.median:.3g}, largest {self.largest:.3g}{clips}\n{self.worth}"
        )


def clip_threshold(record: Record, percentile: float = PERCENTILE) -> ClipThreshold:
    """A bound for the gradient norm from a run, by the norms before its own clipping where it clips.

    Steps at which the norm is zero or not finite are left out of the percentile. Raises SetupError where too few are
    left, or for what is no percentile.
    """
    if not 0 < percentile < 100:
        raise SetupError(f"percentile is {percentile!r}; expected a number between 0 and 100. Leave it out for 95.")
    steps, norms = unclipped(record)
    kept = np.isfinite(norms) & (norms > 0)
    if kept.sum() < LEAST:
        raise SetupError(f"record has {kept.sum()} gradient norms; expected at least {LEAST}. Watch a longer run.")
    usual = norms[kept].astype(np.float64)
    bound = float(np.percentile(usual, percentile))
    scales = record.series("clip_scale")[1]
    return ClipThreshold(
        max_norm=bound,
        percentile=percentile,
        clipped=float((usual > bound).mean()),
        median=float(np.median(usual)),
        largest=float(usual.max()),
        not_finite=int((~np.isfinite(norms)).sum()),
        now=float((scales < 1).sum() / len(norms)),
        norms=tuple(zip(steps[kept].tolist(), usual.tolist(), strict=True)),
    )


def unclipped(record: Record) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Steps and norms of the gradient: before clipping at the steps that tell, else as the optimizer got it."""
    steps, norms = record.series("gradient_norm")
    when, raw = record.series("raw_gradient_norm")
    told = dict(zip(steps.tolist(), norms.tolist(), strict=True)) | dict(zip(when.tolist(), raw.tolist(), strict=True))
    every = np.array(sorted(told), np.int64)
    return every, np.array([told[step] for step in every.tolist()], np.float32)
