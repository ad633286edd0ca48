"""Judge whether the current value is too high or too low."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

import numpy as np

from nbdebug.tools.lr_range.data import Suggestion, Sweep
from nbdebug.tools.lr_range.result import LrRange
from nbdebug.tools.lr_range.suggestions import MIN_POINTS, PooledCurve, divergence_start, pool_sweeps

_TOO_LOW_RATIO = 10.0  # a rate this many times below the recommended interval may be too low
_MIN_PROGRESS = 0.1  # share of the descent below which the loss has hardly begun to fall
_MAX_RISE = 0.5  # share of the descent that may be lost again at a rate that is called fine


@dataclass(frozen=True)
class _RateJudgement:
    """Verdict on a value, "too high", "too low" or "fine" ("" if unknown), and the value at which the loss diverges.

    ``progress`` and ``rise`` are the shares of the descent that the loss has made, and lost again, at the value.
    """

    verdict: Literal["too high", "too low", "fine", ""]
    divergence_value: float | None = None
    progress: float | None = None
    rise: float = 0.0

    def sentence(self, current: float, recommended: Suggestion | None) -> str:
        """Return the judgement as text."""
        if self.verdict == "too high":
            return f"{current:.2g} is too high: the loss diverges from {self.divergence_value:.2g} on"
        if self.verdict == "too low":
            return f"{current:.2g} is too low: at this value the loss reached {self.progress:.0%} of its total decrease"
        if self.verdict == "" or recommended is None or recommended.low is None or recommended.high is None:
            return ""
        if recommended.low <= current <= recommended.high:
            return f"{current:.2g} is fine"
        if self.rise > _MAX_RISE:
            divergence = f", and it diverges from {self.divergence_value:.2g} on" if self.divergence_value else ""
            return (
                f"{current:.2g} is above the recommended {recommended.value:.2g}: at this value the loss had risen "
                f"again by {self.rise:.0%} of its total decrease{divergence}"
            )
        side = "low" if current < recommended.low else "high"
        return f"{current:.2g} is fine, on the {side} side of the recommended {recommended.value:.2g}"


def judge_rate(current: float, sweeps: Sequence[Sweep], interval_low: float | None) -> _RateJudgement:
    """Too high if most sweeps have diverged; too low if far below ``interval_low`` with hardly any descent."""
    divergence_values = [
        diverged_at
        for sweep in sweeps
        if len(sweep.losses) >= MIN_POINTS and (diverged_at := divergence_start(sweep)) is not None
    ]
    divergence_value = (
        median(divergence_values) if divergence_values and 2 * len(divergence_values) > len(sweeps) else None
    )
    if divergence_value is not None and current >= divergence_value:
        return _RateJudgement("too high", divergence_value)
    if interval_low is None:
        return _RateJudgement("", divergence_value)
    curve = PooledCurve(pool_sweeps([sweep for sweep in sweeps if len(sweep.losses) >= MIN_POINTS]))
    progress = _descent_progress(curve, current)
    if current * _TOO_LOW_RATIO < interval_low and progress < _MIN_PROGRESS:
        return _RateJudgement("too low", divergence_value, progress)
    return _RateJudgement("fine", divergence_value, progress, _rise_after_lowest(curve, current))


def judge_result(result: LrRange) -> _RateJudgement:
    """Judge the present value of a result; a flat result gives no judgement."""
    if result.current is None or result.quantity != "lr" or result.verdict == "flat":
        return _RateJudgement("")
    return judge_rate(result.current, result.sweeps, result.recommended.low if result.recommended is not None else None)


def judgement_text(result: LrRange) -> str:
    """Return the judgement of a result as text, or an empty string."""
    if result.current is None or not (judgement := judge_result(result)).verdict:
        return ""
    return judgement.sentence(result.current, result.recommended)


def _descent_progress(curve: PooledCurve, value: float) -> float:
    """Return the share of the descent that a curve has permanently made at a value."""
    values = np.asarray(curve.sweep.values)
    remaining_losses = curve.loss[int((values < value).sum()) : curve.lowest_index + 1]
    remaining_share = (
        float(remaining_losses.max() - curve.loss.min()) / curve.depth
        if len(remaining_losses) and curve.depth > 0
        else 0.0
    )
    return min(max(0.0, 1 - remaining_share), 1.0)


def _rise_after_lowest(curve: PooledCurve, value: float) -> float:
    """Return the share of the descent that a curve has lost again at a value above that of its lowest loss."""
    index = int((np.asarray(curve.sweep.values) <= value).sum()) - 1
    if index <= curve.lowest_index or curve.depth <= 0:
        return 0.0
    return float(curve.loss[index] - curve.loss.min()) / curve.depth
