"""Which value is recommended, how sure that is, and when nothing is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nbdebug.curves.noise import spread
from nbdebug.tools.lr_range.result import NAMES, Quantity, Suggestion, Sweep, Verdict
from nbdebug.tools.lr_range.suggestions import LEAST, suggestion

FALL = 3.0  # standard deviations of the smoothed curve that count as a way down
FEW = 0.1  # of the values: a sweep that ends before has seen too little
APART = 10.0  # highest over lowest of the sweeps, from where on they contradict each other


@dataclass(frozen=True)
class Advice:
    """The verdict of the sweeps together, and the recommended value where there is one."""

    verdict: Verdict
    headline: str
    reasons: tuple[str, ...] = ()
    recommended: Suggestion | None = None


def recommend(
    quantity: Quantity, sweeps: Sequence[Sweep], suggestions: Sequence[Suggestion], steps: int, blocked: bool = False
) -> Advice:
    """What the sweeps come to; ``steps`` is their full length, ``blocked`` that no gradient reached what is trained."""
    name = NAMES[quantity]
    usable = [one for one in sweeps if len(one.losses) >= LEAST]
    if not usable:
        return too_short(name, sweeps)
    if all(len(one.losses) < max(LEAST, FEW * steps) and one.ended in ("diverged", "not finite") for one in usable):
        start = usable[0].values[0]
        return Advice("diverges at once", f"The loss is lost from {start:.2g} on: begin lower.")
    if sum(map(falls, usable)) * 2 <= len(usable):
        return flat(name, usable, blocked)
    found = best(quantity, sweeps, suggestions)
    if found.value is None or found.low is None or found.high is None:
        return Advice("unclear", f"No {name} can be told from these curves.", ("most sweeps show no descent",))
    if found.high > APART * found.low:
        why = f"the sweeps disagree: {found.low:.2g} to {found.high:.2g}"
        return Advice("unclear", f"No {name} can be told from these curves.", (why, "try seeds=5 or steps=200"))
    said = f"Take a {name} of {found.value:.2g}; from {found.low:.2g} to {found.high:.2g} is about as good."
    if any(one.ended in ("stopped", "interrupted") for one in sweeps):
        return Advice("stopped", f"Stopped early. {said}", (), found)
    return Advice("clear", said, (), found)


def too_short(name: str, sweeps: Sequence[Sweep]) -> Advice:
    """What is said where no sweep has a curve."""
    if any(one.ended in ("stopped", "interrupted") for one in sweeps) or not sweeps:
        return Advice("stopped", "Stopped before there was a curve to read.")
    start = next((one.values[0] for one in sweeps if one.values), None)
    if start is None:
        said = f"The loss is not finite on the first batch, before any step: no {name} can be told."
        return Advice("diverges at once", said, ("run the checkup: it says where the first NaN comes from",))
    return Advice("diverges at once", f"The loss is lost from {start:.2g} on: begin lower.")


def falls(sweep: Sweep) -> bool:
    """Whether the smoothed curve goes down by more than its noise allows."""
    loss = np.asarray(sweep.smooth)
    drop = float(np.median(sweep.losses[:LEAST])) - float(loss.min())
    return drop > max(FALL * spread(np.asarray(sweep.losses)) / 2, 1e-6 * abs(float(loss[0])))


def flat(name: str, sweeps: Sequence[Sweep], blocked: bool) -> Advice:
    """What is said where no sweep goes down."""
    end = max(one.values[-1] for one in sweeps)
    if blocked:
        reasons: tuple[str, ...] = ("no gradient other than zero reaches what the optimizer holds",)
    elif any(one.ended in ("diverged", "not finite") for one in sweeps):
        reasons = (f"no {name} lowers the loss before it grows: the model may be trained already",)
    else:
        reasons = (f"up to {end:.2g} the loss stays within the noise of the batches", "raise end, or run the checkup")
    return Advice("flat", f"The loss does not fall at any {name}: no information.", reasons)


def best(quantity: Quantity, sweeps: Sequence[Sweep], suggestions: Sequence[Suggestion]) -> Suggestion:
    """The steepest descent of each sweep, at most a tenth of its lowest place; for what is no rate the lowest place."""
    by_name = {one.name: one.each for one in suggestions}
    if quantity != "lr":
        return suggestion("recommended", by_name["lowest"])
    both = zip(by_name["steepest"], by_name["minimum"], strict=True)
    return suggestion("recommended", [min((one for one in two if one is not None), default=None) for two in both])
