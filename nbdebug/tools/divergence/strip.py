"""View of a first divergence: a strip of steps for each signal, shaded by its difference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import log10
from typing import Any, ClassVar, Literal

from nbdebug.formatting import html_list, html_paragraph, html_table, to_json_value
from nbdebug.views.page import View

MAX_CELLS = 96  # of a strip; more steps share cells
_SMALLEST_EXPONENT = 8  # relative differences below 1e-8 have the faintest shade
_FAINTEST = 0.2


@dataclass(frozen=True)
class StripRow:
    """A row: its name, the relative difference at each step, None where there is nothing to compare, and its texts."""

    name: str
    differences: Sequence[float | None]
    texts: Sequence[str] = ()


@dataclass
class DivergenceStrip(View):
    """The steps of two runs as a strip of cells for each row; ``first`` is the index of the first step that differs.

    ``columns`` are headings of the texts of each row, and ``details`` labeled texts below.
    """

    module: ClassVar[str] = "tools/divergence/page.js"
    sheets: ClassVar[tuple[str, ...]] = ("tools/divergence",)
    height: ClassVar[int] = 140

    title: str = "Comparison of two runs"
    status: str = ""
    headline: str = ""
    tone: Literal["good", "warning", "note"] = "note"
    steps: Sequence[int] = ()
    rows: Sequence[StripRow] = ()
    first: int | None = None
    columns: Sequence[str] = ()
    details: Sequence[tuple[str, str]] = ()
    notes: Sequence[str] = field(default_factory=tuple)

    def state(self) -> dict[str, Any]:
        """Return the state for the browser: the cells of each row are None, 0 for equal, or a shade up to 1."""
        groups = _group_indices(len(self.steps))
        first = next((i for i, group in enumerate(groups) if self.first in group), None)
        rows = [
            {
                "name": row.name,
                "cells": [_shade([row.differences[i] for i in group]) for group in groups],
                "texts": list(row.texts),
            }
            for row in self.rows
        ]
        names = ("title", "status", "headline", "tone", "columns", "details", "notes")
        labels = [_steps_text([self.steps[i] for i in group]) for group in groups]
        return {
            **{name: to_json_value(getattr(self, name)) for name in names},
            "labels": labels,
            "rows": rows,
            "first": first,
        }

    def html(self) -> str:
        """Return the verdict, the details and the texts of the rows as HTML."""
        parts = [html_paragraph(f"{self.title} {self.status}"), html_paragraph(self.headline)]
        parts.append(html_list([f"{label}: {text}" for label, text in self.details]))
        if self.columns:
            parts.append(html_table([[row.name, *row.texts] for row in self.rows], self.columns))
        return "".join([*parts, *map(html_paragraph, self.notes)])


def _group_indices(count: int) -> list[range]:
    """Return the indices of the steps of each cell."""
    size = -(-count // MAX_CELLS) or 1
    return [range(start, min(start + size, count)) for start in range(0, count, size)]


def _shade(differences: Sequence[float | None]) -> float | None:
    """Return the shade of the largest relative difference: on a logarithmic scale from 1e-8 to 1."""
    known = [value for value in differences if value is not None]
    if not known:
        return None
    largest = max(known)
    if largest == 0:
        return 0.0
    share = 1 + log10(min(max(largest, 10.0**-_SMALLEST_EXPONENT), 1.0)) / _SMALLEST_EXPONENT
    return round(_FAINTEST + (1 - _FAINTEST) * share, 3)


def _steps_text(steps: Sequence[int]) -> str:
    return f"step {steps[0]:,}" if len(steps) == 1 else f"steps {steps[0]:,} to {steps[-1]:,}"
