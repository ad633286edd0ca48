"""The overview of a table: a grid of counts, whose cells are ways to be right or wrong."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.metrics.confusion import Counts


@dataclass(frozen=True)
class Grid:
    """Counts, rows × columns, and what both are called.

    ``unit`` is what is counted: samples, or the pixels or tokens in them. ``diagonal`` says whether the cells (i, i)
    are the right ones; elsewhere ``good`` names the columns that are.
    """

    counts: Counts
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    row_title: str = "target"
    column_title: str = "prediction"
    unit: str = "samples"
    diagonal: bool = True
    good: tuple[int, ...] = ()
