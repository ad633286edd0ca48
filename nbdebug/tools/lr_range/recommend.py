"""Which value is recommended, how sure that is, and when nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import exp, log

import numpy as np

from nbdebug.tools.lr_range.pooled import Descent, pooled
from nbdebug.tools.lr_range.result import NAMES, Quantity, Suggestion, Sweep, Verdict
from nbdebug.tools.lr_range.suggestions import LEAST

FEW = 0.1  # of the values: a sweep that ends before has seen too little
APART = 10.0  # highest over lowest of the sweeps, from where on they contradict each other
MIDDLE = 0.1, 0.9  # of the sweeps: the lowest and highest of all lie the further apart the more there are
HALF = 0.5  # of the way down
BOTTOM = 0.7  # of the way down: from here on the loss is about as low as it gets
BELOW = 1.6  # times under the bottom, where a training does well that stays at one rate
MOST = 0.9  # momentum


@dataclass(frozen=True)
class Advice:
    """The verdict of the sweeps together, and the recommended value where there is one."""

    verdict: Verdict
    headline: str
    reasons: tuple[str, ...] = ()
    recommended: Suggestion | None = None


def recommend(
    quantity: Quantity,
    sweeps: Sequence[Sweep],
    steps: int,
    blocked: bool = False,
    momentum: float = 0.9,
) -> Advice:
    """What the sweeps come to; ``steps`` is their full length, ``blocked`` that no gradient reached what is trained.

    ``momentum`` is that of the optimizer, or the first beta of Adam's kind.
    """
    name = NAMES[quantity]
    usable = [one for one in sweeps if len(one.losses) >= LEAST]
    if not usable:
        return too_short(name, sweeps)
    if all(len(one.losses) < max(LEAST, FEW * steps) and one.ended in ("diverged", "not finite") for one in usable):
        start = usable[0].values[0]
        return Advice("diverges at once", f"The loss is lost from {start:.2g} on: begin lower.")
    descent = Descent(pooled(usable))
    if not descent.is_one:
        return flat(name, usable, blocked)
    found = best(quantity, descent, usable, momentum)
    if found.value is None or found.low is None or found.high is None or found.high > APART * found.low:
        why = f"the sweeps disagree: {found}".replace("recommended: ", "")
        return Advice("unclear", f"No {name} can be told from these curves.", (why, "try seeds=5 or steps=200"))
    said = f"Take a {name} of {found.value:.2g}; the sweeps put it between {found.low:.2g} and {found.high:.2g}."
    if any(one.ended in ("stopped", "interrupted") for one in sweeps):
        return Advice("stopped", f"Stopped early. {said}", edges(descent), found)
    return Advice("clear", said, edges(descent), found)


def edges(descent: Descent) -> tuple[str, ...]:
    """What of the way down lies beyond the values that were swept."""
    values, found = descent.sweep.values, []
    if descent.down(HALF) == 0:
        found.append(f"the loss falls from the first value on, {values[0]:.2g}: begin lower to see where it begins to")
    if descent.lowest == len(values) - 1:
        found.append(f"the loss still falls at the last value, {values[-1]:.2g}: raise end to see where it stops")
    return tuple(found)


def best(quantity: Quantity, descent: Descent, sweeps: Sequence[Sweep], momentum: float) -> Suggestion:
    """The value that all sweeps come to together, and where most of them place it, a step to either side at least."""
    read = partial(rate, momentum=momentum) if quantity == "lr" else lowest
    value, each = read(descent), tuple(read(one) for one in map(Descent, sweeps) if one.depth > 0)
    step = exp(descent.place[-1] - descent.place[-2])
    ends = np.quantile(each or (value,), MIDDLE)
    low, high = min(float(ends[0]), value / step), max(float(ends[1]), value * step)
    return Suggestion("recommended", value, significant(low), significant(high), each)


def rate(descent: Descent, momentum: float) -> float:
    """The rate in the middle of the bottom, on the logarithm, less what a sweep oversteps.

    The bottom are the places around the lowest that keep seven tenths of the way down. A sweep passes each rate in a
    step, so that it goes higher than a training can that stays at one; and with a momentum what a rate does shows only
    when the sweep is at higher ones. The factor was found by training at grids of rates (benchmarks/lr_range.py).
    """
    first, last = descent.down(BOTTOM), descent.up(BOTTOM)
    bottom = (descent.place[first] + descent.place[last]) / 2
    at = min(int(np.searchsorted(descent.place, bottom)), len(descent.place) - 2)
    growth = exp(float(descent.place[at + 1] - descent.place[at]))
    return significant(exp(float(bottom)) / (BELOW * delay(momentum, growth)))


def delay(momentum: float, growth: float) -> float:
    """By how much the values grow until a gradient has had half of its effect; at most by what momentum adds up to.

    More than 0.9 counts as that: with 0.95 in Nesterov's form training was seen to need no more.
    """
    if momentum <= 0:
        return 1.0
    kept = min(momentum, MOST)
    return min(exp(log(growth) * log(0.5) / log(kept)), 1 / (1 - kept))


def lowest(descent: Descent) -> float:
    """The value at which the loss is lowest."""
    return significant(descent.sweep.values[descent.lowest])


def significant(value: float) -> float:
    """Three digits: more would say more than is known."""
    return float(f"{value:.3g}")


def too_short(name: str, sweeps: Sequence[Sweep]) -> Advice:
    """What is said where no sweep has a curve."""
    if any(one.ended in ("stopped", "interrupted") for one in sweeps) or not sweeps:
        return Advice("stopped", "Stopped before there was a curve to read.")
    start = next((one.values[0] for one in sweeps if one.values), None)
    if start is None:
        said = f"The loss is not finite on the first batch, before any step: no {name} can be told."
        return Advice("diverges at once", said, ("run the checkup: it says where the first NaN comes from",))
    return Advice("diverges at once", f"The loss is lost from {start:.2g} on: begin lower.")


def flat(name: str, sweeps: Sequence[Sweep], blocked: bool) -> Advice:
    """What is said where no sweep goes down."""
    end = max(one.values[-1] for one in sweeps)
    if blocked:
        reasons: tuple[str, ...] = ("no gradient other than zero reaches what the optimizer holds",)
    elif any(one.ended in ("diverged", "not finite") for one in sweeps):
        why = f"no {name} lowers the loss before it grows: the model may be trained already"
        reasons = (why, "or the noise of the batches hides it: try seeds=5 or steps=200")
    else:
        reasons = (f"up to {end:.2g} the loss stays within the noise of the batches", "raise end, or run the checkup")
    return Advice("flat", f"The loss does not fall at any {name}: no information.", reasons)
