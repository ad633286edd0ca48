"""A record as bytes for a browser: whole and thinned, or what is new of it."""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from nbdebug.record import Record
from nbdebug.record.bins import COUNT
from nbdebug.record.table import Numbers, Shapes, Table
from nbdebug.views.series import thin

TABLES = ("run", "evaluations", "layers")
ATTEMPTS = 50
KEPT_BITS = np.uint32(0xFFFFF000)
LEVELS = 25
MOST_RUN_ROWS, MOST_LAYER_ROWS, MOST_HISTOGRAMS = 1_600, 160, 96
Read = TypeVar("Read")
Part = dict[str, Any]


@dataclass
class Sender:
    """How far the rows of a record were sent, so that each goes once, and carries an index."""

    ends: dict[str, tuple[int, int]] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    widths: dict[str, int] = field(default_factory=dict)

    def news(self, record: Record) -> tuple[list[Part], bytes]:
        """All that has come since the last call."""
        found = [self._rows(name, getattr(record, name)) for name in TABLES] + [self._shapes(record.shapes)]
        parts = [(part, data) for part, data in found if part["rows"]]
        return [part for part, _ in parts], b"".join(data for _, data in parts)

    def held(self, record: Record) -> dict[str, int]:
        """How many rows of each kind were sent and wait to be."""
        return {name: self._count(name, getattr(record, name)) for name in (*TABLES, "shapes")}

    def _rows(self, name: str, table: Table) -> tuple[Part, bytes]:
        start, first = self._begin(name, table), self.counts.get(name, 0)
        part: Part = {"name": name, "first": first, "rows": table.rows - start, "width": len(table.columns)}
        if part["rows"] and self.widths.get(name) != len(table.columns):
            self.widths[name], part["columns"] = len(table.columns), list(table.columns)
        self._sent(name, table.stride, table.rows, part["rows"])
        return part, floats(table.steps[start:], table.values[start:])

    def _shapes(self, shapes: Shapes) -> tuple[Part, bytes]:
        start, first = self._begin("shapes", shapes), self.counts.get("shapes", 0)
        rows = shapes.rows[start:]
        self._sent("shapes", shapes.stride, len(shapes.rows), len(rows))
        sizes = [len(row) for row in rows]
        return {"name": "shapes", "first": first, "rows": len(rows), "steps": shapes.steps[start:], "sizes": sizes}, (
            b"".join(rows)
        )

    def _begin(self, name: str, source: Table | Shapes) -> int:
        """The first row that was not sent; where every second row went, the same one has half the index."""
        stride, rows = self.ends.get(name, (source.stride, 0))
        while stride < source.stride:
            stride, rows = 2 * stride, (rows + 1) // 2
        return rows

    def _sent(self, name: str, stride: int, rows: int, more: int) -> None:
        self.ends[name] = stride, rows
        self.counts[name] = self.counts.get(name, 0) + more

    def _count(self, name: str, source: Table | Shapes) -> int:
        rows = len(source.rows) if isinstance(source, Shapes) else source.rows
        return self.counts.get(name, 0) + rows - self._begin(name, source)


def whole(record: Record, head: dict[str, Any], most: int, level: int = 6) -> bytes:
    """``head`` and all tables in at most about ``most`` bytes: rows thinned, numbers rounded to three digits or so."""
    part = min(1.0, 25 * most / max(1, len(record.drawn) * COUNT * MOST_HISTOGRAMS))
    while True:
        packed = _packed(record, head, part, level)
        if len(packed) <= most or part < 0.01:
            return packed
        part *= max(0.3, min(0.9, 0.95 * most / len(packed)))


def _packed(record: Record, head: dict[str, Any], part: float, level: int) -> bytes:
    parts = [_run(record.run, "run", part), _run(record.evaluations, "evaluations", part), _layers(record, part)]
    parts.append(steady(lambda: _histograms(record.shapes, max(2, int(MOST_HISTOGRAMS * part)))))
    text = json.dumps({**head, "parts": [one for one, _ in parts]}, allow_nan=False, separators=(",", ":")).encode()
    body = b"".join(data for _, data in parts)
    return zlib.compress(np.uint32(len(text)).tobytes() + text + body, level)


def _run(table: Table, name: str, part: float) -> tuple[Part, bytes]:
    """A table in which the extremes of its first column stay."""
    steps, values, columns = steady(lambda: copied(table))
    first = values[:, 0].tolist() if values.shape[1] else []
    keep = np.array(thin(first, max(8, int(MOST_RUN_ROWS * part**0.3))), int)
    return _table(name, steps[keep], values[keep], columns)


def _layers(record: Record, part: float) -> tuple[Part, bytes]:
    steps, values, columns = steady(lambda: copied(record.layers))
    keep = spread(len(steps), max(2, int(MOST_LAYER_ROWS * part)))
    return _table("layers", steps[keep], values[keep], columns)


def _table(name: str, steps: NDArray[np.int64], values: Numbers, columns: list[str]) -> tuple[Part, bytes]:
    short = (values.view(np.uint32) + np.uint32(0x800)) & KEPT_BITS if values.size else values
    part = {"name": name, "columns": columns, "rows": len(steps), "width": len(columns)}
    return part, floats(steps, short.view(np.float32))


def copied(table: Table) -> tuple[NDArray[np.int64], Numbers, list[str]]:
    """Steps, values and columns as of one moment; raises ValueError where the table changed its shape meanwhile."""
    stride = table.stride
    steps, values, columns = table.steps.copy(), table.values.copy(), list(table.columns)
    if table.stride != stride or values.shape[1] != len(columns):
        raise ValueError("the table is being written")
    rows = min(len(steps), len(values))
    return steps[:rows], values[:rows], columns


def _histograms(shapes: Shapes, most: int) -> tuple[Part, bytes]:
    """Histograms in few levels, steps last: what hardly moves is packed best so. A bin that holds anything stays."""
    keep = spread(len(shapes.rows), most)
    rows = [coarse(shapes.row(i)) for i in keep]
    part = {"name": "shapes", "rows": len(keep), "steps": [shapes.steps[i] for i in keep]}
    return part, np.moveaxis(np.stack(rows), 0, -1).tobytes() if rows else b""


def coarse(bytes_: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Bytes as ``LEVELS`` levels by their square root, which tells small ones apart."""
    table = np.rint((LEVELS - 1) * np.sqrt(np.arange(256) / 255)).astype(np.uint8)
    table[1:] = np.maximum(table[1:], 1)
    return np.asarray(table[bytes_])


def spread(count: int, most: int) -> list[int]:
    """At most ``most`` indices, evenly, with both ends."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist())) if count else []


def floats(steps: NDArray[np.int64], values: Numbers) -> bytes:
    """Steps as float64, then the values as float32, of which all first bytes come first: so they are packed well."""
    flat = np.ascontiguousarray(values, np.float32).view(np.uint8).reshape(-1, 4)
    return steps.astype(np.float64).tobytes() + flat.T.tobytes()


def steady(read: Callable[[], Read]) -> Read:
    """What ``read`` gives, tried again where the record was thinned or widened by another thread meanwhile."""
    for _ in range(ATTEMPTS):
        try:
            return read()
        except (IndexError, ValueError):
            time.sleep(0.001)  # lets the thread that writes come to an end
    return read()
