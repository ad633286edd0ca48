"""The finding of M306 on positions of an input that predict the target and do not influence the output."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from torch import Tensor

from nbdebug.autograd.call_recorders import SELECTION_CALLS
from nbdebug.autograd.tracing import describe_call
from nbdebug.finding import Finding, Location
from nbdebug.measurements.unread_positions import LosingCall, UnreadPositions
from nbdebug.source.location import get_related_lines

_MAX_RANGES = 4
_CONSEQUENCES = ("M307", "T601", "T606", "T607", "T608", "T609", "T610", "E709")


def unread_positions_finding(unread: UnreadPositions, name: str, forward: Location) -> Finding:
    """Report positions without influence; ``name`` is that of the input, ``forward`` the place if no call is known."""
    cause, fix = _explain(unread.lost_by)
    count, total = int(unread.is_unread.sum()), unread.is_unread.numel()
    return Finding(
        message=f"The output does not depend on {count} of the {total} values of each sample of input {name!r}: "
        f"{_describe_positions(unread.is_unread)}. From these values alone, a simple learner predicts the targets with "
        f"an {unread.metric} of {unread.unread_score:.3g} on {unread.rows:,} rows that it has not seen. From all other "
        f"values, its {unread.metric} is {unread.read_score:.3g}. The {unread.metric} of a constant prediction is "
        f"{unread.constant_score:.3g}.",
        where=unread.lost_by.where or forward,
        related=get_related_lines((unread.lost_by.line, "the effect of these values is lost here")),
        cause=cause,
        fix=fix,
        evidence={
            "input": name,
            "ignored": count,
            "values": total,
            "metric": unread.metric,
            "score of ignored values": unread.unread_score,
            "score of other values": unread.read_score,
            "score of a constant": unread.constant_score,
            "rows": unread.rows,
        },
        explains=_CONSEQUENCES,
        severity="error" if unread.is_read_useless else "warning",
    )


def _explain(lost_by: LosingCall) -> tuple[str, str]:
    """Return cause and fix."""
    if lost_by.dilations:
        dilations = ", ".join(map(str, lost_by.dilations))
        return (
            f"The receptive field ends before these positions: the dilations of the convolutions are {dilations}.",
            "dilation=2**level   # it doubles from layer to layer; add layers until the receptive field covers the "
            "input",
        )
    if not lost_by.name:
        return "No operation passes these values on to the output.", "# read these values in forward"
    call = describe_call(lost_by.name, starts_sentence=True)
    if lost_by.name in SELECTION_CALLS:
        return (
            f"{call} selects values that do not depend on these positions.",
            "# select or average the positions that decide the target, or widen the receptive field before this line",
        )
    return (
        f"{call} returns values that do not depend on these positions.",
        "# let the kernel, the stride or the size of this call cover these positions",
    )


def _describe_positions(is_unread: Tensor) -> str:
    """Return the ranges along the axis that the positions fill, or the number of each axis that they touch."""
    count = int(is_unread.sum())
    for axis in range(is_unread.dim()):
        along = is_unread.movedim(axis, 0).flatten(1).any(1) if is_unread.dim() > 1 else is_unread
        if int(along.sum()) * prod(is_unread.shape) == count * len(along):
            return f"{_describe_ranges(along.nonzero().flatten().tolist())} of axis {axis + 1} (length {len(along)})"
    first, last = (tuple(is_unread.nonzero()[end].tolist()) for end in (0, -1))
    return f"the first index is {first}, the last is {last}, and the shape is {tuple(is_unread.shape)}"


def _describe_ranges(positions: Sequence[int]) -> str:
    """Return positions as ranges, such as ``positions 0 to 9 and 30``."""
    ranges: list[list[int]] = []
    for position in positions:
        if ranges and position == ranges[-1][1] + 1:
            ranges[-1][1] = position
        else:
            ranges.append([position, position])
    if len(ranges) > _MAX_RANGES:
        return f"{len(positions)} positions from {positions[0]} to {positions[-1]}"
    texts = [str(first) if first == last else f"{first} to {last}" for first, last in ranges]
    text = f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else texts[0]
    return f"position{'s' * (len(positions) > 1)} {text}"
