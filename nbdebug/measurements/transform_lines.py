"""The lines of the user's code that flip or rotate an image or its target while a sample is read."""

from __future__ import annotations

import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from nbdebug.source.interpreter_events import trace_lines
from nbdebug.source.location import SourceLine, is_debugger_code, is_user_code

_Part = Literal["image", "target"]
_CLEAR_RATIO = 0.5  # the error of the best transform over that of the next
_MIN_SIDE, _MAX_VALUES, _MAX_ARRAYS = 4, 1_000_000, 400
_MAX_DEPTH, _MAX_ELEMENTS, _MAX_CHANNELS = 2, 8, 4


@dataclass(frozen=True)
class _OrientationChange:
    """A new orientation of a part, and the running lines of the functions around it, the innermost first."""

    part: _Part
    change: tuple[int, int]
    stack: tuple[tuple[FrameType, SourceLine], ...]


@dataclass
class _LineChanges:
    """What each line changes in each read."""

    reads: int = 0
    by_line: dict[tuple[SourceLine, _Part], dict[int, list[tuple[int, int]]]] = field(default_factory=dict)

    def add(self, changes: list[tuple[SourceLine, _Part, tuple[int, int]]]) -> None:
        for line, part, change in changes:
            self.by_line.setdefault((line, part), {}).setdefault(self.reads, []).append(change)
        self.reads += 1

    def of_one_part(self) -> list[tuple[SourceLine, _Part, int]]:
        """Return the lines that change one part alone, each with the number of reads in which it does.

        A line that does the same in every read is no random transform. One that does what another line, or itself, does
        to the other part in every read is paired.
        """
        sequences = {
            key: tuple(tuple(by_read.get(number, ())) for number in range(self.reads))
            for key, by_read in self.by_line.items()
        }
        random = {key: sequence for key, sequence in sequences.items() if len({*sequence}) > 1}
        counts = {part: Counter(s for (_, own), s in random.items() if own == part) for part in ("image", "target")}
        paired = counts["image"] & counts["target"]
        return [(*key, sum(map(bool, own))) for key, own in random.items() if own not in paired]


def find_transform_line(
    read: Callable[[int], Any], as_pair: Callable[[Any], tuple[Tensor, Tensor] | None], reads: int
) -> SourceLine | None:
    """Return the line that flips or rotates an image or its target alone, in some of the reads of a sample.

    The reads are traced. Each array in a variable of the user's code is compared with the parts of the first read in
    all orientations. The line is that of the innermost function that holds both parts. If there are lines for either
    part, it is that of the target. None if no line is certain, or if a debugger traces this thread.
    """
    first = as_pair(read(0))
    if first is None or sys.gettrace() is not None:
        return None
    references = {"image": _planes(first[0]), "target": _planes(first[1])}
    if any(reference is None for reference in references.values()):
        return None
    changes = _LineChanges()
    for number in range(reads):
        trace = _Trace(references)  # type: ignore[arg-type]
        trace.run(lambda number=number: read(number))  # type: ignore[misc]
        changes.add([*trace.changes()])
    lines = changes.of_one_part()
    lines = [found for found in lines if found[1] == "target"] or lines
    return max(lines, key=lambda found: found[2], default=(None,))[0]


