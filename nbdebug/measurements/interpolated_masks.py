"""Masks of classes whose regions are separated by thin lines of the class numbers between theirs."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import NotChecked
from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.dense_labels import position_classes
from nbdebug.measurements.registry import measurement
from nbdebug.setup import Setup
from nbdebug.setup.losses import ignore_index

_MAX_MASKS, _MAX_VALUES, _MIN_SIDE = 64, 4_000_000, 12
_MAX_CLASS = 63  # each class takes a pass over the masks
_REGION_PIXELS, _LINE_PIXELS = 4, 2  # the least of a region along an axis, and the most of a line between two
_MIN_REGION_SHARE = 0.1  # of the pixels of a class, in squares of it: a class that marks borders has none


@dataclass(frozen=True)
class ClassTransitions:
    """The transitions between two regions along the rows and columns of some masks of a split.

    ``neighbors`` is the number of those between classes that differ by one, ``distant`` by more. Of the latter,
    ``graded`` pass in order through thin lines of classes between both, which elsewhere form regions. ``example`` are
    the most frequent of these sequences of classes. ``inner`` is the number of regions of such classes between two
    others, and ``stairs`` that of those between the class before and the class after their own, as in maps of levels.
    """

    split: str
    masks: int
    neighbors: int
    distant: int
    graded: int
    example: tuple[int, ...]
    inner: int
    stairs: int


@measurement
def class_transitions(setup: Setup, tables: dict[str, SplitTable]) -> list[ClassTransitions]:
    """Transitions between regions of classes in the masks of each split, and those through thin lines of others."""
    measured = [_measure(table, ignore_index(setup.loss_fn)) for table in tables.values()]
    if not any(measured):
        raise NotChecked("the targets are not masks of classes")
    return [transitions for transitions in measured if transitions]


def _measure(table: SplitTable, ignored: int) -> ClassTransitions | None:
    """Return the transitions in the masks of a split; None if its targets are no masks of three or more classes."""
    targets = table.targets
    if len(targets) != 1 or targets[0].is_floating_point() or targets[0].dim() < 3 or not len(table):
        return None
    count = max(min(_MAX_MASKS, _MAX_VALUES // max(targets[0][0].numel(), 1)), 1)
    drawn = torch.arange(len(table))[:: -(-len(table) // count)]
    classes = position_classes((targets[0][drawn],), ignored)
    if (
        classes is None
        or classes.dim() < 3
        or min(classes.shape[-2:]) < _MIN_SIDE
        or not 2 <= int(classes.max()) <= _MAX_CLASS
    ):
        return None
    masks = classes.reshape(-1, *classes.shape[-2:])
    regions = _region_classes(masks)
    lines = [_Runs.of(part, regions) for part in (masks, masks.transpose(1, 2))]
    sequences = sum((item.graded_sequences() for item in lines), Counter[tuple[int, ...]]())
    neighbors, distant, inner, stairs = (
        sum(numbers) for numbers in zip(*(item.counts() for item in lines), strict=True)
    )
    example = sequences.most_common(1)[0][0] if sequences else ()
    return ClassTransitions(table.split, len(drawn), neighbors, distant, sequences.total(), example, inner, stairs)


def _region_classes(masks: Tensor) -> NDArray[np.int64]:
    """Return the classes of which a part of the pixels lies in squares of that class."""
    regions = []
    for number in masks[masks >= 0].unique().tolist():  # type: ignore[no-untyped-call]
        is_class = masks == number
        if int(_in_squares(is_class).sum()) >= _MIN_REGION_SHARE * int(is_class.sum()):
            regions.append(number)
    return np.array(regions, dtype=np.int64)


def _in_squares(is_class: Tensor) -> Tensor:
    """Return which pixels of a class lie in a square of it; logical operations are much faster than pooling."""
    corners = is_class
    for axis in (1, 2):
        count = corners.shape[axis] - _REGION_PIXELS + 1
        corners = reduce(torch.logical_and, (corners.narrow(axis, start, count) for start in range(_REGION_PIXELS)))
    covered = torch.zeros_like(is_class)
    for row, column in product(range(_REGION_PIXELS), repeat=2):
        covered[:, row : row + corners.shape[1], column : column + corners.shape[2]] |= corners
    return covered


@dataclass(frozen=True)
class _Runs:
    """The runs of equal classes along the rows of masks, and those at both ends of each transition."""

    classes: NDArray[np.int64]
    first: NDArray[np.int64]
    last: NDArray[np.int64]
    is_graded: NDArray[np.bool_]

    @classmethod
    def of(cls, masks: Tensor, regions: NDArray[np.int64]) -> _Runs:
        """Return the runs of masks; only classes of ``regions`` may form the lines of a transition."""
        rows = masks.reshape(-1, masks.shape[-1]).numpy()
        starts = np.ones(rows.shape, dtype=bool)
        starts[:, 1:] = rows[:, 1:] != rows[:, :-1]
        positions = np.flatnonzero(starts)
        classes, lengths = rows.ravel()[positions], np.diff(positions, append=rows.size)
        row_numbers = positions // rows.shape[1]
        wide = np.flatnonzero((lengths >= _REGION_PIXELS) & (classes >= 0))
        first, last = wide[:-1], wide[1:]
        is_transition = (row_numbers[first] == row_numbers[last]) & (classes[first] != classes[last])
        first, last = first[is_transition], last[is_transition]
        is_line = (lengths <= _LINE_PIXELS) & np.isin(classes, regions)
        others = np.concatenate([[0], np.cumsum(~is_line)])
        rises = np.concatenate([[0], np.cumsum(np.sign(np.diff(classes)))])
        is_monotone = np.abs(rises[last] - rises[first]) == last - first
        is_thin = others[last] == others[first + 1]
        return cls(classes, first, last, is_monotone & is_thin & (last - first > 1))

    def counts(self) -> tuple[int, int, int, int]:
        """Return the transitions between neighboring classes and between others, the inner regions and the stairs."""
        steps = np.abs(self.classes[self.last] - self.classes[self.first])
        middle, ends, starts = np.intersect1d(self.last, self.first, return_indices=True)
        own = self.classes[middle]
        before, after = self.classes[self.first[ends]] - own, self.classes[self.last[starts]] - own
        is_inner = (own > 0) & (own < self.classes.max())
        is_stair = before * after == -1  # one below and one above
        return int((steps == 1).sum()), int((steps > 1).sum()), int(is_inner.sum()), int((is_inner & is_stair).sum())

    def graded_sequences(self) -> Counter[tuple[int, ...]]:
        """Count the sequences of classes from one region to another, from the lower one on."""
        pairs = zip(self.first[self.is_graded].tolist(), self.last[self.is_graded].tolist(), strict=True)
        return Counter(tuple(sorted(self.classes[first : last + 1].tolist())) for first, last in pairs)
