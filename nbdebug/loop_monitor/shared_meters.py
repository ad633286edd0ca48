"""Lists that several objects share, so that a number of an evaluation is a mean of earlier values too."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from types import FrameType, FunctionType
from typing import Any

from torch import Tensor

from nbdebug.loop_monitor.loop_numbers import has_plain_attributes, loop_numbers
from nbdebug.source.assignments import find_assignment, find_assignments
from nbdebug.source.location import SourceLine
from nbdebug.source.references import frame_variables, user_frames
from nbdebug.source.shared_origins import class_line, default_line

_MAX_EVALUATIONS, _MAX_FRAMES, _MAX_ITEMS, _MAX_VALUES = 4, 4, 64, 100_000
_MIN_MATCHES = 2  # evaluations in which a number is the mean of all values; in one it may be so by chance
_ROUNDING, _MIN_DIFFERENCE = 2e-5, 1e-3  # relative


@dataclass(frozen=True)
class SharedMeter:
    """A list of several objects, and a variable that was the mean of all its values.

    ``name`` is the class and the attribute of the list. ``mean`` is that of the ``added`` values of the latest
    evaluation. ``line`` gives the objects their list.
    """

    name: str
    variable: str
    value: float
    mean: float
    count: int
    added: int
    line: SourceLine


@dataclass
class _List:
    """A list when an evaluation begins: its length, and the objects that have it as an attribute."""

    values: list[Any]
    attribute: str
    length: int
    owners: list[object] = field(default_factory=list)


class SharedMeterMonitor:
    """Compares the lists in the attributes of objects before and after the first evaluations."""

    def __init__(self) -> None:
        self.split, self.evaluations = "", 0
        self.lists: dict[int, _List] = {}
        self.matches: dict[tuple[str, str], list[SharedMeter]] = {}

    def on_batch(self, split: str, _: Any) -> None:
        """Look at the lists when the first batch of an evaluation is drawn, and when one of another loader follows."""
        previous, self.split = self.split, split
        if split == previous or self.evaluations >= _MAX_EVALUATIONS:
            return
        lists, self.lists = self.lists, {}
        if previous == "val":
            self.evaluations += 1
            self.compare([*lists.values()], sys._getframe(1))
        elif split == "val":
            self.lists = _find_lists(sys._getframe(1))

    def compare(self, lists: Sequence[_List], frame: FrameType | None) -> None:
        """Search the numbers of the loop for the mean of a list that has grown since, and that had values before."""
        grown = [item for item in lists if 0 < item.length < len(item.values) <= _MAX_VALUES]
        numbers = [*loop_numbers(frame)] if grown else []
        for item in grown:
            line = _sharing_line(item, frame)
            values = [*_numbers(item.values)] if line is not None else []
            if line is None or len(values) < len(item.values):
                continue
            whole, mean = _mean(values), _mean(values[item.length :])
            if abs(whole - mean) <= _MIN_DIFFERENCE * abs(mean) or any(_is_close(n, mean) for _, n in numbers):
                continue
            name = f"{type(item.owners[0]).__name__}.{item.attribute}"
            for (_, _, variable), number in numbers:
                if _is_close(number, whole):
                    counts = len(values), len(values) - item.length
                    meter = SharedMeter(name, variable, whole, mean, *counts, line)
                    self.matches.setdefault((name, variable), []).append(meter)

    def summary(self) -> SharedMeter | None:
        """Return the first variable that was the mean of a shared list after several evaluations."""
        return next((matches[-1] for matches in self.matches.values() if len(matches) >= _MIN_MATCHES), None)


def _find_lists(frame: FrameType) -> dict[int, _List]:
    """Return the lists in the attributes of the objects that the user's innermost functions hold, by id."""
    lists: dict[int, _List] = {}
    for owner in _objects(frame):
        for attribute, values in islice(_attributes(owner), _MAX_ITEMS):
            if type(values) is list and values:
                item = lists.setdefault(id(values), _List(values, attribute, len(values)))
                item.owners += [owner] if all(owner is not other for other in item.owners) else []
    return lists


def _objects(frame: FrameType) -> Iterator[object]:
    """Yield the objects in the variables of functions, and in their containers and attributes."""
    for user_frame in islice(user_frames(frame), _MAX_FRAMES):
        for value in islice(frame_variables(user_frame).values(), _MAX_ITEMS):
            parts = vars(value).values() if has_plain_attributes(value) else ()
            for item in (value, *islice(parts, _MAX_ITEMS)):
                items = item.values() if type(item) is dict else item if type(item) in (list, tuple) else ()
                yield from filter(has_plain_attributes, (item, *islice(items, _MAX_ITEMS)))


def _attributes(owner: object) -> Iterator[tuple[str, Any]]:
    """Yield the attributes of an object, and those of its classes."""
    kinds = [kind for kind in type(owner).__mro__ if kind is not object]
    return chain.from_iterable([vars(owner).items(), *(vars(kind).items() for kind in kinds)])


def _sharing_line(item: _List, frame: FrameType | None) -> SourceLine | None:
    """Return the line that gives several objects one list: a default, a class, or what two objects received."""
    kinds = type(item.owners[0]).__mro__
    members = [member for kind in kinds for member in vars(kind).values()]
    variables = [value for user_frame in user_frames(frame) for value in user_frame.f_globals.values()]
    functions = [member for member in (*members, *variables) if isinstance(member, FunctionType)]
    if line := next(filter(None, (default_line(function, item.values) for function in functions)), None):
        return line
    for kind in kinds:
        if any(value is item.values for value in vars(kind).values()):
            return class_line(kind, item.attribute)
    if len(item.owners) < 2:
        return None
    assigned = find_assignment(frame, lambda value: value is item.values)
    return assigned or next(iter(find_assignments(item.owners[0], item.attribute)), None)


def _numbers(values: Sequence[Any]) -> Iterator[float]:
    """Yield the values of a list that are numbers, also as tensors."""
    for value in values:
        if isinstance(value, (int, float)) or (isinstance(value, Tensor) and value.dim() == 0):
            yield float(value.detach().cpu().numpy() if isinstance(value, Tensor) else value)


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _is_close(number: float, mean: float) -> bool:
    """Check whether a number is a mean, or that in percent."""
    return any(math.isclose(number, scale * mean, rel_tol=_ROUNDING) for scale in (1, 100))
