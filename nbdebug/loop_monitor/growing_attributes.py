"""Tensors in the attributes of modules that grow from step to step, such as a cache that nobody clears."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from torch import Tensor, nn

from nbdebug.source.assignments import covering_statement, find_assignments
from nbdebug.source.location import SourceLine, is_user_code
from nbdebug.source.search import read_names

_MIN_INSPECTIONS, _MIN_GROWTH = 6, 4.0
_MAX_ITEMS = 10_000  # of a list or a dictionary
_MODULE_ATTRIBUTES = frozenset(vars(nn.Module())) - {"_buffers"}  # those that torch manages, except buffers


@dataclass(frozen=True)
class GrowingAttribute:
    """An attribute of a module whose tensors were larger at each of several inspections than at the one before.

    ``first`` and ``last`` are the numbers of its values at the first inspection and at the last one, at these steps.
    """

    module: str
    name: str
    first: int
    last: int
    first_step: int
    last_step: int
    line: SourceLine | None


class GrowingAttributeMonitor:
    """Compares the sizes of the tensors that modules keep at the inspected steps."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._step = -1
        self._sizes: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._growing: dict[tuple[str, str], list[tuple[int, int]]] = {}
        self._bounded: set[tuple[str, str]] = set()

    def inspect(self, step: int) -> None:
        """Record the sizes of attributes; one that stops to grow is bounded, and one that shrinks starts again."""
        if step <= self._step:
            return
        self._step = step
        for path, name, size in _sized_attributes(self._model):
            if (key := (path, name)) in self._bounded:
                continue
            history = self._sizes.setdefault(key, [])
            if history and size == history[-1][1]:
                self._bounded.add(key)
                self._growing.pop(key, None)
                continue
            if history and size < history[-1][1]:
                history.clear()
            history.append((step, size))
            if len(history) >= _MIN_INSPECTIONS and size >= _MIN_GROWTH * max(history[0][1], 1):
                self._growing[key] = [*history]

    def summary(self) -> GrowingAttribute | None:
        """Return the attribute that has grown most; None if none has grown at each of several inspections."""
        if not self._growing:
            return None
        (path, name), history = max(self._growing.items(), key=lambda item: item[1][-1][1] - item[1][0][1])
        line = next(filter(_adds_values, find_assignments(self._model.get_submodule(path), name)), None)
        (first_step, first), (last_step, last) = history[0], history[-1]
        return GrowingAttribute(path, name, first, last, first_step, last_step, line)


def _adds_values(line: SourceLine) -> bool:
    """Check whether a line of the user's code sets an attribute neither at its creation nor to a constant."""
    value = getattr(covering_statement(line), "value", None)
    is_constant = isinstance(value, ast.expr) and not read_names(value)
    return is_user_code(line.file) and line.function != "__init__" and not is_constant


def _sized_attributes(model: nn.Module) -> Iterator[tuple[str, str, int]]:
    """Yield the attributes of all modules that hold tensors, or containers of tensors, with the number of values."""
    for path, module in model.named_modules():
        attributes = {name: value for name, value in vars(module).items() if name not in _MODULE_ATTRIBUTES}
        for name, value in {**attributes.pop("_buffers", {}), **attributes}.items():
            tensors = [item for item in _items(value) if isinstance(item, Tensor)]
            if tensors:
                yield path, name, sum(tensor.numel() for tensor in tensors)


def _items(value: object) -> list[object]:
    if isinstance(value, dict):
        value = list(value.values())
    return list(value) if isinstance(value, (list, tuple)) and len(value) <= _MAX_ITEMS else [value]
