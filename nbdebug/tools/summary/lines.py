"""The summary as lines of text."""

from __future__ import annotations

from collections.abc import Sequence

from nbdebug.finding import Finding
from nbdebug.tools.summary.phrases import kind_of, remark, stop, subject
from nbdebug.tools.summary.picture import COLUMNS, cells
from nbdebug.tools.summary.result import Row, Summary
from nbdebug.views.table import fitting, words

MOST_LINES = 100


def text(result: Summary) -> str:
    """A line for each submodule in columns, then what its findings say."""
    shown = fitting(result.rows, MOST_LINES)
    lines = [[one.name for one in COLUMNS], *(line(row, result) for row in shown)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    more = len(result.rows) - len(shown)
    rest = f"… and {more:,} more modules that lie deeper" if more else ""
    told = [said(row, one) for row in result.rows for one in row.findings]
    head = [f"nbdebug summary: {subject(result)}", stop(result)]
    return "\n".join(filter(None, [*head, *(aligned(one, widths) for one in lines), rest, *told, remark(result)]))


def line(row: Row, result: Summary) -> list[str]:
    """The texts of a row, its name indented."""
    name = f"{'  ' * row.level}{row.name} {kind_of(row)}".rstrip()
    return [name, *map(words, cells(row, result), COLUMNS[1:])]


def aligned(texts: Sequence[str], widths: Sequence[int]) -> str:
    """Texts in columns, numbers to the right."""
    sides = [">" if one.kind in ("bar", "share") else "<" for one in COLUMNS]
    return "  ".join(f"{text:{side}{width}}" for text, side, width in zip(texts, sides, widths, strict=True)).rstrip()


def said(row: Row, finding: Finding) -> str:
    """A finding on one line."""
    return f"{row.path or row.name}: {finding.severity} {finding.code} {finding.name}: {finding.message}"
