"""What a follower has seen of a loop, put together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbdebug.loop.loop import Loop

if TYPE_CHECKING:
    from nbdebug.loop.follower import Follower

LEAST_STEPS = 5  # of an optimizer before what it holds can be called starved


def seen(follower: Follower, rates: Sequence[float]) -> Loop:
    """All that was seen so far; ``rates`` are the learning rates of the steps. Waits for the device."""
    follower.ledger.look_at_values()
    follower.holding.look(follower.steps)
    worst = max(follower.steppers.values(), key=lambda one: one.uncleared, default=None)
    stepped = {id(p) for one in follower.steppers.values() if one.steps >= LEAST_STEPS for p in one.parameters}
    peak = max(rates, default=0.0)
    return Loop(
        steps=sum(one.steps for one in follower.steppers.values()),
        followed=follower.followed,
        backwards=follower.backwards,
        known=worst.known if worst else 0,
        uncleared=worst.uncleared if worst else 0,
        emptied=sum(one.emptied for one in follower.steppers.values()),
        reached=follower.ends.reached,
        fresh=follower.ends.fresh,
        copies=follower.ends.copies,
        looks=follower.ledger.looks,
        pulled=follower.ledger.always_pulled,
        touched=frozenset(follower.ledger.pulled),
        changed=frozenset(follower.ledger.changed),
        starved=follower.ledger.never_given(stepped),
        operands=follower.operands,
        scheduled=follower.scheduling.count,
        metrics=tuple(follower.scheduling.metrics),
        decayed=rates[-1] / peak if peak else 1.0,
        slow=sum(rate < peak / 100 for rate in rates) / max(len(rates), 1),
        lines={**follower.lines, **follower.scheduling.lines},
        clips=follower.clipping.seen(),
        scaling=follower.scalers.seen(),
        passes=follower.modes.seen(),
        sums=follower.summing.seen(),
        held=follower.holding.worst,
        reloads=follower.reloading.seen(),
        match=follower.matching.first,
        orders=follower.drawing.seen(),
        shadows=follower.shadows.seen(backward.file if (backward := follower.lines.get("backward")) else None),
        twice=follower.doubling.seen(),
        waits=follower.waiting.seen(),
        moved={name: tuple(looks) for name, looks in follower.lost.seen.items()},
    )
