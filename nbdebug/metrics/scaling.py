"""Whether a temperature would make confidence come true, judged on rows that it was not fitted on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.calibration import Reliability, reliability
from nbdebug.metrics.intervals import Floats
from nbdebug.metrics.temperature import loss, temperature

MOST, LEAST = 500_000, 2_000  # numbers, but so many rows: enough to fit one, and done in about a second


@dataclass(frozen=True)
class Scaling:
    """A temperature fitted on all ``rows``, and what one does to rows that it was not fitted on.

    ``loss`` is the cross-entropy ``before`` and ``after``; the reliabilities hold the calibration errors.
    """

    temperature: float
    rows: int
    loss_before: float
    loss_after: float
    before: Reliability
    after: Reliability

    @property
    def helps(self) -> bool:
        """Whether there is more to mend than chance explains, and both the loss and the error are lower with it."""
        lower = self.loss_after < self.loss_before and self.after.error < self.before.error
        return self.before.is_off and lower


def scaling(logits: NDArray[Any], target: NDArray[np.int64], most: int = MOST) -> Scaling:
    """A temperature for logits, rows × classes, of at least two rows; each half is judged with that of the other.

    Many rows are represented by some drawn with a fixed seed.
    """
    order = np.random.default_rng(0).permutation(len(target))[: max(LEAST, most // logits.shape[1])]
    logits, target = np.asarray(logits, np.float64)[order], np.asarray(target)[order]
    middle = len(target) // 2
    halves = slice(None, middle), slice(middle, None)
    fitted = [temperature(logits[one], target[one]) for one in reversed(halves)]
    scaled = np.concatenate([logits[one] / at for one, at in zip(halves, fitted, strict=True)])
    return Scaling(
        temperature(logits, target),
        len(target),
        loss(logits, target, 1.0),
        loss(scaled, target, 1.0),
        judged(logits, target),
        judged(scaled, target),
    )


def judged(logits: Floats, target: NDArray[np.int64]) -> Reliability:
    """The reliability of the likeliest class."""
    raised = np.exp(logits - logits.max(1, keepdims=True))
    return reliability((raised / raised.sum(1, keepdims=True)).max(1), logits.argmax(1) == target)
