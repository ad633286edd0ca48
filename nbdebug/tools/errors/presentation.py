"""The view and the matplotlib plot of the error browser."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nbdebug.predictions.table import Query
from nbdebug.tools.errors.cards import cell_cards, query_cards, summarize_column
from nbdebug.tools.errors.data import MAX_SAMPLED_ROWS
from nbdebug.tools.errors.page_requests import can_explain, can_try_labels, tag_counts
from nbdebug.tools.errors.panels.registry import applicable_panels
from nbdebug.tools.errors.tags import DEFAULT_TAGS
from nbdebug.tools.errors.view import ErrorsView

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from nbdebug.tools.errors.data import ErrorData

_SAMPLED_ROWS_NOTE = (
    f"panels use a random sample of {MAX_SAMPLED_ROWS:,} rows; a click in a panel shows all matching rows"
)
_MAX_CARDS_IN_PAGE = 24  # cards stored in the page, for readers without a kernel


def create_view(errors: ErrorData) -> ErrorsView:
    """Return the browser as it opens: the overview, and the wrong samples with the highest loss."""
    table = errors.table
    query = Query(right=None if table.right is None else False, count=_MAX_CARDS_IN_PAGE)
    first_cards = query_cards(errors, query)
    return ErrorsView(
        title=errors.title,
        headline=errors.headline,
        notes=(*table.notes, *([] if table.in_memory else [_SAMPLED_ROWS_NOTE])),
        task=table.task,
        rows=len(table),
        grid=table.grid,
        columns={name: summarize_column(values) for name, values in table.columns.items()},
        has_correctness=table.right is not None,
        sort=table.severity_column,
        first_cards=first_cards,
        cell_cards=cell_cards(errors, {card["row"] for card in first_cards["cards"]}),
        tags=DEFAULT_TAGS,
        tag_counts=tag_counts(errors),
        can_explain=can_explain(errors),
        can_try_labels=can_try_labels(errors),
        panels=[(panel, panel.state(errors) if panel.quick else None) for panel in applicable_panels(errors)],
    )


def draw_overview(errors: ErrorData, ax: Axes) -> None:
    """Draw the confusion matrix with row shares as shades, or a histogram of the losses."""
    grid, table = errors.table.grid, errors.table
    if grid is None:
        ax.hist(np.asarray(table.columns[table.severity_column], float), bins=50)
        ax.set(xlabel=table.severity_column, ylabel="samples", title=errors.headline)
        return
    shares = grid.counts / np.maximum(grid.counts.sum(1, keepdims=True), 1)
    ax.imshow(shares, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.set(xlabel=grid.column_title, ylabel=grid.row_title, title=errors.headline)
    if len(grid.rows) <= 30:
        ax.set_xticks(range(len(grid.columns)), grid.columns, rotation=90)
        ax.set_yticks(range(len(grid.rows)), grid.rows)
