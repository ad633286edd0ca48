"""Epochs of a loop in which the training loader yields no batch, after others in which it did."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from nbdebug.hooks.data_waits import observe_loader_ends
from nbdebug.hooks.training_events import is_iterator_of
from nbdebug.setup import Setup
from nbdebug.setup.loaders import PeekableLoader, held_iterators
from nbdebug.setup.user_code import MAX_DATASET_DEPTH, dataset_components
from nbdebug.source.assignments import find_assignments
from nbdebug.source.location import SourceLine, is_library_code

_CallbackWrapper = Callable[[Callable[[Any], None]], Callable[[Any], None]]


@dataclass(frozen=True)
class EmptyEpochs:
    """Epochs without a batch that followed an epoch of ``batches`` batches, and the user's line that explains them.

    ``read_ahead`` is the number of batches that were read before the loop. ``iterator`` names the attribute of the
    dataset that holds an iterator, which can be read only once.
    """

    epochs: int
    batches: int
    read_ahead: int
    iterator: str
    line: SourceLine | None


class EmptyEpochMonitor:
    """Counts the batches of each epoch that ended by itself: one that ``break`` leaves does not count."""

    def __init__(self, setup: Setup) -> None:
        self.loader = setup.train_loader
        self.batches = self.epochs = 0
        self.finished_before = len(self.loader.epoch_sizes) if isinstance(self.loader, PeekableLoader) else 0

    def hooks(self, wrap_callback: _CallbackWrapper) -> list[AbstractContextManager[None]]:
        """Return the hooks that this monitor needs."""
        return [observe_loader_ends(wrap_callback(self.on_end))]

    @property
    def source(self) -> Any:
        """The loader of the user's loop."""
        return self.loader.source if isinstance(self.loader, PeekableLoader) else self.loader

    def on_end(self, iterator: Any) -> None:
        """Record that an iterator of a loader has no more batches."""
        if is_iterator_of(iterator, self.source):
            self._count(iterator._num_yielded)

    def _count(self, batches: int) -> None:
        if batches:
            self.batches, self.epochs = batches, 0
        else:
            self.epochs += 1

    def summary(self) -> EmptyEpochs | None:
        """Return the empty epochs since the last one with batches; None if a single pass explains all of them.

        If batches were read before the loop, the first empty epoch may have been meant to yield these.
        """
        if isinstance(self.loader, PeekableLoader) and len(self.loader.epoch_sizes) > self.finished_before:
            sizes = self.loader.epoch_sizes[self.finished_before :]
            self.batches = self.epochs = 0
            for size in sizes:
                self._count(size)
        least, read_ahead = 1 if self.batches else 2, len(getattr(self.loader, "buffered_batches", ()))
        if self.epochs < least or not (self.batches or read_ahead):
            return None
        iterator, line = _find_iterator(getattr(self.source, "dataset", self.source))
        return EmptyEpochs(self.epochs, self.batches, read_ahead, iterator, line)


def _find_iterator(dataset: Any) -> tuple[str, SourceLine | None]:
    """Return the attribute of a dataset that holds an iterator and its assignment, else the line of ``__iter__``."""
    for component in dataset_components(dataset, MAX_DATASET_DEPTH):
        for name in held_iterators(component):
            lines = [line for line in find_assignments(component, name) if not is_library_code(line.file)]
            return name, lines[-1] if lines else _iteration_line(component)
    return "", _iteration_line(dataset)


def _iteration_line(dataset: Any) -> SourceLine | None:
    """Return the first line of the method by which the user's class of a dataset is iterated."""
    method = getattr(type(dataset), "__iter__", None)
    code = method.__code__ if isinstance(method, FunctionType) else None
    is_own = code is not None and not is_library_code(code.co_filename)
    return SourceLine(code.co_filename, code.co_firstlineno, code.co_name) if code and is_own else None
