"""The error browser for readers that run no scripts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from nbdebug.views.errors.overview import pairs
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import short

if TYPE_CHECKING:
    from nbdebug.predictions.grid import Grid
    from nbdebug.views.errors.page import ErrorsView

MOST_CLASSES = 20  # of a grid that is written out in full
MOST_COLUMNS = 6  # beside a sample


def written(view: ErrorsView) -> str:
    """Headline, notes, counts, the worst samples, and what the panels say."""
    panels = "".join(one.html(state) for one, state in view.panels if state is not None)
    counts = "" if view.grid is None else counted(view.grid)
    head = paragraph(view.title) + paragraph(view.headline) + listed(view.notes)
    return head + counts + worst(view) + panels


def counted(grid: Grid) -> str:
    """All counts of a small grid, the most confused pairs of a large one."""
    title = paragraph(f"{grid.row_title} ↓, {grid.column_title} →, in {grid.unit}")
    if max(len(grid.rows), len(grid.columns)) <= MOST_CLASSES:
        rows = [[name, *map(str, line)] for name, line in zip(grid.rows, grid.counts.tolist(), strict=True)]
        return title + table(rows, ["", *grid.columns])
    found = [
        [grid.rows[i], grid.columns[j], str(count), f"{share:.1%} ({low:.1%} to {high:.1%})"]
        for i, j, count, share, low, high, _ in pairs(grid)
    ]
    head = (grid.row_title, grid.column_title, grid.unit, f"of this {grid.row_title}")
    return paragraph("Most often taken for each other") + table(found, head)


def worst(view: ErrorsView) -> str:
    """The first samples: what each is, what was said of it, its first columns, its tags and its note."""
    cards = view.first.get("cards", ())
    if not cards:
        return ""
    kind = "wrong " if view.judged else ""
    title = paragraph(f"The first {len(cards)} of {view.first.get('total', len(cards))} {kind}samples by {view.sort}")
    names = list(cards[0].get("values", {}))[:MOST_COLUMNS]
    head = _line(["sample", "", *cards[0]["said"], *names, "tags"], "th")
    return title + f"<table>{head}{''.join(_line_of(card, names) for card in cards)}</table>"


def _line_of(card: Mapping[str, Any], names: list[str]) -> str:
    texts = [*map(short, card["said"].values()), *(short(card["values"].get(name)) for name in names)]
    marks = ", ".join([*card["tags"], *filter(None, [card["note"]])])
    cells = "".join(f"<td>{escape(one)}</td>" for one in [*texts, marks])
    return f"<tr><td>{escape(str(card['key']))}</td><td>{thumbnail(card.get('shown'))}</td>{cells}</tr>"


def _line(cells: list[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(one)}</{tag}>" for one in cells) + "</tr>"


def thumbnail(shown: Mapping[str, Any] | None) -> str:
    """A sample in a cell: a picture, or the beginning of its text."""
    if shown is None:
        return ""
    if str(shown.get("src", "")).startswith("data:image/"):
        return f'<img src="{escape(shown["src"])}" alt="" height="40">'
    if shown["kind"] == "table":
        return escape(", ".join(f"{name} {text}" for name, text, _ in shown["rows"][:MOST_COLUMNS]))
    return escape(str(shown.get("text", ""))[:200])
