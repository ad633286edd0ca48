"""How gradients are clipped: in which order, on what, and how often it bites."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.loop.few import Few
from nbdebug.loop.interval import Interval
from nbdebug.probes.clipping import Clip


@dataclass(frozen=True)
class Clips:
    """The calls that clip gradients of the watched optimizers, counted.

    ``late`` ones had no backward pass between them and the step before, ``scaled`` ones found gradients that a
    GradScaler had scaled and not yet unscaled, ``empty`` ones were given no parameter at all. ``norms`` and ``limits``
    are those of evenly spread calls that clip a norm.
    """

    calls: int = 0
    late: int = 0
    scaled: int = 0
    empty: int = 0
    norms: tuple[float, ...] = ()
    limits: tuple[float, ...] = ()


class Clipping:
    """Counts the calls."""

    def __init__(self) -> None:
        self.calls = self.late = self.scaled = self.empty = 0
        self.norms: Few[tuple[Tensor, float]] = Few()

    def heard(self, clip: Clip, interval: Interval | None) -> None:
        """A call, and what had happened since the step before; None where no watched optimizer holds what it clips."""
        self.empty += not clip.parameters
        if interval is None:
            return
        self.calls += 1
        self.late += not interval.backward
        self.scaled += interval.scaled > 0 and not interval.unscaled
        interval.clip = clip
        if clip.norm is not None and interval.backward:
            self.norms.add((clip.norm, clip.limit))

    def seen(self) -> Clips:
        """All that was counted; waits for the device."""
        norms = fetched([norm for norm, _ in self.norms.kept])
        limits = tuple(limit for _, limit in self.norms.kept)
        return Clips(self.calls, self.late, self.scaled, self.empty, norms, limits)


def fetched(values: Sequence[Tensor]) -> tuple[float, ...]:
    """Numbers that lie on a device, brought at once."""
    return tuple(torch.stack([one.detach().float().to(values[0].device) for one in values]).tolist()) if values else ()
