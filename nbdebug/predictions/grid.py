"""The overview of a table: a grid of counts, whose cells are ways to be right or wrong."""

from __future__ import annotations

from dataclasses import dataclass

from nbdebug.metrics.confusion import Counts
from nbdebug.metrics.number import share


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


def accuracy_line(matrix: Counts, rows: int) -> str:
    """The accuracy of a confusion matrix with its interval, in a line; ``rows`` counts what cannot be judged too."""
    counted = int(matrix.sum())
    if not counted:
        return f"none of {rows:,} samples has both a target and a prediction"
    found = share(int(matrix.trace()), counted)
    return f"{found.value:.1%} of {counted:,} samples right ({found.low:.1%} to {found.high:.1%})"
