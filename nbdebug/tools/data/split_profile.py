"""Accumulates the profile of a split, and stores its first rows for the comparisons."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.measurements.dataset_rows import SplitRows, SplitTable, concatenate_rows
from nbdebug.measurements.reference import MAX_ROWS as MAX_REFERENCE_ROWS
from nbdebug.setup.batch import named_inputs
from nbdebug.tensors.row_search import get_row_hashes
from nbdebug.tools.data.leaf_statistics import LeafAccumulator, LeafProfile
from nbdebug.tools.data.reading import SampleChunk, SplitReader

_MAX_STORED_VALUES, _MAX_STORED_ROWS = 25_000_000, 60_000
SPLIT_NAMES = {"train": "training", "val": "validation", "reference": "reference"}


@dataclass(frozen=True)
class SplitProfile:
    """The samples of one split that were read, leaf by leaf.

    ``size`` is the number of samples of the split, None if unknown; ``read`` of them were read, at random if
    ``is_random``, else the first ones. ``failures`` are the first samples that raised, by index, and
    ``failure_count`` is their number. ``schemas`` are the schemas of the samples, of a stream those of the
    batches, with their counts and the first index of each, the most common first. ``notes`` say what could not be read
    and why reading ended, and ``uncollated`` why the loader cannot make batches of the samples.
    """

    split: str
    size: int | None
    read: int
    is_random: bool
    is_complete: bool
    leaves: tuple[LeafProfile, ...]
    class_counts: dict[int, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    failure_count: int = 0
    schemas: tuple[tuple[str, int, int], ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    uncollated: str = ""

    @property
    def title(self) -> str:
        """The name of the split."""
        return SPLIT_NAMES[self.split]

    @property
    def unit(self) -> str:
        """What ``schemas`` counts: samples that are read by index, else batches."""
        return "sample" if self.is_random else "batch"

    @property
    def extent(self) -> str:
        """The number of samples that were read, and their choice, as text."""
        if self.is_complete:
            return f"all {self.read:,} samples"
        total = f" of {self.size:,}" if self.size is not None else ""
        return f"{self.read:,}{total} samples, {'drawn at random' if self.is_random else 'the first ones'}"

    def get_leaf(self, role: str, name: str) -> LeafProfile | None:
        """Return a leaf by role and name; None if the split does not have it."""
        return next((leaf for leaf in self.leaves if (leaf.role, leaf.name) == (role, name)), None)


@dataclass
class SplitAccumulator:
    """Accumulates the statistics of the chunks of a split; the first rows, in the order of reading, are stored.

    ``raw_batches`` are the first of them as the loader returns them, and ``stored_batches`` all of them if they are
    embedded. ``keys`` are 64-bit hashes of the inputs of all
    samples read, and ``indices`` their dataset indices.
    """

    reader: SplitReader
    column_names: Sequence[str] | None
    leaves: dict[tuple[str, str], LeafAccumulator] = field(default_factory=dict)
    parts: list[SplitRows] = field(default_factory=list)
    is_embedded: bool = False
    raw_batches: list[Any] = field(default_factory=list)
    stored_batches: list[Any] = field(default_factory=list)
    stored_values: int = 0
    stored_rows: int = 0
    keys: list[NDArray[np.int64]] = field(default_factory=list)
    indices: list[int] = field(default_factory=list)
    seconds: float = 0.0
    _table: SplitTable | None = field(default=None, init=False, repr=False)

    def add(self, chunk: SampleChunk) -> None:
        """Add the samples of a chunk."""
        self._table = None
        for (role, name), values in chunk.leaves.items():
            if (role, name) not in self.leaves:
                self.leaves[role, name] = LeafAccumulator(role, name, self.column_names if role == "input" else None)
            self.leaves[role, name].add(values, chunk.size)
        if chunk.batch is not None:
            first = len(self.indices)
            indices = chunk.indices or range(first, first + chunk.size)
            self._store(chunk, indices)

    def _store(self, chunk: SampleChunk, indices: Sequence[int]) -> None:
        """Store the keys of the samples, and the samples themselves while there is room."""
        batch = chunk.batch
        assert batch is not None
        inputs = {name: _dense_rows(tensor) for name, tensor in named_inputs(batch).items()}
        with_rows = [part for part in inputs.values() if len(part) == len(indices)]
        if with_rows:
            self.keys.append(get_row_hashes(with_rows))
            self.indices += indices
        values = sum(part.numel() for part in inputs.values())
        has_room = self.stored_values + values <= _MAX_STORED_VALUES or not self.parts
        if has_room and self.stored_rows < _MAX_STORED_ROWS:
            if self.stored_rows < MAX_REFERENCE_ROWS:
                self.raw_batches.append(batch.raw)
            if self.is_embedded:
                self.stored_batches.append(batch.raw)
            self.parts.append(SplitRows(self.reader.split, inputs, batch.targets, indices, True))
            self.stored_values += values
            self.stored_rows += len(indices)

    @property
    def stored_indices(self) -> list[int]:
        """The dataset indices of the stored samples."""
        return [index for part in self.parts for index in part.indices]

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs with a row for each sample, in the order of the table."""
        part = next((part for part in self.parts if part.inputs), None)
        return [] if part is None else [name for name, rows in part.inputs.items() if len(rows) == len(part.indices)]

    def table(self) -> SplitTable | None:
        """Return the stored rows of the most common shapes; None if no samples could be collated."""
        usable = [part for part in self.parts if part.inputs]
        if not usable:
            return None
        if self._table is None:  # a copy of all stored rows
            self._table = concatenate_rows(self.reader.split, usable)
        table = self._table
        is_complete = self.reader.is_complete and len(table) == self.reader.samples_read
        return SplitTable(table.split, table.inputs, table.targets, table.indices, is_complete)

    def profile(self) -> SplitProfile:
        """Return the profile of all samples so far."""
        reader = self.reader
        leaves = tuple(leaf.profile() for leaf in self.leaves.values())
        return SplitProfile(
            reader.split,
            reader.size,
            reader.samples_read,
            reader.is_indexed,
            reader.is_complete,
            leaves,
            _class_counts(leaves),
            dict(reader.failures),
            reader.failure_count,
            tuple((str(schema), count, first) for schema, (count, first) in _by_count(reader)),
            self._notes(),
            self.seconds,
            reader.uncollated,
        )

    def _notes(self) -> tuple[str, ...]:
        reader, title = self.reader, SPLIT_NAMES[self.reader.split]
        notes = [f"reading of {title} ended at {reader.end_reason}"] if reader.end_reason else []
        if reader.uncollated:
            notes.append(
                f"{title} samples cannot be collated ({reader.uncollated}); they are described one by one, and the "
                "comparisons of rows are left out"
            )
        return tuple(notes)


