"""Gradient clipping threshold from a percentile of the gradient norms of a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.records import Record
from nbdebug.result import Result
from nbdebug.views.line_chart import LineChart

if TYPE_CHECKING:
    import pandas
    from matplotlib.axes import Axes

    from nbdebug.views.page import View

_MIN_NORMS = 20
_PERCENTILE = 95.0
_WORTHWHILE_RATIO = 10.0  # ratio of the largest norm to the percentile from which clipping is worthwhile


@dataclass(frozen=True)
class ClipThreshold(Result):
    """A clipping threshold from the gradient norms of a run.

    ``max_norm`` is the percentile of the norms before any clipping; ``clipped`` is the share of steps above it.
    ``largest`` and ``median`` describe the same norms; ``clipped_by_run`` is the share of steps that the run clipped.
    """

    max_norm: float
    percentile: float
    clipped: float
    median: float
    largest: float
    not_finite: int
    clipped_by_run: float
    norms: tuple[tuple[float, float], ...]

    @property
    def code(self) -> str:
        """The line to insert between backward() and step()."""
        return f"torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm={self.max_norm:.3g})"

    @property
    def recommendation(self) -> str:
        """True if clipping is worthwhile for this run."""
        if self.not_finite:
            return f"the norm was not finite at {self.not_finite} steps, which clipping does not fix"
        if self.largest > _WORTHWHILE_RATIO * self.max_norm:
            return "a few gradient norms are far larger than the others: clipping is worthwhile"
        return "no gradient norm is far larger than the others: clipping would change little"

    def view(self) -> View:
        """Return a plot of the norm of each step with the threshold."""
        limits = [(self.max_norm, f"max_norm {self.max_norm:.3g}")]
        title, status = "Where to clip the gradient", f"{self.code} · {self.recommendation}"
        series = {"gradient norm": list(self.norms)}
        return LineChart(title=title, y_label="gradient norm", series=series, limits=limits, log=True, status=status)

    def to_frame(self) -> pandas.DataFrame:
        """Return one row per step: step, gradient norm, and whether it exceeds the threshold."""
        import pandas as pd

        frame = pd.DataFrame(self.norms, columns=["step", "gradient_norm"]).astype({"step": int})
        return frame.assign(clipped=frame.gradient_norm > self.max_norm)

    def draw(self, ax: Axes) -> None:
        """Draw the norm of each step on a logarithmic scale, with the threshold."""
        ax.plot(*zip(*self.norms, strict=True), linewidth=0.8, label="gradient norm")
        ax.axhline(self.max_norm, color="tab:red", linestyle="--", label=f"max_norm {self.max_norm:.3g}")
        ax.set(xlabel="step", ylabel="gradient norm", yscale="log")
        ax.legend()

    def to_text(self) -> str:
        """Return the line to insert, and the numbers behind it."""
        clipping_text = f"; the run already clips {self.clipped_by_run:.0%} of its steps" if self.clipped_by_run else ""
        return (
            f"nbdebug clip_threshold: {self.code}\n"
            f"the {self.percentile:g}th percentile of {len(self.norms)} gradient norms: {self.clipped:.1%} of the "
            f"steps exceed it; median {self.median:.3g}, "
            f"largest {self.largest:.3g}{clipping_text}\n{self.recommendation}"
        )


def clip_threshold(record: Record, percentile: float = _PERCENTILE) -> ClipThreshold:
    """Return a clipping threshold from the gradient norms of a run, before its own clipping if it clips.

    Norms that are zero or not finite are excluded from the percentile. Raises SetupError if too few remain, or for an
    invalid percentile.
    """
    if not 0 < percentile < 100:
        raise SetupError(f"percentile is {percentile!r}; expected a number between 0 and 100. Leave it out for 95.")
    steps, norms = _norms_before_clipping(record)
    is_usable = np.isfinite(norms) & (norms > 0)
    if is_usable.sum() < _MIN_NORMS:
        raise SetupError(
            f"record has {is_usable.sum()} gradient norms; expected at least {_MIN_NORMS}. Watch a longer run."
        )
    usable_norms = norms[is_usable].astype(np.float64)
    threshold = float(np.percentile(usable_norms, percentile))
    clip_scales = record.series("clip_scale")[1]
    return ClipThreshold(
        max_norm=threshold,
        percentile=percentile,
        clipped=float((usable_norms > threshold).mean()),
        median=float(np.median(usable_norms)),
        largest=float(usable_norms.max()),
        not_finite=int((~np.isfinite(norms)).sum()),
        clipped_by_run=float((clip_scales < 1).sum() / len(norms)),
        norms=tuple(zip(steps[is_usable].tolist(), usable_norms.tolist(), strict=True)),
    )


def _norms_before_clipping(record: Record) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Return steps and gradient norms: before clipping if recorded, else as the optimizer received them."""
    steps, norms = record.series("gradient_norm")
    raw_steps, raw_norms = record.series("raw_gradient_norm")
    norm_by_step = dict(zip(steps.tolist(), norms.tolist(), strict=True)) | dict(
        zip(raw_steps.tolist(), raw_norms.tolist(), strict=True)
    )
    all_steps = np.array(sorted(norm_by_step), np.int64)
    return all_steps, np.array([norm_by_step[step] for step in all_steps.tolist()], np.float32)
