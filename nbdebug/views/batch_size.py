"""The batch-size finder: memory and throughput of each size as bars, and what is suggested."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain, short

COLUMNS = ("batch size", "memory at the peak", "samples a second", "ms a step")


@dataclass(frozen=True)
class Row:
    """One size: bytes at the peak and their text, samples a second by median and quartiles, milliseconds a step."""

    size: int
    memory: int
    said: str
    throughput: float
    low: float
    high: float
    milliseconds: float


@dataclass
class BatchSizeView(View):
    """A row for each size; ``limit`` is the longest bar of memory, in bytes, where it is known.

    ``suggestion`` and ``now`` are the sizes that are marked as suggested and as the user's own.
    """

    module: ClassVar[str] = "batch_size.js"
    height: ClassVar[int] = 200

    title: str = "Batch size"
    status: str = ""
    headline: str = ""
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    rows: Sequence[Row] = ()
    suggestion: int | None = None
    now: int | None = None
    limit: int | None = None
    code: str = ""
    stoppable: bool = False

    def state(self) -> dict[str, Any]:
        """All of it: a table has a few dozen rows at most."""
        names = ("title", "status", "headline", "suggestion", "now", "limit", "code", "stoppable")
        lists = {name: plain(list(getattr(self, name))) for name in ("reasons", "notes")}
        rows = [plain({**vars(one), "mark": self._mark(one)}) for one in self.rows]
        return {**{name: plain(getattr(self, name)) for name in names}, **lists, "columns": COLUMNS, "table": rows}

    def html(self) -> str:
        """Suggestion, reasons, and a row for each size."""
        rows = [
            [f"{one.size:,} {self._mark(one)}", one.said, short(round(one.throughput, 1)), short(one.milliseconds)]
            for one in self.rows
        ]
        top = paragraph(f"{self.title} {self.status}") + paragraph(self.headline) + listed(self.reasons)
        return top + table(rows, COLUMNS) + "".join(map(paragraph, (*self.notes, self.code)))

    def _mark(self, one: Row) -> str:
        marks = {"suggested": self.suggestion, "yours": self.now}
        return ", ".join(name for name, size in marks.items() if size == one.size)
