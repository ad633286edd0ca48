"""A model that is trained with another network which judges its outputs, as a generator with its critic."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nbdebug.records import Record

_MIN_MOMENTS, _MIN_SIGMA = 2, 10.0  # a generator that is ahead of its critic for a while reaches 9
_MIN_OTHER_LOSSES, _END_SHARE = 10, 0.2


@dataclass(frozen=True)
class CommonAim:
    """Losses of outputs and of real samples at the last of some ``moments``, and the lowest difference of all.

    ``other_first`` and ``other_last`` are median losses of the other network at the start and at the end.
    """

    step: int
    generated: float
    real: float
    sigma: float
    moments: int
    other_first: float
    other_last: float


def find_common_aim(record: Record) -> CommonAim | None:
    """Return how much lower the loss is for outputs than for real samples if their judge tells them apart.

    A judge that tells them apart rates real samples as real. A model that is trained against it then prefers their
    score to that of its outputs, unless both networks have the same aim. If the judge fails, as one that learns too
    slowly does, its ratings show nothing.
    """
    steps, sigmas = record.series("judged_sigma")
    is_trained = steps > 0
    steps, sigmas = steps[is_trained], sigmas[is_trained]
    losses = record.series("other_loss")[1]
    if len(sigmas) < _MIN_MOMENTS or sigmas.min() < _MIN_SIGMA or len(losses) < _MIN_OTHER_LOSSES:
        return None
    share = max(2, int(_END_SHARE * len(losses)))
    first, last = float(np.median(losses[:2])), float(np.median(losses[-share:]))
    if not last < first:
        return None
    generated, real = (float(record.series(name)[1][-1]) for name in ("generated_loss", "real_loss"))
    return CommonAim(int(steps[-1]), generated, real, float(sigmas.min()), len(sigmas), first, last)
