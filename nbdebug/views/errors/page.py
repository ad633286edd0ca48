"""The error browser: an overview to click, a gallery of the samples behind it, and panels beside."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from nbdebug.views.base import View
from nbdebug.views.markup import listed, paragraph, table
from nbdebug.views.plain import plain, short

if TYPE_CHECKING:
    from nbdebug.predictions.grid import Grid
    from nbdebug.tools.errors.panels import Panel


@dataclass
class ErrorsView(View):
    """The browser as it opens.

    ``columns`` maps a column to "number" or "text"; ``first`` is the page of the gallery that needs no kernel;
    ``panels`` are with their states, None for one that is computed when it is opened.
    """

    module: ClassVar[str] = "errors/page.js"
    height: ClassVar[int] = 480

    title: str = ""
    headline: str = ""
    notes: Sequence[str] = ()
    task: str = ""
    rows: int = 0
    grid: Grid | None = None
    columns: Mapping[str, str] = field(default_factory=dict)
    sort: str = ""
    first: Mapping[str, Any] = field(default_factory=dict)
    tags: Sequence[str] = ()
    tagged: Mapping[str, int] = field(default_factory=dict)
    panels: Sequence[tuple[Panel, dict[str, Any] | None]] = ()

    def state(self) -> dict[str, Any]:
        """All that the page holds; of a large grid the cells that are not zero."""
        texts = {name: plain(getattr(self, name)) for name in ("title", "headline", "task", "sort")}
        return {
            **texts,
            "notes": plain(list(self.notes)),
            "samples": self.rows,
            "grid": _grid(self.grid),
            "columns": dict(self.columns),
            "first": dict(self.first),
            "tags": list(self.tags),
            "tagged": dict(self.tagged),
            "panels": [{"name": one.name, "title": one.title, "state": state} for one, state in self.panels],
        }

    def html(self) -> str:
        """Headline, counts and the worst samples as plain tables."""
        rows = [[str(one["key"]), *map(short, one["said"].values())] for one in self.first.get("cards", ())]
        panels = "".join(one.html(state) for one, state in self.panels if state is not None)
        return paragraph(self.title) + paragraph(self.headline) + listed(self.notes) + table(rows) + panels


def _grid(grid: Grid | None) -> dict[str, Any] | None:
    if grid is None:
        return None
    where = grid.counts.nonzero()
    cells = [[int(i), int(j), int(grid.counts[i, j])] for i, j in zip(*where, strict=True)]
    names = {"rows": list(grid.rows), "columns": list(grid.columns)}
    titles = {"row_title": grid.row_title, "column_title": grid.column_title, "unit": grid.unit}
    return {**names, **titles, "cells": cells, "diagonal": grid.diagonal, "good": list(grid.good)}
