"""Foldable tables: columns, rows and cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, to_json_value
from nbdebug.views.page import View, to_script_json

_MAX_STATE_BYTES = 105_000
_MAX_PLAIN_ROWS = 80
_INDENT = "\u2003"
_Tone = Literal["", "soft", "good", "note", "warning", "error"]


@dataclass(frozen=True)
class Column:
    """A column: heading, kind of its cells, and a hint.

    A "number" is right-aligned; a "bar" has a bar proportional to the largest number; a "share" is between 0 and 1,
    shown in percent with a bar; "code" is monospaced text.
    """

    name: str
    kind: Literal["text", "code", "number", "bar", "share"] = "text"
    hint: str = ""


@dataclass(frozen=True)
class TextCell:
    """A cell with its own text, sort key and tone."""

    text: str
    sort_key: float | None = None
    tone: _Tone = ""


@dataclass(frozen=True)
class CellTag:
    """A tag in a cell, with more text on hover or click."""

    text: str
    tone: _Tone = "note"
    description: str = ""


Cell = str | float | TextCell | Sequence[CellTag] | None


@dataclass(frozen=True)
class TableRow:
    """A row: name, kind, cells, and nesting level.

    ``details`` are labelled texts shown on demand; ``folded`` initially hides the nested rows.
    """

    name: str
    cells: Sequence[Cell] = ()
    kind: str = ""
    level: int = 0
    details: Sequence[tuple[str, str]] = ()
    folded: bool = False


class _HasLevel(Protocol):
    """Anything with a nesting level."""

    @property
    def level(self) -> int:
        """The nesting level."""


LeveledRow = TypeVar("LeveledRow", bound=_HasLevel)


@dataclass
class FoldableTable(View):
    """Rows under ``columns``, the first of which holds their names.

    ``notice`` is a line above them with its tone; ``rooted`` says that the first row is the root, whose name is not
    part of the paths of the others. Too many rows for a page first lose their details, then the deepest rows are
    dropped.
    """

    module: ClassVar[str] = "views/table.js"

    title: str = ""
    status: str = ""
    columns: Sequence[Column] = ()
    rows: Sequence[TableRow] = ()
    notice: tuple[str, _Tone] = ("", "")
    note: str = ""
    noun: str = "rows"
    rooted: bool = False

    def state(self) -> dict[str, Any]:
        """Return each text once in ``words``, and rows that refer to them by index."""
        max_rows, details = len(self.rows), True
        while True:
            packed = self._packed(limit_rows(self.rows, max_rows), details)
            size = len(to_script_json(packed))
            if size <= _MAX_STATE_BYTES:
                break
            max_rows = max_rows if details else int(0.95 * len(packed["table"]) * _MAX_STATE_BYTES / size)
            details = False
        texts = {
            name: to_json_value(getattr(self, name)) for name in ("title", "status", "note", "noun", "rooted", "notice")
        }
        columns = [to_json_value(vars(column)) for column in self.columns]
        return {**texts, **packed, "columns": columns, "more": len(self.rows) - len(packed["table"])}

    def html(self) -> str:
        """Return a table of texts, and the descriptions of its tags."""
        rows = limit_rows(self.rows, _MAX_PLAIN_ROWS)
        head = [column.name for column in self.columns]
        body = [[_row_name(row), *map(cell_text, row.cells, self.columns[1:])] for row in rows]
        rows_with_paths = zip(rows, _row_paths(rows, self.rooted), strict=True)
        tag_texts = [
            f"{path}: {tag.text}: {tag.description}"
            for row, path in rows_with_paths
            for tag in _row_tags(row)
            if tag.description
        ]
        hidden = len(self.rows) - len(rows)
        hidden_note = html_paragraph(f"… and {hidden:,} more {self.noun}." if hidden else "")
        top = html_paragraph(f"{self.title} {self.status}") + html_paragraph(self.notice[0])
        return (
            top
            + html_table(body, head)
            + hidden_note
            + html_list(map(str, to_json_value(tag_texts)))
            + html_paragraph(self.note)
        )

    def _packed(self, rows: Sequence[TableRow], details: bool) -> dict[str, Any]:
        words: dict[str, int] = {}

        def word_index(text: str) -> int:
            return words.setdefault(str(to_json_value(text)), len(words))

        def cell(value: Cell) -> Any:
            if value is None or isinstance(value, (int, float)):
                return to_json_value(value)
            if isinstance(value, str):
                return [word_index(value)]
            if isinstance(value, TextCell):
                return [word_index(value.text), to_json_value(value.sort_key), value.tone]
            return {"tags": [[word_index(tag.text), tag.tone, word_index(tag.description)] for tag in value]}

        packed = [
            [
                row.level,
                int(row.folded),
                word_index(row.name),
                word_index(row.kind),
                [cell(cell_value) for cell_value in row.cells],
                *([[word_index(label), word_index(text)] for label, text in row.details] if details else ()),
            ]
            for row in rows
        ]
        return {"table": packed, "words": list(words)}


def limit_rows(rows: Sequence[LeveledRow], max_rows: int) -> Sequence[LeveledRow]:
    """Return at most ``max_rows`` rows: the deepest are dropped first, then the last."""
    if len(rows) <= max_rows:
        return rows
    counts = Counter(row.level for row in rows)
    levels = sorted(counts)
    cumulative = accumulate(counts[level] for level in levels)
    deepest = [level for level, total in zip(levels, cumulative, strict=True) if total <= max_rows]
    return [row for row in rows if row.level <= max(deepest, default=levels[0])][:max_rows]


def _row_paths(rows: Sequence[TableRow], rooted: bool) -> list[str]:
    """Return the name of each row, joined to the names of its parents."""
    names: list[str] = []
    result = []
    for row in rows:
        names[row.level :] = [row.name]
        result.append(".".join(names[1:] if rooted and row.level else names))
    return result


def _row_name(row: TableRow) -> str:
    return f"{_INDENT * row.level}{row.name}{f' ({row.kind})' if row.kind else ''}"


def _row_tags(row: TableRow) -> list[CellTag]:
    return [tag for cell in row.cells if isinstance(cell, Sequence) and not isinstance(cell, str) for tag in cell]


def cell_text(cell: Cell, column: Column) -> str:
    """Return a cell as plain text."""
    if cell is None:
        return ""
    if isinstance(cell, TextCell):
        return cell.text
    if isinstance(cell, str):
        return cell
    if isinstance(cell, (int, float)):
        return (
            format_percent(cell)
            if column.kind == "share"
            else f"{cell:,}"
            if isinstance(cell, int)
            else format_value(cell)
        )
    return ", ".join(tag.text for tag in cell)


def format_percent(share: float) -> str:
    """Return a share in percent: ``<1%`` for a small nonzero share, ``>99%`` for one just under 1."""
    whole = round(100 * share)
    return "<1%" if whole == 0 and share > 0 else ">99%" if whole == 100 and share < 1 else f"{whole}%"
