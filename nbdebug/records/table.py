"""Tables of rows by step, which are thinned when they grow too long."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float32]


def _to_single_precision(values: ArrayLike) -> FloatArray:
    """Return values as a record stores them: infinite if they are too large for single precision."""
    with np.errstate(over="ignore"):
        return np.asarray(values, np.float32)


class StepTable:
    """Columns of float32 by step. Beyond ``max_rows`` rows every second row is dropped and the stride doubles.

    One thread appends; a reading on another one may see the rows before or after. Rows may be of several kinds, which
    are thinned separately, so that alternating kinds all remain. A column that is added later is NaN in earlier rows.
    """

    def __init__(self, columns: Iterable[str] = (), max_rows: int = 8192) -> None:
        self.columns = {name: position for position, name in enumerate(columns)}
        self.max_rows, self.stride, self.rows = max_rows, 1, 0
        self.counts, self._kinds = Counter[str](), list[str]()
        self._steps = np.zeros(64, np.int64)
        self._values: FloatArray = np.zeros((64, len(self.columns)), np.float32)

    @property
    def steps(self) -> NDArray[np.int64]:
        """Steps of the stored rows."""
        return self._steps[: self.rows]

    @property
    def values(self) -> FloatArray:
        """Stored rows, one column per name."""
        return self._values[: self.rows]

    @property
    def total_rows(self) -> int:
        """Number of rows appended, stored or not."""
        return self.counts.total()

    def skip(self) -> None:
        """Count a row whose turn has not come."""
        self.counts[""] += 1

    def append(self, step: int, row: Mapping[str, float] | FloatArray, kind: str = "") -> None:
        """Store a row if the turn of its kind has come: a whole one, or some columns by name."""
        if self.counts[kind] % self.stride == 0:
            complete_row = row if isinstance(row, np.ndarray) else self.complete_row(row)
            self.append_unconditionally([step], np.asarray(complete_row, np.float32)[None], kind)
        self.counts[kind] += 1
        if self.rows > self.max_rows:
            self.thin()

    def extend(self, rows: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Store several rows of one kind, each with its step, if their turn has come."""
        if self.rows + len(rows) > self.max_rows:
            for step, row in rows:
                self.append(step, row)
            return
        stored_rows = rows[-self.counts[""] % self.stride :: self.stride]
        self.widen(name for _, row in stored_rows for name in row)
        if stored_rows:
            cells = [[row.get(name, math.nan) for name in self.columns] for _, row in stored_rows]
            self.append_unconditionally([step for step, _ in stored_rows], _to_single_precision(cells))
        self.counts[""] += len(rows)

    def complete_row(self, row: Mapping[str, float]) -> FloatArray:
        """Return a whole row from some of its columns."""
        self.widen(row)
        complete_row = np.full(len(self.columns), np.nan)
        for name, value in row.items():
            complete_row[self.columns[name]] = value
        return _to_single_precision(complete_row)

    def widen(self, names: Iterable[str]) -> None:
        """Add the new columns all at once, since this copies every row."""
        previous_count = len(self.columns)
        for name in names:
            self.columns.setdefault(name, len(self.columns))
        if new_count := len(self.columns) - previous_count:
            new_columns = np.full((len(self._values), new_count), np.nan, np.float32)
            self._values = np.concatenate([self._values, new_columns], axis=1)

    def replace(self, name: str, values: Mapping[int, float]) -> None:
        """Replace the values of a column at some steps, where they are stored."""
        for row, step in enumerate(self.steps.tolist()):
            if step in values:
                self._values[row, self.columns[name]] = values[step]

    def append_unconditionally(self, steps: Iterable[int], values: FloatArray, kind: str = "") -> None:
        """Append rows unconditionally."""
        self._kinds += [kind] * len(values)
        end = self.rows + len(values)
        while end > len(self._steps):
            extra_rows = min(len(self._steps), self.max_rows + 1)
            self._steps = np.concatenate([self._steps, np.zeros(extra_rows, np.int64)])
            self._values = np.concatenate([self._values, np.zeros((extra_rows, len(self.columns)), np.float32)])
        self._steps[self.rows : end] = list(steps)
        self._values[self.rows : end, : values.shape[1]] = values
        self.rows = end

    def thin(self) -> None:
        """Drop every second row of each kind."""
        ranks, kept_indices = Counter[str](), list[int]()
        for position, kind in enumerate(self._kinds):
            if ranks[kind] % 2 == 0:
                kept_indices.append(position)
            ranks[kind] += 1
        kept_count = len(kept_indices)
        self._steps[:kept_count], self._values[:kept_count] = self.steps[kept_indices], self.values[kept_indices]
        self._kinds = [self._kinds[position] for position in kept_indices]
        self.rows, self.stride = kept_count, 2 * self.stride

    def column(self, name: str) -> tuple[NDArray[np.int64], FloatArray]:
        """Return steps and values of a column without missing ones; a non-finite observed value is infinite."""
        if name not in self.columns:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        rows = self.rows  # read once, as another thread may append
        values = self._values[:rows, self.columns[name]]
        is_present = ~np.isnan(values)
        return self._steps[:rows][is_present].copy(), values[is_present].copy()


class HistogramTable:
    """Histograms of all tensors by step, each row compressed; thinned like a table."""

    def __init__(self, width: int, max_rows: int = 128) -> None:
        self.width, self.max_rows, self.stride, self.total_rows = width, max_rows, 1, 0
        self.steps: list[int] = []
        self.rows: list[bytes] = []

    @property
    def is_next_stored(self) -> bool:
        """True if the next row will be stored."""
        return self.total_rows % self.stride == 0

    def append(self, step: int, row: NDArray[np.uint8] | None) -> None:
        """Store a row of shape (tensors, ``width``) if its turn has come; None if it has not."""
        if self.is_next_stored and row is not None:
            self.steps.append(step)
            self.rows.append(_compress_row(row.tobytes()))
        self.total_rows += 1
        if len(self.rows) > self.max_rows:
            del self.rows[1::2], self.steps[1::2]
            self.stride *= 2

    def row(self, index: int) -> NDArray[np.uint8]:
        """Return a row of shape (tensors, ``width``)."""
        return np.frombuffer(zlib.decompress(self.rows[index]), np.uint8).reshape(-1, self.width)


def _compress_row(row: bytes) -> bytes:
    """Compress bytes that are mostly zero by run lengths: smaller than zlib's level 1, in half the time."""
    compressor = zlib.compressobj(1, strategy=zlib.Z_RLE)
    return compressor.compress(row) + compressor.flush()
