"""Which batch size is suggested, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbdebug.tools.batch_size.result import Ended, NoiseScale, Size, binary

ENOUGH = 0.9  # of the highest throughput: what a doubling adds beyond is worth less than the memory it takes
MARGIN = 0.9  # of the memory: allocators break up, and lengths of samples vary
ENDS = {
    "memory": "{failed:,} does not fit into memory",
    "data": "the data set has no more samples",
    "limit": "no larger size was asked for",
    "time": "a larger size would have taken too long",
    "stopped": "you stopped it",
    "interrupted": "it was interrupted",
}


@dataclass(frozen=True)
class Verdict:
    """The size, and the sentences about it."""

    suggestion: int | None
    headline: str
    reasons: tuple[str, ...]


def judge(
    sizes: Sequence[Size], ended: Ended, failed: int | None, capacity: int | None, now: int | None, noise: NoiseScale
) -> Verdict:
    """The smallest size of nearly the highest throughput that leaves a margin of memory."""
    if not sizes:
        return Verdict(None, "No batch size was measured.", (ENDS[ended].format(failed=failed or 0),))
    usable = [one for one in sizes if capacity is None or one.memory <= MARGIN * capacity] or [min(sizes, key=_size)]
    best = max(map(_fastest, usable))
    knee = min((one for one in usable if _fastest(one) >= ENOUGH * best), key=_size)
    said = f"{knee.size:,}: {knee.throughput:,.4g} samples a second with {binary(knee.memory)} at the peak of a step."
    reasons = (growth(usable, knee), f"Largest tried: {sizes[-1].size:,}; {ENDS[ended].format(failed=failed or 0)}.")
    return Verdict(knee.size, said, (*reasons, *of_users(sizes, knee, now), *of_noise(noise, knee)))


def _size(one: Size) -> int:
    return one.size


def _fastest(one: Size) -> float:
    """Samples a second by the lower quartile of the seconds: other work on the machine only ever slows a step down."""
    return one.size / one.low


def growth(usable: Sequence[Size], knee: Size) -> str:
    """What larger batches add."""
    larger = [one for one in usable if one.size > knee.size]
    if not larger:
        return "Throughput was still growing there: it is the largest that was tried and leaves a margin of memory."
    best = max(larger, key=_fastest)
    gain = _fastest(best) / _fastest(knee) - 1
    if gain <= 0:
        return "Larger batches take more memory and give no more samples a second."
    return f"From there on throughput hardly grows: {best.size:,} gives {gain:.0%} more, with {binary(best.memory)}."


def of_users(sizes: Sequence[Size], knee: Size, now: int | None) -> tuple[str, ...]:
    """The suggestion beside the user's own size."""
    if now is None:
        return ()
    if now == knee.size:
        return ("It is the size that you train with.",)
    again = "Another batch size wants another learning rate: search it anew."
    yours = next((one for one in sizes if one.size == now), None)
    if yours is None:
        return (f"You train with {now:,}. {again}",)
    return (f"You train with {now:,}: {yours.throughput:,.4g} samples a second. {again}",)


def of_noise(noise: NoiseScale, knee: Size) -> tuple[str, ...]:
    """What the noise of the gradient says of the size, at the weights as they are now."""
    if noise.low is None:
        return (f"Gradient-noise scale {noise}.",)
    if noise.high is None and knee.size >= noise.low:
        act = "that says little of this size"
    elif noise.high is not None and knee.size > noise.high:
        word = "far " if knee.size > 4 * noise.high else ""
        act = f"it is {word}above it, so at these weights a smaller batch would need hardly more steps"
    elif knee.size < noise.low:
        act = "it is below that, so larger batches save steps nearly in proportion"
    else:
        act = "it is near that, where a larger batch trades samples for steps about evenly"
    return (f"Gradient-noise scale {noise}: {act}. The scale grows while the loss falls.",)
