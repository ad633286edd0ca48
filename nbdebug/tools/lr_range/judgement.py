"""What is said of the value that the user has set, in the light of the sweeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from nbdebug.tools.lr_range.pooled import Descent, pooled
from nbdebug.tools.lr_range.result import LrRange, Suggestion, Sweep
from nbdebug.tools.lr_range.suggestions import LEAST, lost

BELOW = 10.0  # times under the interval that is recommended
UNMOVED = 0.1  # of the way down: less than this, and the loss has hardly begun to fall


@dataclass(frozen=True)
class Judged:
    """Whether a value is "too high", "too low" or "fine", and at which value the loss is lost; "" where not known."""

    word: Literal["too high", "too low", "fine", ""]
    lost: float | None = None
    way: float | None = None

    def sentence(self, current: float, recommended: Suggestion | None) -> str:
        """The judgement in words."""
        if self.word == "too high":
            return f"{current:.2g} is too high: the loss is lost from {self.lost:.2g} on"
        if self.word == "too low":
            return f"{current:.2g} is too low: there the loss has made {self.way:.0%} of its way down"
        if self.word == "" or recommended is None or recommended.low is None or recommended.high is None:
            return ""
        if recommended.low <= current <= recommended.high:
            return f"{current:.2g} is fine"
        side = "low" if current < recommended.low else "high"
        return f"{current:.2g} is fine, on the {side} side of the recommended {recommended.value:.2g}"


def judge(current: float, sweeps: Sequence[Sweep], low: float | None) -> Judged:
    """Too high where most sweeps have lost the loss, too low far under ``low`` where the loss has hardly moved."""
    ends = [found for one in sweeps if len(one.losses) >= LEAST and (found := lost(one)) is not None]
    end = median(ends) if ends and 2 * len(ends) > len(sweeps) else None
    if end is not None and current >= end:
        return Judged("too high", end)
    if low is None:
        return Judged("", end)
    way = way_down(Descent(pooled([one for one in sweeps if len(one.losses) >= LEAST])), current)
    if current * BELOW < low and way < UNMOVED:
        return Judged("too low", end, way)
    return Judged("fine", end, way)


def judged(result: LrRange) -> Judged:
    """The judgement of a result; of a flat one there is none."""
    if result.current is None or result.quantity != "lr" or result.verdict == "flat":
        return Judged("")
    return judge(result.current, result.sweeps, result.recommended.low if result.recommended is not None else None)


def sentence(result: LrRange) -> str:
    """The judgement of a result in words; empty where there is none."""
    if result.current is None or not (found := judged(result)).word:
        return ""
    return found.sentence(result.current, result.recommended)


def way_down(descent: Descent, value: float) -> float:
    """The share of the way down that a curve has made for good at a value."""
    values = np.asarray(descent.sweep.values)
    ahead = descent.loss[int((values < value).sum()) : descent.lowest + 1]
    left = float(ahead.max() - descent.loss.min()) / descent.depth if len(ahead) and descent.depth > 0 else 0.0
    return min(max(0.0, 1 - left), 1.0)
