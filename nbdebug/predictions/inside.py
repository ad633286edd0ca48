"""Tables of samples that hold many small things, pixels or tokens, each with a class and a prediction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nbdebug.exceptions import SetupError
from nbdebug.metrics.confusion import Counts
from nbdebug.predictions.grid import Grid
from nbdebug.predictions.query import Page, Query, Rows
from nbdebug.predictions.table import Table

AT_ONCE = 1 << 22  # counts that wait on their device, 32 MiB


@dataclass(frozen=True, kw_only=True)
class Inside(Table):
    """What was said of the things inside each sample.

    ``counts`` is a sparse matrix, samples × (class · classes + predicted class); None where nothing was counted.
    """

    unit: ClassVar[str] = "samples"

    classes: tuple[str, ...] = ()
    counts: Any = None

    @property
    def is_at_hand(self) -> bool:
        """Whether what is inside a sample was kept, so that nothing has to be run to see it."""
        return False

    @cached_property
    def matrix(self) -> Counts:
        """The confusion matrix of all things in all samples."""
        size = len(self.classes)
        return np.asarray(self.counts.sum(0), np.int64).reshape(size, size)

    @cached_property
    def grid(self) -> Grid | None:
        """The confusion matrix with its names, in pixels or tokens."""
        return None if self.counts is None else Grid(self.matrix, self.classes, self.classes, unit=self.unit)

    @cached_property
    def by_cell(self) -> Any:
        """The counts, quick to read by cell."""
        return self.counts.tocsc()

    def in_cell(self, row: int, column: int) -> Rows:
        """The samples that have such things inside, those with the most first."""
        if self.counts is None:
            return super().in_cell(row, column)
        cell = self.by_cell[:, [row * len(self.classes) + column]]
        return np.asarray(cell.indices[np.lexsort((cell.indices, -cell.data))], np.int64)

    def page(self, query: Query) -> Page:
        """The rows that are asked for; those of one cell are in the order of how much they have of it."""
        if not query.is_one_cell:
            return super().page(query)
        rows = self.in_cell(*query.cells[0])
        return Page(rows[query.start : query.start + query.count], len(rows))


class Counter:
    """Counts of pairs of classes inside each sample, made on the device and fetched a few million at a time."""

    def __init__(self, classes: int) -> None:
        self.cells = classes * classes
        self.waiting, self.size, self.parts = list[Tensor](), 0, list[Any]()

    def add(self, target: Tensor, prediction: Tensor, valid: Tensor) -> None:
        """Counts the pairs of some samples, each samples × things; those that are not ``valid`` do not count."""
        rows, width = len(target), self.cells + 1
        size = round(self.cells**0.5)
        cell = torch.where(valid, target * size + prediction, self.cells)
        cell = cell + torch.arange(rows, device=cell.device)[:, None] * width
        found = counted(cell.flatten(), rows * width).view(rows, width)[:, : self.cells]
        self.waiting.append(found)
        self.size += found.numel()
        if self.size > AT_ONCE:
            self.fetch()

    def fetch(self) -> None:
        """Takes what waits off the device."""
        from scipy.sparse import csr_matrix

        if self.waiting:
            self.parts.append(csr_matrix(torch.cat(self.waiting).cpu().numpy()))
        self.waiting, self.size = [], 0

    def matrix(self) -> Any:
        """All counts, samples × cells."""
        from scipy.sparse import csr_matrix, vstack

        self.fetch()
        return csr_matrix(vstack(self.parts)) if self.parts else csr_matrix((0, self.cells), dtype=np.int64)


def counted(places: Tensor, size: int, weights: Tensor | None = None) -> Tensor:
    """How often each whole number below ``size`` is there, or its total weight; without waiting for a device."""
    if places.device.type == "cpu":
        return torch.bincount(places, weights, minlength=size)
    one = torch.ones_like(places) if weights is None else weights
    return torch.zeros(size, dtype=one.dtype, device=places.device).index_add_(0, places, one)


def class_names(names: Any, count: int) -> tuple[str, ...]:
    """The names of the classes; without any the numbers are the names. Raises SetupError for another number of them."""
    if names is not None and len(names) != count:
        raise SetupError(f"class_names has {len(names)} names; expected {count}. Give a name for each class.")
    return tuple(map(str, names)) if names is not None else tuple(map(str, range(count)))
