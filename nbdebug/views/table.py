"""A table whose rows may hang under each other: to fold, to sort, to filter, and to ask for more about a row."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from nbdebug.views.base import View, script
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain, short

BYTES_OF_STATE = 105_000
MOST_PLAIN_ROWS = 80
INDENT = "\u2003"
Tone = Literal["", "soft", "good", "note", "warning", "error"]


@dataclass(frozen=True)
class Column:
    """A column: its heading, how its numbers are drawn, and a word about it for those who point at it.

    A "number" is right-aligned; a "bar" is one with a bar as long as its part of the largest; a "share" is a part of
    one, in percent, with its bar; "code" is text of one width.
    """

    name: str
    kind: Literal["text", "code", "number", "bar", "share"] = "text"
    hint: str = ""


@dataclass(frozen=True)
class Said:
    """A cell with words of its own: the text that is shown, what it is sorted by, and its tone."""

    text: str
    by: float | None = None
    tone: Tone = ""


@dataclass(frozen=True)
class Tag:
    """A mark in a cell that tells more when it is pointed at or clicked."""

    text: str
    tone: Tone = "note"
    more: str = ""


Cell = str | float | Said | Sequence[Tag] | None


@dataclass(frozen=True)
class Row:
    """A row: its name, a word about its kind, its cells, and how deep it hangs under those before it.

    ``details`` are labelled texts that are shown on demand; ``folded`` hides at first what hangs under it.
    """

    name: str
    cells: Sequence[Cell] = ()
    kind: str = ""
    level: int = 0
    details: Sequence[tuple[str, str]] = ()
    folded: bool = False


class Leveled(Protocol):
    """Whatever hangs so deep under what comes before it."""

    @property
    def level(self) -> int:
        """How deep."""


Hanging = TypeVar("Hanging", bound=Leveled)


@dataclass
class Table(View):
    """Rows under ``columns``, the first of which is for their names.

    ``notice`` is a line above them with its tone; ``rooted`` says that the first row is the whole, whose name is not a
    part of the paths of the others. Too many rows for a page lose their details, then the deepest ones go.
    """

    module: ClassVar[str] = "table.js"

    title: str = ""
    status: str = ""
    columns: Sequence[Column] = ()
    rows: Sequence[Row] = ()
    notice: tuple[str, Tone] = ("", "")
    note: str = ""
    noun: str = "rows"
    rooted: bool = False

    def state(self) -> dict[str, Any]:
        """Texts once each in ``words``, and rows that refer to them by number."""
        most, details = len(self.rows), True
        while True:
            packed = self._packed(fitting(self.rows, most), details)
            size = len(script(packed))
            if size <= BYTES_OF_STATE:
                break
            most = most if details else int(0.95 * len(packed["table"]) * BYTES_OF_STATE / size)
            details = False
        texts = {name: plain(getattr(self, name)) for name in ("title", "status", "note", "noun", "rooted", "notice")}
        columns = [plain(vars(one)) for one in self.columns]
        return {**texts, **packed, "columns": columns, "more": len(self.rows) - len(packed["table"])}

    def html(self) -> str:
        """A table of texts, and what its marks tell."""
        shown = fitting(self.rows, MOST_PLAIN_ROWS)
        head = [one.name for one in self.columns]
        body = [[_named(row), *map(words, row.cells, self.columns[1:])] for row in shown]
        named = zip(shown, paths(shown, self.rooted), strict=True)
        told = [f"{path}: {tag.text}: {tag.more}" for row, path in named for tag in _tags(row) if tag.more]
        more = len(self.rows) - len(shown)
        rest = paragraph(f"… and {more:,} more {self.noun}." if more else "")
        top = paragraph(f"{self.title} {self.status}") + paragraph(self.notice[0])
        return top + table(body, head) + rest + listed(map(str, plain(told))) + paragraph(self.note)

    def _packed(self, rows: Sequence[Row], details: bool) -> dict[str, Any]:
        words: dict[str, int] = {}

        def word(text: str) -> int:
            return words.setdefault(str(plain(text)), len(words))

        def cell(given: Cell) -> Any:
            if given is None or isinstance(given, (int, float)):
                return plain(given)
            if isinstance(given, str):
                return [word(given)]
            if isinstance(given, Said):
                return [word(given.text), plain(given.by), given.tone]
            return {"tags": [[word(tag.text), tag.tone, word(tag.more)] for tag in given]}

        packed = [
            [
                row.level,
                int(row.folded),
                word(row.name),
                word(row.kind),
                [cell(one) for one in row.cells],
                *([[word(label), word(text)] for label, text in row.details] if details else ()),
            ]
            for row in rows
        ]
        return {"table": packed, "words": list(words)}


def fitting(rows: Sequence[Hanging], most: int) -> Sequence[Hanging]:
    """At most so many of the rows: the deepest go first, then the last."""
    if len(rows) <= most:
        return rows
    counts = Counter(row.level for row in rows)
    levels = sorted(counts)
    sums = accumulate(counts[level] for level in levels)
    deepest = [level for level, total in zip(levels, sums, strict=True) if total <= most]
    return [row for row in rows if row.level <= max(deepest, default=levels[0])][:most]


def paths(rows: Sequence[Row], rooted: bool) -> list[str]:
    """The name of each row with the names of all above it."""
    names: list[str] = []
    found = []
    for row in rows:
        names[row.level :] = [row.name]
        found.append(".".join(names[1:] if rooted and row.level else names))
    return found


def _named(row: Row) -> str:
    return f"{INDENT * row.level}{row.name}{f' ({row.kind})' if row.kind else ''}"


def _tags(row: Row) -> list[Tag]:
    return [tag for cell in row.cells if isinstance(cell, Sequence) and not isinstance(cell, str) for tag in cell]


def words(cell: Cell, column: Column) -> str:
    """A cell in plain words."""
    if cell is None:
        return ""
    if isinstance(cell, Said):
        return cell.text
    if isinstance(cell, str):
        return cell
    if isinstance(cell, (int, float)):
        return percent(cell) if column.kind == "share" else f"{cell:,}" if isinstance(cell, int) else short(cell)
    return ", ".join(tag.text for tag in cell)


def percent(share: float) -> str:
    """A share of one in percent, whole only where it is: ``<1%`` is not none, and ``>99%`` not all."""
    whole = round(100 * share)
    return "<1%" if whole == 0 and share > 0 else ">99%" if whole == 100 and share < 1 else f"{whole}%"
