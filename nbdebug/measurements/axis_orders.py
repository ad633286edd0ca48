"""The order of axes by which a reshape could have moved them: axes that are split, then permuted, then merged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from nbdebug.measurements.axes import Shape

_MAX_AXES = 6  # after splitting: 720 permutations


@dataclass(frozen=True)
class _AxisOrder:
    """The axes of a tensor in another order.

    ``split`` is an axis and the lengths of the two parts that it is divided into, if any is divided.
    ``order`` is the permutation after that. ``merges`` is whether neighboring axes are then merged.
    """

    split: tuple[int, int, int] | None
    order: tuple[int, ...]
    merges: bool

    def describe(self) -> str:
        """Return the calls of torch for it, with ``{}`` for the tensor and without the merge."""
        split = ""
        if self.split:
            axis, first, second = self.split  # the size of a batch may change
            split = f".unflatten({axis}, {f'({first}, -1)' if axis else f'(-1, {second})'})"
        moved = [axis for axis, source in enumerate(self.order) if axis != source]
        if len(moved) == 2:
            return f"{{}}{split}.transpose({moved[0]}, {moved[1]})"
        return f"{{}}{split}.permute({', '.join(map(str, self.order))})"


def find_axis_order(before: Shape, after: Shape) -> _AxisOrder | None:
    """Return the order of axes with the fewest exchanges that leads from one shape to another.

    Axes of equal length keep their order. Return None if no exchange of axes does, if none is needed, or if several
    need equally few exchanges.
    """
    for is_split in (False, True):
        candidates = [
            (_count_exchanges(order), _AxisOrder(split, order, len(axes) != len(after)))
            for split, axes in (_divided(before, after) if is_split else [(None, before)])
            for order in permutations(range(len(axes)))
            if len(axes) <= _MAX_AXES and _merges_to([axes[source] for source in order], after)
        ]
        if candidates:
            fewest = min(count for count, _ in candidates)
            best = [order for count, order in candidates if count == fewest]
            return best[0] if fewest and len(best) == 1 else None
    return None


def _divided(before: Shape, after: Shape) -> Iterator[tuple[tuple[int, int, int], Shape]]:
    """Yield the shape with one axis divided into two, of which one length occurs in the other shape."""
    if len(after) < len(before):
        return
    for axis, length in enumerate(before):
        parts = {part for part in after if part < length and length % part == 0}
        for first in sorted(parts | {length // part for part in parts}):
            if first > 1 and length // first > 1:
                yield (axis, first, length // first), (*before[:axis], first, length // first, *before[axis + 1 :])


def _merges_to(axes: Sequence[int], after: Shape) -> bool:
    """Check whether the products of neighboring axes are the lengths of a shape."""
    position = 0
    for length in after:
        product = 1
        while product < length and position < len(axes):
            product *= axes[position]
            position += 1
        if product != length:
            return False
    return position == len(axes)


def _count_exchanges(order: Sequence[int]) -> int:
    return sum(first > second for i, first in enumerate(order) for second in order[i + 1 :])
