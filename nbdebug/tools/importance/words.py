"""Importance in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nbdebug.tools.importance.scoring import score_of
from nbdebug.views.plain import some

if TYPE_CHECKING:
    from nbdebug.tools.importance.features import Feature
    from nbdebug.tools.importance.result import Importance, Together
    from nbdebug.tools.importance.scoring import Scorer


def headline(found: Importance) -> str:
    """The first feature by both measures, and how many are told from chance."""
    first = int(found.order[0])
    parts = []
    if found.attributions is not None and np.isfinite(found.share[first]):
        parts.append(f"{found.share[first]:.0%} of all attribution goes to {found.names[first]}")
    known = np.isfinite(found.drop)
    if known.any() and found.score is not None:
        most = int(np.nanargmax(found.drop))
        who = "it" if parts and most == first else found.names[most]
        way = "rises" if found.metric == "loss" else "falls"
        parts.append(
            f"with {who} permuted, {found.metric} {number(found.score.value)} {way} by {number(found.drop[most])}"
        )
        parts.append(f"{int(found.told.sum())} of {int(known.sum())} features are needed beyond chance")
    return "; ".join(parts) or "nothing could be measured"


def text(found: Importance, most: int) -> str:
    """The headline, a line a feature, and the notes."""
    lines = [f"nbdebug importance: {found.headline}", *table(found, most)]
    left = len(found.features) - most
    if left > 0:
        lines.append(f"  … {left} more in .to_frame()")
    lines += [f"  note: {one}" for one in found.notes]
    by = f" by {found.method}, {found.background} background samples" if found.method else ""
    return "\n".join([*lines, f"  {len(found)} samples{by}; {found.seconds:.1f} s; nothing was changed"])


def table(found: Importance, most: int) -> list[str]:
    """The first features, with intervals of 95 %."""
    order = found.order[:most].tolist()
    width = min(max((len(found.names[j]) for j in order), default=0), 32)
    way = "rise" if found.metric == "loss" else "fall"
    size = f"{found.words} ({found.space or 'none'})"
    lines = [f"  {'':{width}}  {size:28} {way} of {found.metric or 'a metric'}"]
    for j in order:
        given, lost = found.size, found.lost
        one = interval(given.value[j], given.low[j], given.high[j])
        two = interval(lost.value[j], lost.low[j], lost.high[j])
        lines.append(f"  {found.names[j][:width]:{width}}  {one:28} {two}{' *' if found.told[j] else ''}")
    return [*lines, "  * needed beyond chance"] if found.told[order].any() else lines


def interval(value: float, low: float, high: float) -> str:
    """A number with its interval."""
    if not np.isfinite(value):
        return "–"
    return f"{number(value)} ({number(low)} to {number(high)})" if np.isfinite(low) else number(value)


def number(value: float) -> str:
    """A number in three digits."""
    return f"{value:.3g}" if abs(value) >= 1e-12 else "0"


def hints(scorer: Scorer | None, size: int) -> list[str]:
    """What makes the numbers say less than they seem to."""
    if size == 1:
        return ["one sample has no interval"]
    if scorer is not None and scorer.name == "accuracy" and scorer.chance == 1:
        return ["all samples are of one class: accuracy says nothing of what tells classes apart"]
    if scorer is not None and scorer.name == "R²" and not np.isfinite(score_of(scorer).low):
        return ["a few samples make up most of the target's spread: R² has no interval; take more, or metric='loss'"]
    return []


def warned(one: Together, features: Sequence[Feature]) -> str:
    """What is said of features that stand for each other."""
    names = some([features[j].name for j in one.features])
    return (
        f"{names} go together (rank correlation 0.9 or more): permuting one leaves the other to tell the same, and "
        f"makes pairs of values that do not occur; permuted together they cost {one.drop}"
    )
