"""How gradients are clipped: in which order, on what, and how often it bites."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from nbdebug.loop.few import Few
from nbdebug.loop.interval import Stepper
from nbdebug.loop.pulls import fetched
from nbdebug.probes.clipping import Clip

MOST_MOMENTUM = 0.999


@dataclass(frozen=True)
class Clips:
    """The calls that clip gradients of the watched optimizers, counted.

    ``late`` ones had no backward pass between them and the step before; of the ``followed`` ones, whose backward pass
    was looked at, ``scaled`` found gradients that a GradScaler had scaled and not yet unscaled; ``empty`` ones were
    given no parameter at all. ``norms`` and ``limits`` are those of evenly spread calls that clip a norm. ``reach`` is
    the share of the weights that a step of plain descent moves at the limit (None for other optimizers), ``dust`` the
    limit for one value of a gradient over the epsilon that an adaptive optimizer adds (None for others).
    """

    calls: int = 0
    late: int = 0
    followed: int = 0
    scaled: int = 0
    empty: int = 0
    norms: tuple[float, ...] = ()
    limits: tuple[float, ...] = ()
    reach: float | None = None
    dust: float | None = None


class Clipping:
    """Counts the calls."""

    def __init__(self) -> None:
        self.calls = self.late = self.followed = self.scaled = self.empty = 0
        self.norms: Few[tuple[Tensor, float]] = Few()
        self.stepper: Stepper | None = None

    def heard(self, clip: Clip, stepper: Stepper | None) -> None:
        """A call, and the optimizer that holds what it clips; None where no watched one does."""
        self.empty += not clip.parameters
        if stepper is None:
            return
        self.calls += 1
        self.stepper, interval = stepper, stepper.interval
        self.late += not interval.backward
        self.followed += interval.passes > 0
        self.scaled += interval.scaled > 0 and not interval.unscaled
        interval.clip = clip
        if clip.norm is not None and interval.backward:
            self.norms.add((clip.norm, clip.limit))

    def seen(self) -> Clips:
        """All that was counted; waits for the device."""
        norms = fetched([norm for norm, _ in self.norms.kept])
        limits = tuple(limit for _, limit in self.norms.kept)
        reach, dust = effect(self.stepper, max(limits)) if self.stepper and limits else (None, None)
        return Clips(self.calls, self.late, self.followed, self.scaled, self.empty, norms, limits, reach, dust)


def effect(stepper: Stepper, limit: float) -> tuple[float | None, float | None]:
    """What a gradient at the limit does: its reach under plain descent, its size over the epsilon of an adaptive one.

    Momentum multiplies a constant gradient by 1 / (1 - momentum).
    """
    group, weights = stepper.optimizer.param_groups[0], [p.detach() for p in stepper.parameters if p.numel()]
    if isinstance(stepper.optimizer, torch.optim.SGD):
        size = sum(norm * norm for norm in fetched(torch._foreach_norm(weights))) ** 0.5
        rate = max(float(group["lr"]), float(group.get("initial_lr", 0.0)))
        momentum = min(float(group["momentum"]), MOST_MOMENTUM)
        return rate * limit / (1 - momentum) / max(size, 1e-12), None
    if "betas" in group and group.get("eps"):
        values = sum(one.numel() for one in weights)
        return None, limit / values**0.5 / float(group["eps"])
    return None, None
