"""Tables of samples that contain many elements, pixels or tokens, each with a class."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from nbdebug.metrics.classification import Counts
from nbdebug.predictions.table import Grid, Page, PredictionTable, Query, Rows

MAX_PENDING_COUNTS = 1 << 22  # maximum number of counts on the device before they are fetched, 32 MiB


@dataclass(frozen=True, kw_only=True)
class PerElementTable(PredictionTable):
    """Predictions for the elements of each sample.

    ``counts`` is a sparse matrix, samples × (class · classes + predicted class); None if nothing was counted.
    """

    unit: ClassVar[str] = "samples"

    classes: tuple[str, ...] = ()
    counts: Any = None

    @property
    def is_at_hand(self) -> bool:
        """Return whether the elements of a sample are stored, so that the model need not run again."""
        return False

    @cached_property
    def matrix(self) -> Counts:
        """Return the confusion matrix of all elements."""
        size = len(self.classes)
        return np.asarray(self.counts.sum(0), np.int64).reshape(size, size)

    @cached_property
    def grid(self) -> Grid | None:
        """Return the confusion matrix with names, in pixels or tokens."""
        return None if self.counts is None else Grid(self.matrix, self.classes, self.classes, unit=self.unit)

    @cached_property
    def counts_by_cell(self) -> Any:
        """Return the counts as columns, for fast access by cell."""
        return self.counts.tocsc()

    def rows_in_cell(self, row: int, column: int) -> Rows:
        """Return the samples that contain such elements, those with the most first."""
        if self.counts is None:
            return super().rows_in_cell(row, column)
        cell = self.counts_by_cell[:, [row * len(self.classes) + column]]
        return np.asarray(cell.indices[np.lexsort((cell.indices, -cell.data))], np.int64)

    def page(self, query: Query) -> Page:
        """Return the requested rows; those of one cell are sorted by how many of its elements they contain."""
        if not query.selects_one_cell:
            return super().page(query)
        rows = self.rows_in_cell(*query.cells[0])
        return Page(rows[query.start : query.start + query.count], len(rows))


class ClassPairCounter:
    """Counts of class pairs inside each sample, made on the device and fetched a few million at a time."""

    def __init__(self, classes: int) -> None:
        self.cells = classes * classes
        self.pending, self.pending_size, self.parts = list[Tensor](), 0, list[Any]()

    def add(self, target: Tensor, prediction: Tensor, valid: Tensor) -> None:
        """Count the pairs of some samples, samples × elements; elements that are not ``valid`` are skipped."""
        rows, width = len(target), self.cells + 1
        size = round(self.cells**0.5)
        cell = torch.where(valid, target * size + prediction, self.cells)
        cell = cell + torch.arange(rows, device=cell.device)[:, None] * width
        pair_counts = weighted_bincount(cell.flatten(), rows * width).view(rows, width)[:, : self.cells]
        self.pending.append(pair_counts)
        self.pending_size += pair_counts.numel()
        if self.pending_size > MAX_PENDING_COUNTS:
            self.fetch()

    def fetch(self) -> None:
        """Copy the pending counts from the device."""
        from scipy.sparse import csr_matrix

        if self.pending:
            self.parts.append(csr_matrix(torch.cat(self.pending).cpu().numpy()))
        self.pending, self.pending_size = [], 0

    def matrix(self) -> Any:
        """Return all counts, samples × cells."""
        from scipy.sparse import csr_matrix, vstack

        self.fetch()
        return csr_matrix(vstack(self.parts)) if self.parts else csr_matrix((0, self.cells), dtype=np.int64)


def weighted_bincount(values: Tensor, size: int, weights: Tensor | None = None) -> Tensor:
    """Return the count, or the total weight, of each integer below ``size``, without device synchronization."""
    if values.device.type == "cpu":
        return torch.bincount(values, weights, minlength=size)
    increments = torch.ones_like(values) if weights is None else weights
    return torch.zeros(size, dtype=increments.dtype, device=values.device).index_add_(0, values, increments)
