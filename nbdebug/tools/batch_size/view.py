"""View of the batch-size finder: memory and throughput of each size as bars, and the suggestion."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, to_json_value
from nbdebug.views.page import View

_COLUMNS = ("batch size", "peak memory", "samples per second", "ms per step")


@dataclass(frozen=True)
class BatchSizeRow:
    """One size: peak bytes and their text, median and quartiles of samples per second, milliseconds per step."""

    size: int
    memory: int
    said: str
    throughput: float
    low: float
    high: float
    milliseconds: float


@dataclass
class BatchSizeView(View):
    """A row for each size; ``limit`` is the maximum of the memory bars in bytes, if known.

    ``suggestion`` and ``now`` are the sizes marked as suggested and as the user's own.
    """

    module: ClassVar[str] = "tools/batch_size/page.js"
    height: ClassVar[int] = 200

    title: str = "Batch size"
    status: str = ""
    headline: str = ""
    reasons: Sequence[str] = ()
    notes: Sequence[str] = ()
    rows: Sequence[BatchSizeRow] = ()
    suggestion: int | None = None
    now: int | None = None
    limit: int | None = None
    code: str = ""
    stoppable: bool = False

    def state(self) -> dict[str, Any]:
        """Return the state for the browser; it is not thinned, since the table has a few dozen rows at most."""
        names = ("title", "status", "headline", "suggestion", "now", "limit", "code", "stoppable")
        lists = {name: to_json_value(list(getattr(self, name))) for name in ("reasons", "notes")}
        rows = [to_json_value({**vars(row), "mark": self._mark(row)}) for row in self.rows]
        return {
            **{name: to_json_value(getattr(self, name)) for name in names},
            **lists,
            "columns": _COLUMNS,
            "table": rows,
        }

    def html(self) -> str:
        """Return the suggestion, its reasons, and a row for each size as HTML."""
        rows = [
            [
                f"{row.size:,} {self._mark(row)}",
                row.said,
                format_value(round(row.throughput, 1)),
                format_value(row.milliseconds),
            ]
            for row in self.rows
        ]
        top = html_paragraph(f"{self.title} {self.status}") + html_paragraph(self.headline) + html_list(self.reasons)
        return top + html_table(rows, _COLUMNS) + "".join(map(html_paragraph, (*self.notes, self.code)))

    def _mark(self, row: BatchSizeRow) -> str:
        marks = {"suggested": self.suggestion, "yours": self.now}
        return ", ".join(name for name, size in marks.items() if size == row.size)