def _by_count(reader: SplitReader) -> list[tuple[Any, list[int]]]:
    return sorted(reader.schemas.items(), key=lambda item: -item[1][0])


def _dense_rows(tensor: Tensor) -> Tensor:
    tensor = tensor.detach()
    tensor = (tensor.to_dense() if tensor.layout != torch.strided else tensor).cpu()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _class_counts(leaves: Sequence[LeafProfile]) -> dict[int, int]:
    """Return the counts of the classes of the only target, if it is one integer for each sample."""
    targets = [leaf for leaf in leaves if leaf.role == "target"]
    if len(targets) != 1 or targets[0].distinct is None or targets[0].distinct > len(targets[0].values):
        return {}
    try:
        return {int(value): count for value, count in sorted(targets[0].values, key=lambda item: int(item[0]))}
    except ValueError:
        return {}


def language_counts(splits: Sequence[SplitProfile]) -> Iterator[tuple[str, dict[str, int], dict[str, int]]]:
    """Yield the title of each leaf with texts in both splits, and the texts of each language in either."""
    by_split = {split.split: split for split in splits}
    if not {"train", "val"} <= by_split.keys():
        return
    for leaf in by_split["train"].leaves:
        other = by_split["val"].get_leaf(leaf.role, leaf.name)
        if leaf.texts is not None and other is not None and other.texts is not None:
            yield leaf.title, dict(leaf.texts.languages), dict(other.texts.languages)
