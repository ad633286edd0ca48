"""Rows that occur too regularly, or too often beside the others of their class, to be drawn independently."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch

from nbdebug.measurements.dataset_rows import SplitTable
from nbdebug.measurements.duplicates import are_rows_distinctive, get_sample_keys
from nbdebug.tensors.row_search import get_row_keys, occur_equally_often

_MAX_COMBINATIONS = 2  # of the values of all columns, for each distinct row of an experiment with several factors
_MIN_COPIES, _MIN_RATIO = 10, 5  # of a multiplied row, and in relation to the median row of its class
_MIN_MULTIPLIED, _MIN_CLASSES = 5, 2


@dataclass(frozen=True)
class MultipliedRows:
    """A few distinct rows, most of which occur ``copies`` times each; they are ``samples`` samples in all."""

    first: Hashable
    rows: int
    samples: int
    copies: int


def are_copies(table: SplitTable) -> bool:
    """Return whether equal inputs cannot be due to chance, nor to an experiment that repeats each of its conditions."""
    if are_rows_distinctive(table, get_sample_keys(table)):
        return True
    row_keys = get_row_keys(table.inputs)
    return occur_equally_often(row_keys) and not _fill_grid(table, len(set(row_keys)))


def find_multiplied_rows(table: SplitTable, sample_keys: Sequence[Hashable]) -> MultipliedRows | None:
    """Return rows that occur equally often, and far more often than most rows of their class, in several classes.

    Oversampling repeats all rows of a class. Rows that are frequent by nature differ in how often they occur.
    """
    labels = table.labels.tolist() if table.labels is not None else [0] * len(sample_keys)
    label_of = dict(zip(sample_keys, labels, strict=True))
    counts = Counter(sample_keys)
    counts_of_class: dict[int, list[int]] = {}
    for key, count in counts.items():
        counts_of_class.setdefault(label_of[key], []).append(count)
    usual = {label: statistics.median(group) for label, group in counts_of_class.items()}
    multiplied = {
        key: count
        for key, count in counts.items()
        if count >= _MIN_COPIES and count >= _MIN_RATIO * usual[label_of[key]]
    }
    classes = {label_of[key] for key in multiplied}
    if len(multiplied) < _MIN_MULTIPLIED or len(classes) < min(_MIN_CLASSES, len(usual)):
        return None
    copies, rows = Counter(multiplied.values()).most_common(1)[0]
    if rows < len(multiplied) / 2:
        return None
    return MultipliedRows(next(iter(multiplied)), len(multiplied), sum(multiplied.values()), copies)


def _fill_grid(table: SplitTable, distinct_rows: int) -> bool:
    """Return whether inputs are most combinations of the values of their columns, or one category in one-hot code."""
    parts = [part.reshape(len(part), -1) for part in table.inputs]
    nonzero_counts = torch.stack([(part != 0).sum(1) for part in parts]).sum(0)
    if int(nonzero_counts.max()) <= 1:
        return True
    combinations = 1
    for column in (column for part in parts for column in part.t()):
        combinations *= len(column.unique())
        if combinations > _MAX_COMBINATIONS * distinct_rows:
            return False
    return True