class _Trace:
    """Traces the orientation of an image and its target in the variables of the user's code during a read."""

    def __init__(self, references: dict[_Part, Tensor]) -> None:
        self._moved = {part: [*moves(reference)] for part, reference in references.items()}
        self._orientation: dict[_Part, int] = {}
        self._seen: dict[tuple[int, int], _Part | None] = {}
        self._references: list[Any] = []
        self._previous: dict[FrameType, int] = {}
        self._held: dict[FrameType, set[_Part]] = {}
        self._changes: list[_OrientationChange] = []

    def run(self, call: Callable[[], Any]) -> None:
        with trace_lines(self._trace):
            call()

    def changes(self) -> Iterator[tuple[SourceLine, _Part, tuple[int, int]]]:
        """Yield each change with the line of the innermost function that holds both parts."""
        for change in self._changes:
            lines = [line for frame, line in change.stack if len(self._held.get(frame, ())) > 1]
            yield (lines or [change.stack[-1][1]])[0], change.part, change.change

    def _trace(self, frame: FrameType, event: str, result: Any) -> Any:
        if not is_user_code(frame.f_code.co_filename):
            return None
        number = self._previous.get(frame, frame.f_lineno)
        stack = tuple(self._stack(frame, number))
        values = [*frame.f_locals.values(), result] if event == "return" else [*frame.f_locals.values()]
        caller = stack[1:] if event == "call" and len(stack) > 1 else stack  # the caller's line makes arguments
        for value in _arrays(values, _MAX_DEPTH):
            self._observe(value, frame, caller)
        self._previous[frame] = frame.f_lineno
        return self._trace

    def _stack(self, frame: FrameType, number: int) -> Iterator[tuple[FrameType, SourceLine]]:
        """Yield the user's functions that are running, with the line that each has run."""
        code = frame.f_code
        yield frame, SourceLine(code.co_filename, number, code.co_name)
        outer = frame.f_back
        while outer is not None and not is_debugger_code(outer.f_code.co_filename):
            code = outer.f_code
            if is_user_code(code.co_filename):
                yield outer, SourceLine(code.co_filename, outer.f_lineno, code.co_name)
            outer = outer.f_back

    def _observe(self, value: Any, frame: FrameType, stack: tuple[tuple[FrameType, SourceLine], ...]) -> None:
        """Record whether a value is a part of the sample, and whether its orientation is new."""
        planes = _planes(value)
        if planes is None or len(self._seen) > _MAX_ARRAYS:
            return
        key = id(value), zlib.crc32(planes.numpy().tobytes())
        if key not in self._seen:
            self._references.append(value)
            part, orientation = self._classify(planes)
            self._seen[key] = part
            if part is not None and self._orientation.get(part, -1) != orientation:
                self._changes.append(_OrientationChange(part, (self._orientation.get(part, -1), orientation), stack))
                self._orientation[part] = orientation
        if part := self._seen[key]:
            self._held.setdefault(frame, set()).add(part)

    def _classify(self, planes: Tensor) -> tuple[_Part | None, int]:
        """Return the part that an array holds, and its orientation; None if it is not clear."""
        found: list[tuple[float, _Part, int]] = []
        for part, moved in self._moved.items():
            errors = torch.tensor([_distance(planes, values) for values in moved])
            best, next_best = errors.sort().values[:2].tolist()
            if best < _CLEAR_RATIO * next_best:
                found.append((best, part, int(errors.argmin())))
        return min(found)[1:] if found else (None, 0)


def moves(values: Tensor) -> Iterator[Tensor]:
    """Yield the values after each flip and rotation that keeps their shape."""
    turns = range(4) if values.shape[-1] == values.shape[-2] else (0, 2)
    for turn in turns:
        turned = values.rot90(turn, (-2, -1))
        yield turned
        yield turned.flip(-1)


def _arrays(values: list[Any], depth: int) -> Iterator[Any]:
    """Yield the tensors, arrays and pictures in some values, and in lists, tuples and dictionaries of them."""
    for value in values:
        if isinstance(value, (Tensor, np.ndarray)) or _is_picture(value):
            yield value
        elif depth and type(value) in (list, tuple, dict):
            parts = [*value.values()] if isinstance(value, dict) else [*value]
            yield from _arrays(parts[:_MAX_ELEMENTS], depth - 1)


def _is_picture(value: Any) -> bool:
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and isinstance(value, pillow.Image)


def _planes(value: Any) -> Tensor | None:
    """Return an array as standardized planes of height and width; None for others.

    A short last axis is that of the channels. Standardized, they are the same in other units.
    """
    values = value.detach() if isinstance(value, Tensor) else torch.as_tensor(np.array(value))
    if not 2 <= values.dim() <= 4 or not 0 < values.numel() <= _MAX_VALUES or values.is_complex():
        return None
    values = values.double().cpu()
    if values.dim() > 2 and values.shape[-1] <= _MAX_CHANNELS < values.shape[-3]:
        values = values.movedim(-1, -3)
    planes = values.reshape(-1, *values.shape[-2:])
    if min(planes.shape[-2:]) < _MIN_SIDE:
        return None
    centered = planes - planes.mean((1, 2), keepdim=True)
    return (centered / centered.square().mean((1, 2), keepdim=True).sqrt().clamp(min=1e-12)).contiguous()


def _distance(planes: Tensor, reference: Tensor) -> float:
    """Return the mean square difference of planes; of their mean, and in the size of the reference, if these differ."""
    if planes.shape[0] != reference.shape[0]:
        planes, reference = planes.mean(0, keepdim=True), reference.mean(0, keepdim=True)
    if planes.shape != reference.shape:
        planes = F.interpolate(planes[None], tuple(reference.shape[-2:]), mode="bilinear", antialias=True)[0]
    return float((planes - reference).square().mean())
