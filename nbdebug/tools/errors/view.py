"""The page of the error browser: an overview to click, a gallery of samples, panels, and plain HTML."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from nbdebug.formatting import format_value, html_list, html_paragraph, html_table, to_json_value, value_with_interval
from nbdebug.metrics.classification import confused_pairs, order_by_confusion
from nbdebug.statistics.intervals import wilson_interval
from nbdebug.tools.errors.cards import wrong_counts
from nbdebug.views.page import View, limit_panels

if TYPE_CHECKING:
    from nbdebug.metrics.classification import Counts
    from nbdebug.predictions.table import Grid
    from nbdebug.tools.errors.data import ErrorData
    from nbdebug.views.panel import Panel

_MAX_CELLS = 50_000  # in a page, at most 350 kB
_MAX_PAIRS = 30
_MAX_CLASSES_BY_SIMILARITY = 1_000  # classes; sorting these by similarity takes less than 0.1 s
_MAX_NAME_CHARACTERS = 150_000  # characters of all class names in a page
_MAX_WRITTEN_CLASSES = 20  # of a grid written out in full
_MAX_WRITTEN_COLUMNS = 6  # next to a sample
_MAX_CARD_BYTES = 200_000  # bytes of the pictures of the first cards, which a page holds twice
_MAX_CELL_CARD_BYTES = 60_000  # bytes of the pictures of the samples of every cell
_MAX_PANEL_BYTES = 300_000  # bytes of all panel states, in a page of 1 MB


def grid_state(grid: Grid) -> dict[str, Any]:
    """Return the grid, ready for JSON.

    ``cells`` are pairs of the distance from the preceding nonzero cell, row by row, and the count. ``left_out`` is the
    number of omitted cells, the smallest ones. ``pairs`` are [row, column, count, share, low, high, back].
    """
    cells, left_out = sparse_cells(grid.counts)
    return {
        "rows": _shorten_names(grid.rows),
        "columns": _shorten_names(grid.columns) if grid.columns != grid.rows else None,
        "row_title": grid.row_title,
        "column_title": grid.column_title,
        "unit": grid.unit,
        "diagonal": grid.diagonal,
        "good": list(grid.correct_columns),
        "cells": cells,
        "left_out": left_out,
        "row_sums": grid.counts.sum(1).tolist(),
        "column_sums": grid.counts.sum(0).tolist(),
        "orders": _class_orders(grid),
        "pairs": _largest_errors(grid),
    }


def sparse_cells(counts: Counts) -> tuple[list[int], int]:
    """Return the nonzero cells as steps and counts, and the number of omitted cells."""
    flat = counts.ravel()
    positions = np.flatnonzero(flat)
    left_out = max(0, len(positions) - _MAX_CELLS)
    if left_out:
        positions = np.sort(positions[np.argsort(-flat[positions], kind="stable")[:_MAX_CELLS]])
    steps = np.diff(positions, prepend=0)
    return [int(number) for number in np.stack([steps, flat[positions]], 1).ravel()], left_out


def _class_orders(grid: Grid) -> dict[str, list[int]]:
    """Return orders of the rows by errors and, if rows and columns are the same classes, by similarity."""
    errors = wrong_counts(grid)
    weight = errors.sum(1) + (errors.sum(0) if grid.diagonal else 0)
    orders_by_name = {"errors": np.argsort(-weight, kind="stable").tolist()}
    if grid.diagonal and 2 < len(grid.rows) <= _MAX_CLASSES_BY_SIMILARITY:
        orders_by_name["similarity"] = order_by_confusion(grid.counts)
    return orders_by_name


def _largest_errors(grid: Grid) -> list[list[Any]]:
    """Return the largest wrong cells, each with its share of the row and the count of the reverse confusion."""
    if grid.diagonal:
        confused = confused_pairs(grid.counts, _MAX_PAIRS)
        return [
            [pair.target, pair.prediction, pair.count, *value_with_interval(pair.share, pair.low, pair.high), pair.back]
            for pair in confused
        ]
    counts, rows = wrong_counts(grid), grid.counts.sum(1)
    positions = np.flatnonzero(counts)
    order = positions[np.argsort(-counts.ravel()[positions], kind="stable")[:_MAX_PAIRS]]
    cells = [divmod(int(pair), counts.shape[1]) for pair in order]
    numbers = [int(counts[cell]) for cell in cells]
    lows, highs = wilson_interval(numbers, [int(rows[i]) for i, _ in cells])
    return [
        [i, j, number, *value_with_interval(number / rows[i], low, high), None]
        for (i, j), number, low, high in zip(cells, numbers, lows, highs, strict=True)
    ]


def _shorten_names(names: tuple[str, ...]) -> list[str]:
    """Shorten names so that all of them together fit the page."""
    max_characters = max(12, _MAX_NAME_CHARACTERS // max(1, len(names)))
    return [name if len(name) <= max_characters else name[: max_characters - 1] + "…" for name in names]


def _errors_html(view: ErrorsView) -> str:
    """Return headline, notes, counts, worst samples and panels as HTML."""
    panels = "".join(panel.html(state) for panel, state in view.panels if state is not None)
    grid_text = "" if view.grid is None else _grid_html(view.grid)
    head = html_paragraph(view.title) + html_paragraph(view.headline) + html_list(view.notes)
    return head + grid_text + _worst_samples_html(view) + panels


def _grid_html(grid: Grid) -> str:
    """Return all counts of a small grid, or the most confused pairs of a large one."""
    title = html_paragraph(f"{grid.row_title} ↓, {grid.column_title} →, in {grid.unit}")
    if max(len(grid.rows), len(grid.columns)) <= _MAX_WRITTEN_CLASSES:
        rows = [[name, *map(str, line)] for name, line in zip(grid.rows, grid.counts.tolist(), strict=True)]
        return title + html_table(rows, ["", *grid.columns])
    pair_rows = [
        [grid.rows[i], grid.columns[j], str(count), f"{share:.1%} ({low:.1%} to {high:.1%})"]
        for i, j, count, share, low, high, _ in _largest_errors(grid)
    ]
    head = (grid.row_title, grid.column_title, grid.unit, f"of this {grid.row_title}")
    return html_paragraph("Most confused pairs") + html_table(pair_rows, head)


def _worst_samples_html(view: ErrorsView) -> str:
    """Return the first samples with predictions, columns, tags and notes."""
    cards = view.first_cards.get("cards", ())
    if not cards:
        return ""
    kind = "wrong " if view.has_correctness else ""
    title = html_paragraph(
        f"The first {len(cards)} of {view.first_cards.get('total', len(cards))} {kind}samples by {view.sort}"
    )
    names = list(cards[0].get("values", {}))[:_MAX_WRITTEN_COLUMNS]
    head = _table_row_html(["sample", "", *cards[0]["said"], *names, "tags"], "th")
    table = f"<table>{head}{''.join(_card_row_html(card, names) for card in cards)}</table>"
    return title + table + html_paragraph(view.stored_note)


def _card_row_html(card: Mapping[str, Any], names: list[str]) -> str:
    texts = [*map(format_value, card["said"].values()), *(format_value(card["values"].get(name)) for name in names)]
    marks = ", ".join([*card["tags"], *filter(None, [card["note"]])])
    cells = "".join(f"<td>{escape(text)}</td>" for text in [*texts, marks])
    return f"<tr><td>{escape(str(card['key']))}</td><td>{_thumbnail_html(card.get('shown'))}</td>{cells}</tr>"


def _table_row_html(cells: list[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"


def _thumbnail_html(sample_state: Mapping[str, Any] | None) -> str:
    """Return an image, or the beginning of a text."""
    if sample_state is None:
        return ""
    if str(sample_state.get("src", "")).startswith("data:image/"):
        return f'<img src="{escape(sample_state["src"])}" alt="" height="40">'
    if sample_state["kind"] == "table":
        return escape(", ".join(f"{name} {text}" for name, text, _ in sample_state["rows"][:_MAX_WRITTEN_COLUMNS]))
    return escape(str(sample_state.get("text", ""))[:200])


@dataclass
class ErrorsView(View):
    """The browser as it opens.

    ``columns`` maps a column to its summary. ``judged`` is whether rows are right
    or wrong. ``first_cards`` is the gallery page that needs no kernel, and ``cell_cards`` are samples of every cell,
    which a click on a cell shows without a kernel. ``panels`` are paired with their states, None for a panel that is
    computed on opening.
    """

    module: ClassVar[str] = "tools/errors/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/errors", "tools/explain")
    height: ClassVar[int] = 480

    title: str = ""
    headline: str = ""
    notes: Sequence[str] = ()
    task: str = ""
    rows: int = 0
    grid: Grid | None = None
    columns: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    sort: str = ""
    has_correctness: bool = True
    first_cards: Mapping[str, Any] = field(default_factory=dict)
    cell_cards: Mapping[str, Any] = field(default_factory=dict)
    tags: Sequence[str] = ()
    tag_counts: Mapping[str, int] = field(default_factory=dict)
    can_explain: bool = False
    can_try_labels: bool = False
    panels: Sequence[tuple[Panel[ErrorData], dict[str, Any] | None]] = ()

    def __post_init__(self) -> None:
        """Drop samples and panel states that are too large for a page."""
        self.first_cards = {**self.first_cards, "cards": list(_limit_card_bytes(self.first_cards.get("cards", ())))}
        cards = self.cell_cards.get("cards", ())
        stored = _fitting_cards(cards, _MAX_CELL_CARD_BYTES)
        self.cell_cards = {**self.cell_cards, "cards": stored, "too_large": len(cards) - len(stored)}
        self.panels = limit_panels(self.panels, _MAX_PANEL_BYTES)

    def state(self) -> dict[str, Any]:
        """Return the page state; of a large grid, only the nonzero cells."""
        texts = {name: to_json_value(getattr(self, name)) for name in ("title", "headline", "task", "sort")}
        return {
            **texts,
            "notes": to_json_value(list(self.notes)),
            "samples": self.rows,
            "judged": self.has_correctness,
            "grid": None if self.grid is None else grid_state(self.grid),
            "columns": {name: dict(item) for name, item in self.columns.items()},
            "first": dict(self.first_cards),
            "stored": self.cell_cards["cards"],
            "stored_note": self.stored_note,
            "tags": list(self.tags),
            "tagged": dict(self.tag_counts),
            "explains": self.can_explain,
            "tries_labels": self.can_try_labels,
            "panels": [{"name": item.name, "title": item.title, "state": state} for item, state in self.panels],
        }

    @property
    def stored_note(self) -> str:
        """One sentence: the samples that a page without Python holds, and those that it leaves out."""
        first, more = len(self.first_cards["cards"]), len(self.cell_cards["cards"])
        if first + more >= self.rows:
            return ""
        left_out, too_large = self.cell_cards.get("left_out", 0), self.cell_cards["too_large"]
        parts = [
            f"This page holds {first + more} of {self.rows:,} samples: the first {first}",
            "and up to 2 of each cell, the worst first" if more else "",
            f"without {left_out:,} smaller cells" if left_out else "",
            f"without {too_large} samples for which there was no space" if too_large else "",
        ]
        return f"{', '.join(filter(None, parts))}."

    def html(self) -> str:
        """Return headline, counts or most confused pairs, and the worst samples, for readers without scripts."""
        return _errors_html(self)


def _fitting_cards(cards: Sequence[Mapping[str, Any]], max_bytes: int) -> list[dict[str, Any]]:
    """Return the cards, in their order, that fit into so many bytes."""
    fitting = []
    for card in cards:
        size = len(json.dumps(card))
        if size <= max_bytes:
            fitting.append(dict(card))
            max_bytes -= size
    return fitting


def _limit_card_bytes(cards: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the cards, without the samples that exceed the size of the page."""
    remaining = _MAX_CARD_BYTES
    for card in cards:
        size = len(json.dumps(card.get("shown")))
        if size > remaining:
            text = "too large for a saved page; run the cell again to see it"
            yield {**card, "shown": {"kind": "trouble", "text": text}}
        else:
            remaining -= size
            yield dict(card)
