"""The error browser as a view and as a matplotlib picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nbdebug.predictions.query import Query
from nbdebug.tools.errors.analyses import MOST
from nbdebug.tools.errors.answers import counts
from nbdebug.tools.errors.cards import cards
from nbdebug.tools.errors.described import described
from nbdebug.tools.errors.explained import can_explain
from nbdebug.tools.errors.marks import TAGS
from nbdebug.tools.errors.panels import panels_of
from nbdebug.views.errors.page import ErrorsView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nbdebug.tools.errors.result import Errors

PART = f"panels look at {MOST:,} rows, drawn at random: what is clicked in them shows all rows"
FIRST = 24  # cards that the page holds, for readers without a kernel


def view(errors: Errors) -> ErrorsView:
    """The whole browser as it opens: the overview, and the worst samples that are wrong."""
    table = errors.table
    query = Query(right=None if table.right is None else False, count=FIRST)
    return ErrorsView(
        title=errors.title,
        headline=errors.headline,
        notes=(*table.notes, *([] if table.in_memory else [PART])),
        task=table.task,
        rows=len(table),
        grid=table.grid,
        columns={name: described(values) for name, values in table.columns.items()},
        judged=table.right is not None,
        sort=table.worst,
        first=cards(errors, query),
        tags=TAGS,
        tagged=counts(errors),
        explains=can_explain(errors),
        panels=[(one, one.state(errors) if one.quick else None) for one in panels_of(errors)],
    )


def draw(errors: Errors, ax: Axes) -> None:
    """The counts of the grid as a picture, shares of rows as shades; the losses of the rows where there is no grid."""
    grid, table = errors.table.grid, errors.table
    if grid is None:
        ax.hist(np.asarray(table.columns[table.worst], float), bins=50)
        ax.set(xlabel=table.worst, ylabel="samples", title=errors.headline)
        return
    shares = grid.counts / np.maximum(grid.counts.sum(1, keepdims=True), 1)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.set(xlabel=grid.column_title, ylabel=grid.row_title, title=errors.headline)
    if len(grid.rows) <= 30:
        ax.set_xticks(range(len(grid.columns)), grid.columns, rotation=90)
        ax.set_yticks(range(len(grid.rows)), grid.rows)
