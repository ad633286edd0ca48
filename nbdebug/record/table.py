"""Rows by step: thinned when they grow too many, and never cut."""

from __future__ import annotations

import math
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float32]


class Table:
    """Columns of float32 by step. Past ``most`` rows every second one goes and the stride doubles.

    Rows may be of several kinds, each of which is thinned by itself, so that none goes missing where they alternate.
    A column that is named later is NaN in the rows before.
    """

    def __init__(self, columns: Iterable[str] = (), most: int = 8192) -> None:
        self.columns = {name: i for i, name in enumerate(columns)}
        self.most, self.stride, self.rows = most, 1, 0
        self.counts, self._kinds = Counter[str](), list[str]()
        self._steps = np.zeros(64, np.int64)
        self._values: Numbers = np.zeros((64, len(self.columns)), np.float32)

    @property
    def steps(self) -> NDArray[np.int64]:
        """The steps of the rows that are kept."""
        return self._steps[: self.rows]

    @property
    def values(self) -> Numbers:
        """The rows that are kept, one column a name."""
        return self._values[: self.rows]

    @property
    def seen(self) -> int:
        """How many rows were given, kept or not."""
        return self.counts.total()

    def leave_out(self) -> None:
        """Counts a row whose turn has not come."""
        self.counts[""] += 1

    def append(self, step: int, row: Mapping[str, float] | Numbers, kind: str = "") -> None:
        """Keeps a row if the turn of its kind has come: a whole one, or some columns by name."""
        if self.counts[kind] % self.stride == 0:
            whole = row if isinstance(row, np.ndarray) else self.filled(row)
            self.put([step], np.asarray(whole, np.float32)[None], kind)
        self.counts[kind] += 1
        if self.rows > self.most:
            self.thin()

    def extend(self, rows: Sequence[tuple[int, Mapping[str, float]]]) -> None:
        """Keeps several rows of one kind, each with its step, if their turn has come."""
        if self.rows + len(rows) > self.most:
            for step, row in rows:
                self.append(step, row)
            return
        kept = rows[-self.counts[""] % self.stride :: self.stride]
        self.widen(name for _, row in kept for name in row)
        if kept:
            cells = [[row.get(name, math.nan) for name in self.columns] for _, row in kept]
            self.put([step for step, _ in kept], np.array(cells, np.float32))
        self.counts[""] += len(rows)

    def filled(self, row: Mapping[str, float]) -> Numbers:
        """A whole row of which some columns are given."""
        self.widen(row)
        found = np.full(len(self.columns), np.nan, np.float32)
        for name, value in row.items():
            found[self.columns[name]] = value
        return found

    def widen(self, names: Iterable[str]) -> None:
        """Makes room for the columns that are new, all at once since every row is copied."""
        before = len(self.columns)
        for name in names:
            self.columns.setdefault(name, len(self.columns))
        if more := len(self.columns) - before:
            fresh = np.full((len(self._values), more), np.nan, np.float32)
            self._values = np.concatenate([self._values, fresh], axis=1)

    def put(self, steps: Iterable[int], values: Numbers, kind: str = "") -> None:
        """Adds rows as they are."""
        self._kinds += [kind] * len(values)
        end = self.rows + len(values)
        while end > len(self._steps):
            room = min(len(self._steps), self.most + 1)
            self._steps = np.concatenate([self._steps, np.zeros(room, np.int64)])
            self._values = np.concatenate([self._values, np.zeros((room, len(self.columns)), np.float32)])
        self._steps[self.rows : end] = list(steps)
        self._values[self.rows : end, : values.shape[1]] = values
        self.rows = end

    def thin(self) -> None:
        """Drops every second row of each kind."""
        ranks, keep = Counter[str](), list[int]()
        for i, kind in enumerate(self._kinds):
            if ranks[kind] % 2 == 0:
                keep.append(i)
            ranks[kind] += 1
        kept = len(keep)
        self._steps[:kept], self._values[:kept] = self.steps[keep], self.values[keep]
        self._kinds = [self._kinds[i] for i in keep]
        self.rows, self.stride = kept, 2 * self.stride

    def column(self, name: str) -> tuple[NDArray[np.int64], Numbers]:
        """Steps and values of one column where it has any; a value that is not finite but was seen is infinite."""
        if name not in self.columns:
            return np.zeros(0, np.int64), np.zeros(0, np.float32)
        values = self.values[:, self.columns[name]]
        there = ~np.isnan(values)
        return self.steps[there].copy(), values[there].copy()


class Shapes:
    """Histograms of all places by step, each row packed; thinned like a table."""

    def __init__(self, width: int, most: int = 128) -> None:
        self.width, self.most, self.stride, self.seen = width, most, 1, 0
        self.steps: list[int] = []
        self.rows: list[bytes] = []

    @property
    def due(self) -> bool:
        """Whether the next row would be kept."""
        return self.seen % self.stride == 0

    def append(self, step: int, row: NDArray[np.uint8] | None) -> None:
        """Keeps a row, places × ``width`` bytes, if its turn has come; None where it was known not to have."""
        if self.due and row is not None:
            self.steps.append(step)
            self.rows.append(shortened(row.tobytes()))
        self.seen += 1
        if len(self.rows) > self.most:
            del self.rows[1::2], self.steps[1::2]
            self.stride *= 2

    def row(self, index: int) -> NDArray[np.uint8]:
        """One row, places × ``width``."""
        return np.frombuffer(zlib.decompress(self.rows[index]), np.uint8).reshape(-1, self.width)


def shortened(row: bytes) -> bytes:
    """Bytes that are mostly zero, packed by their runs: smaller than by zlib's level 1, and in half the time."""
    packer = zlib.compressobj(1, strategy=zlib.Z_RLE)
    return packer.compress(row) + packer.flush()
