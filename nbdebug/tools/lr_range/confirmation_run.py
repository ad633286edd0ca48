"""One confirmation run, and the comparison of two of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import CONFIDENCE_LEVEL, normal_quantile
from nbdebug.statistics.time_series import bootstrap_means

if TYPE_CHECKING:
    from nbdebug.tools.lr_range.data import SweepEnd
    from nbdebug.tools.lr_range.schedules import Schedule

_FINAL_PART_DIVISORS: dict[Schedule, int] = {"constant": 3, "one-cycle": 5}  # the last part of the steps is compared
_LOSS_TOLERANCE, _DESCENT_TOLERANCE = 0.03, 0.01  # shares of the final loss and of the descent that hardly matter
_OPENING_STEPS = 5  # the initial loss is the median of these steps


@dataclass(frozen=True)
class ConfirmationRun:
    """A training from the same weights and on the same batches as the other runs, at a constant rate or as one-cycle.

    ``rate`` is the rate, or the peak of one-cycle. ``losses`` and ``smooth`` hold one value per step, as in a sweep,
    without non-finite losses.
    """

    rate: float
    losses: tuple[float, ...] = field(repr=False)
    smooth: tuple[float, ...] = field(repr=False)
    ended: SweepEnd = "finished"
    schedule: Schedule = "constant"

    @property
    def is_complete(self) -> bool:
        """True if the run was not stopped by the user."""
        return self.ended not in ("stopped", "interrupted")

    @property
    def has_failed(self) -> bool:
        """True if the loss diverged, or ends no lower than it began."""
        return self.ended in ("diverged", "not finite") or self.final_loss >= self.initial_loss

    @property
    def initial_loss(self) -> float:
        """The median loss of the first steps."""
        return float(np.median(self.losses[:_OPENING_STEPS]))

    @property
    def tolerance(self) -> float:
        """The excess over this run's final loss that hardly matters, even where it is not noise."""
        descent = self.initial_loss - self.final_loss
        return max(0.0, min(_LOSS_TOLERANCE * abs(self.final_loss), _DESCENT_TOLERANCE * descent))

    @property
    def final_losses(self) -> NDArray[np.float64]:
        """The losses of the last third, or of the last fifth of one-cycle, where its rate is low."""
        count = max(1, len(self.losses) // _FINAL_PART_DIVISORS[self.schedule])
        return np.asarray(self.losses[-count:], np.float64)

    @property
    def final_loss(self) -> float:
        """The mean of the final losses; NaN without any."""
        return float(self.final_losses.mean()) if self.losses else float("nan")


def mean_excess(run: ConfirmationRun, reference: ConfirmationRun) -> tuple[float, float]:
    """Return the mean excess of a run's final losses over another's, and the half-width of its 95 % interval.

    Both runs use the same batches, so the batch effect cancels; a block bootstrap preserves the autocorrelation of the
    differences (Künsch 1989, doi:10.1214/aos/1176347265). The interval covers the noise of this batch order only.
    """
    differences = run.final_losses - reference.final_losses
    return float(differences.mean()), normal_quantile(CONFIDENCE_LEVEL) * float(bootstrap_means(differences).std())


def is_worse(run: ConfirmationRun, reference: ConfirmationRun) -> bool:
    """Return whether a run ends higher than another beyond noise and tolerance, or failed while the other did not."""
    if run.has_failed or reference.has_failed:
        return run.has_failed and not reference.has_failed
    difference, half_width = mean_excess(run, reference)
    return difference > max(half_width, reference.tolerance)
