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


CUT_SHORT = ("time", "stopped", "interrupted")
MORE = "Give it longer, such as seconds=120, or another start."


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
    said = f"Take {knee.size:,}: {knee.pace} samples a second with {binary(knee.memory)} at the peak of a step."
    tried = f"Largest tried: {sizes[-1].size:,}; {ENDS[ended].format(failed=failed or 0)}."
    if ended in CUT_SHORT and knee is sizes[-1]:
        return Verdict(None, "No size can be suggested: larger ones may give more samples a second.", (tried, MORE))
    return Verdict(knee.size, said, (growth(usable, knee), tried, *of_users(sizes, knee, now), *of_noise(noise, knee)))


def _size(one: Size) -> int:
    return one.size


def _fastest(one: Size) -> float:
    """Samples a second by the lower quartile of the seconds: other work on the machine only ever slows a step down."""
    return one.size / one.low


def growth(usable: Sequence[Size], knee: Size) -> str:
    """What larger batches add."""
    larger = [one for one in usable if one.size > knee.size]
    if not larger:
        return "Of the sizes that leave a margin of memory it is the largest that was tried, and the fastest."
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
    return (f"You train with {now:,}: {yours.pace} samples a second. {again}",)


def of_noise(noise: NoiseScale, knee: Size) -> tuple[str, ...]:
    """What the noise of the gradient says of the size, at the weights as they are now.

    A batch of B needs ``1 + scale / B`` times the fewest steps (McCandlish et al. 2018, arXiv:1812.06162, section 2.3).
    """
    if noise.low is None:
        return (f"Gradient-noise scale {noise}.",)
    least, scale = ("", noise.value) if noise.value is not None else ("at least ", noise.low)
    fewer = 1 - (1 + scale / (2 * knee.size)) / (1 + scale / knee.size)
    more = (1 + 2 * scale / knee.size) / (1 + scale / knee.size) - 1
    act = f"twice the batch would need {least}{fewer:.0%} fewer steps, half of it {least}{more:.0%} more"
    return (f"Gradient-noise scale {noise}: {act}. The scale grows while the loss falls.",)
