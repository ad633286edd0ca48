"""Lists of an evaluation that have two names, so that predictions and targets go into one list."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from types import FrameType
from typing import Any

from torch import Tensor

from nbdebug.loop_monitor.loop_numbers import has_plain_attributes
from nbdebug.source.assignments import find_assignments, last_assignment
from nbdebug.source.location import SourceLine
from nbdebug.source.references import frame_variables, user_frames
from nbdebug.tensors.pytree import tree_tensors

_MAX_PASSES, _MAX_FRAMES, _MAX_NAMES, _MAX_LABELS, _MIN_ROWS = 16, 3, 32, 4, 2


@dataclass(frozen=True)
class SharedList:
    """A list with two names that has the labels of a batch, and as many other values, at its end.

    ``line`` is where the names get the list.
    """

    names: tuple[str, str]
    rows: int
    line: SourceLine


class SharedListMonitor:
    """Looks at the lists around each pass of an evaluation for the labels of the batch before."""

    def __init__(self) -> None:
        self.passes = 0
        self.labels: list[list[Any]] = []
        self.first: SharedList | None = None

    def on_batch(self, split: str, batch: Any) -> None:
        """Record the batch of a validation loader, and look for the labels of the batch before."""
        if self.labels and self.first is None:
            self.first = next(self._shared_lists(), None)
        self.labels = []
        if split == "val" and self.passes < _MAX_PASSES and self.first is None:
            self.passes += 1
            tensors = [tensor for tensor in tree_tensors(batch)[:_MAX_LABELS] if tensor.dim() == 1]
            self.labels = [tensor.tolist() for tensor in tensors if len(tensor) >= _MIN_ROWS]

    def _shared_lists(self) -> Iterator[SharedList]:
        """Yield the lists with two names that have the labels of the latest batch at their end."""
        for namespace in _namespaces(sys._getframe(1)):
            for names in namespace.names_of_shared_lists():
                rows = self._rows_at_end(namespace.values[names[0]])
                line = namespace.find_line(names[0]) if rows else None
                if line is not None:
                    yield SharedList((namespace.label.format(names[0]), namespace.label.format(names[1])), rows, line)

    def _rows_at_end(self, values: list[Any]) -> int:
        """Return the number of labels if a list ends with them and as many other values, in any order; else 0."""
        for labels in self.labels:
            size = len(labels)
            parts = [_as_list(part) for part in values[-2:]], [values[-2 * size : -size], values[-size:]]
            if any(labels in pair and pair[0] != pair[1] and len(pair[0]) == size for pair in parts if len(pair) == 2):
                return size
        return 0


@dataclass(frozen=True)
class _Namespace:
    """Names and values: the variables of a function, the entries of a dictionary, or the attributes of an ``owner``.

    ``line`` is the current one of the function, ``variable`` the name of the dictionary or the owner.
    """

    values: Mapping[Any, Any]
    line: SourceLine
    variable: str = ""
    owner: object = None

    @property
    def label(self) -> str:
        """The form of a name: that of a variable, an attribute or an entry."""
        if self.owner is not None:
            return f"{self.variable}.{{}}"
        return f"{self.variable}[{{!r}}]" if self.variable else "{}"

    def names_of_shared_lists(self) -> list[list[str]]:
        """Return the names of each list that has two."""
        names: dict[int, list[str]] = {}
        for name, value in islice(self.values.items(), _MAX_NAMES):
            if type(value) is list and isinstance(name, str):
                names.setdefault(id(value), []).append(name)
        return [group for group in names.values() if len(group) == 2]

    def find_line(self, name: str) -> SourceLine | None:
        """Return the line that gives a name its value."""
        if self.owner is None:
            return last_assignment(self.line, self.variable or name)
        lines = find_assignments(self.owner, name)
        return lines[-1] if lines else None


def _namespaces(frame: FrameType) -> Iterator[_Namespace]:
    """Yield the namespaces of the user's innermost functions."""
    for user_frame in islice(user_frames(frame), _MAX_FRAMES):
        code, variables = user_frame.f_code, frame_variables(user_frame)
        line = SourceLine(code.co_filename, user_frame.f_lineno, code.co_name)
        yield _Namespace(variables, line)
        for name, value in islice(variables.items(), _MAX_NAMES):
            if type(value) is dict:
                yield _Namespace(value, line, name)
            elif has_plain_attributes(value):
                yield _Namespace(vars(value), line, name, value)


def _as_list(value: Any) -> list[Any]:
    """Return the values of a tensor or an array that was appended to a list."""
    return value.tolist() if isinstance(value, Tensor) or hasattr(value, "__array__") else []
