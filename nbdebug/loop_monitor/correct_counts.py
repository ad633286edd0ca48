"""Variables of an evaluation that count correct predictions, recognized by their values."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any

from torch import Tensor

from nbdebug.loop_monitor.batch_averages import to_array
from nbdebug.loop_monitor.loop_numbers import has_plain_attributes
from nbdebug.loop_monitor.whole_set_metrics import count_correct
from nbdebug.setup.losses import score_tensor
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.references import frame_variables
from nbdebug.tensors.pytree import tree_tensors

_MAX_PASSES, _MAX_FRAMES, _MAX_LABELS, _MAX_PARTS = 32, 3, 4, 32
_MAX_VALUES = 2_000_000  # of an output that is read again
_MIN_MATCHES = 2  # increments that equal the number of correct predictions; one may do so by chance
_Key = tuple[str, str, str]  # file, function and name of a variable


@dataclass(frozen=True)
class CorrectCount:
    """A variable that counts correct predictions, and the line in its function that leads to the model.

    ``continued`` evaluations began with its value at the end of the evaluation before.
    """

    name: str
    line: SourceLine
    continued: int = 0


class CorrectCountMonitor:
    """Compares the increments of numeric variables with the correct predictions of each validation batch."""

    def __init__(self) -> None:
        self.passes = 0
        self.labels: list[Tensor] = []
        self.correct: set[int] = set()
        self.values: dict[_Key, float] = {}
        self.totals: dict[_Key, set[float]] = {}
        self.continued = Counter[_Key]()
        self.lines: dict[_Key, SourceLine] = {}
        self.matches: dict[_Key, int] = {}
        self.mismatches: set[_Key] = set()

    @property
    def wants_output(self) -> bool:
        """True if the output of the current pass is to be compared with labels."""
        return bool(self.labels)

    def on_batch(self, split: str, batch: Any) -> None:
        """Record a batch of any loader."""
        is_inspected = split == "val" and self.passes < _MAX_PASSES
        self.labels = tree_tensors(batch)[:_MAX_LABELS] if is_inspected else []
        if split != "val" and self.values:
            self.totals = {key: {value + correct for correct in self.correct} for key, value in self.values.items()}
            self.values, self.correct = {}, set()

    def on_forward_begin(self) -> None:
        """Record the variables around a pass over a validation batch, which include the previous batch."""
        if not self.labels:
            return
        self.passes += 1
        values = dict(self._numeric_variables(sys._getframe(1)))
        if not self.values:
            self.continued.update(key for key, value in values.items() if value and value in self.totals.get(key, ()))
        for key in values.keys() & self.values.keys() if self.correct else ():
            increment = values[key] - self.values[key]
            if increment > 1 and increment in self.correct:
                self.matches[key] = self.matches.get(key, 0) + 1
            elif increment > 0 and increment not in self.correct:
                self.mismatches.add(key)
        self.values, self.correct = values, set()

    def on_forward_end(self, output: Any) -> None:
        """Count the correct predictions of a pass over a validation batch."""
        if not self.labels:
            return
        scores = score_tensor(output)
        if isinstance(scores, Tensor) and scores.is_floating_point() and scores.numel() <= _MAX_VALUES:
            for labels in self.labels:
                self.correct.update(count_correct(to_array(scores), to_array(labels)))
        self.labels = []

    def _numeric_variables(self, frame: FrameType | None) -> Iterator[tuple[_Key, float]]:
        """Yield the numbers in the variables of the user's innermost functions, and store the current line of each."""
        user_frames = 0
        while frame is not None and user_frames < _MAX_FRAMES:
            code = frame.f_code
            if is_user_code(code.co_filename):
                user_frames += 1
                line = SourceLine(code.co_filename, frame.f_lineno, code.co_name)
                for name, number in _numbers_in(frame_variables(frame)):
                    key = code.co_filename, code.co_name, name
                    self.lines[key] = line
                    yield key, number
            frame = frame.f_back

    def summary(self) -> tuple[CorrectCount, ...]:
        """Return the variables whose increments were always the number of correct predictions."""
        counting = [key for key, count in self.matches.items() if count >= _MIN_MATCHES and key not in self.mismatches]
        return tuple(CorrectCount(key[2], self.lines[key], self.continued[key]) for key in counting)


def _numbers_in(variables: dict[str, object]) -> Iterator[tuple[str, float]]:
    """Yield the numbers of a function: its variables, entries of its dictionaries and attributes of its objects."""
    for name, value in variables.items():
        number = _as_number(value)
        if number is not None:
            yield name, number
            continue
        is_dictionary = type(value) in (dict, Counter)
        parts: Any = value if is_dictionary else vars(value) if has_plain_attributes(value) else {}
        for key, part in [*islice(parts.items(), _MAX_PARTS)]:
            if (number := _as_number(part)) is not None:
                yield (f"{name}[{key!r}]" if is_dictionary else f"{name}.{key}"), number


def _as_number(value: object) -> float | None:
    """Return a Python number, or a scalar tensor on the host, as a float; None for anything else."""
    if type(value) in (int, float):
        return float(value)  # type: ignore[arg-type]
    if type(value) is Tensor and value.numel() == 1 and value.device.type == "cpu" and not value.requires_grad:
        return float(value)
    return None
