"""Cards of rows: the sample, its prediction, overlays, tags and note; summaries of columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.exceptions import SetupError
from nbdebug.formatting import to_json_value
from nbdebug.predictions.segmentation import SegmentationTable
from nbdebug.predictions.sequences import SequenceTable
from nbdebug.predictions.table import PredictionTable, Query
from nbdebug.validation import describe_type

if TYPE_CHECKING:
    from nbdebug.metrics.classification import Counts
    from nbdebug.predictions.table import Grid, PredictionTable
    from nbdebug.tools.errors.data import ErrorData

_MAX_TOKENS = {False: 40, True: 2_000}  # tokens on a card and on the open sample
# RGBA of wrong pixels, and of correct pixels outside class 0, the background.
_WRONG_COLOR, _RIGHT_COLOR = (209, 82, 10, 170), (0, 102, 179, 70)
_MAX_SUMMARIZED_ROWS = 100_000  # evenly spaced rows of a longer column
_MAX_CHOICES = 50
_HISTOGRAM_BINS = 24
_MAX_STORED_CELLS, _CARDS_PER_CELL = 36, 2  # cells of the grid whose samples are stored in the page


def _add_overlay(table: PredictionTable, row: int, state: dict[str, Any] | None, full: bool) -> dict[str, Any] | None:
    """Add a mask overlay to the image of a card, or the loss of each token to its text."""
    if state is None or (not full and not getattr(table, "is_at_hand", True)):
        return state
    try:
        if isinstance(table, SegmentationTable) and state["kind"] == "image":
            return {**state, "overlay": _mask_overlay(table.overlay(row), full)}
        if isinstance(table, SequenceTable) and state["kind"] == "text":
            return {**state, "tokens": table.tokens(row)[: _MAX_TOKENS[full]]}
    except SetupError:
        return state
    return state


def _mask_overlay(masks: dict[str, NDArray[np.int16]], full: bool) -> str:
    """Return a transparent image of wrong pixels and of correct foreground pixels as a data: URL."""
    from nbdebug.sample_display.images import MAX_SIDE, downscale, image_data_url, pil_image_from_bytes

    target, prediction = masks["target"], masks["prediction"]
    pixels = np.zeros((*target.shape, 4), np.uint8)
    pixels[(target == prediction) & (target > 0)] = _RIGHT_COLOR
    pixels[(target != prediction) & (target >= 0)] = _WRONG_COLOR
    return image_data_url(downscale(pil_image_from_bytes(pixels), MAX_SIDE[full]))


def sample_card(errors: ErrorData, row: int, full: bool = False) -> dict[str, Any]:
    """Return one row as a card, ready for JSON."""
    return _cards_for_rows(errors, [row], full)[0]


def _cards_for_rows(errors: ErrorData, rows: Any, full: bool = False) -> list[dict[str, Any]]:
    """Return rows as cards, ready for JSON; reads the table and the data set once."""
    table = errors.table.take(rows)
    keys = [int(key) for key in (table.keys(range(len(table))) if table.index is not None else rows)]
    sample_states: list[Any] = (
        errors.samples.show_many(keys, full) if errors.samples is not None else [None] * len(keys)
    )
    return [
        {
            **(_most_probable_classes(table, position) if full else {}),
            "row": int(row),
            "key": key,
            "said": to_json_value(table.describe_row(position)),
            "right": None if table.right is None else bool(table.right[position]),
            "values": {
                name: to_json_value(_to_python_scalar(values[position])) for name, values in table.columns.items()
            },
            **tags_of_sample(errors, key),
            "shown": _add_overlay(table, position, sample_states[position], full),
        }
        for position, (row, key) in enumerate(zip(rows, keys, strict=True))
    ]


def _to_python_scalar(value: Any) -> Any:
    """Return a NumPy scalar as a Python scalar."""
    return value.item() if isinstance(value, np.generic) else value


def _most_probable_classes(table: PredictionTable, row: int) -> dict[str, Any]:
    """Return the most probable classes of a row, if available."""
    top_classes, probabilities, names = (getattr(table, name, None) for name in ("top", "chances", "classes"))
    if top_classes is None or probabilities is None or names is None or np.ndim(top_classes) != 2:
        return {}
    pairs = zip(top_classes[row].tolist(), probabilities[row].tolist(), strict=True)
    return {
        "top": [
            [names[class_index], to_json_value(probability)] for class_index, probability in pairs if class_index >= 0
        ]
    }


def tags_of_sample(errors: ErrorData, key: int) -> dict[str, Any]:
    """Return the tags and the note of a sample."""
    return {"tags": sorted(errors.tags.by_key.get(key, ())), "note": errors.tags.notes.get(key, "")}


def query_cards(errors: ErrorData, query: Query) -> dict[str, Any]:
    """Return the cards of a query, and its number of rows."""
    page = errors.table.page(query)
    return {"total": page.total, "start": query.start, "cards": _cards_for_rows(errors, page.rows)}


def cell_cards(errors: ErrorData, excluded: Collection[int]) -> dict[str, Any]:
    """Return up to two cards of each cell of the grid, the worst of the cell, without the ``excluded`` rows.

    Wrong cells come first, the largest first; ``left_out`` is the number of cells that are not read. A table on disk,
    and a grid of parts of samples, have no such cards.
    """
    grid = errors.table.grid
    if grid is None or grid.unit != "samples" or not errors.table.in_memory:
        return {"cards": [], "left_out": 0}
    wrong = np.flatnonzero(wrong_counts(grid))
    right = np.setdiff1d(np.flatnonzero(grid.counts), wrong)
    counts = grid.counts.ravel()
    cells = [cell for part in (wrong, right) for cell in part[np.argsort(-counts[part], kind="stable")].tolist()]
    rows: list[int] = []
    for cell in cells[:_MAX_STORED_CELLS]:
        query = Query(cells=(divmod(cell, grid.counts.shape[1]),), count=_CARDS_PER_CELL)
        rows += [int(row) for row in errors.table.page(query).rows]
    new_rows = np.array([row for row in dict.fromkeys(rows) if row not in excluded], int)
    left_out = max(0, len(cells) - _MAX_STORED_CELLS)
    return {"cards": _cards_for_rows(errors, new_rows), "left_out": left_out}


def wrong_counts(grid: Grid) -> Counts:
    """Return the counts of wrong predictions only."""
    counts = grid.counts.copy()
    if grid.diagonal:
        np.fill_diagonal(counts, 0)
    counts[:, list(grid.correct_columns)] = 0
    return counts


def summarize_column(values: NDArray[Any]) -> dict[str, Any]:
    """Return the kind of a column, with a histogram of its numbers or the most frequent of its texts.

    ``part`` is True if only a subset of the rows was read.
    """
    stride = -(-len(values) // _MAX_SUMMARIZED_ROWS) or 1
    sampled, is_sampled = values[::stride], stride > 1
    if values.dtype.kind in "fiu":
        return {"kind": "number", "part": is_sampled, **_summarize_numbers(sampled[np.isfinite(sampled)])}
    text_counts = Counter(str(value) for value in sampled.tolist())
    choices = [[text[:200], count] for text, count in text_counts.most_common(_MAX_CHOICES)]
    return {"kind": "text", "part": is_sampled, "choices": choices, "more": max(0, len(text_counts) - _MAX_CHOICES)}


def _summarize_numbers(values: NDArray[Any]) -> dict[str, Any]:
    if not len(values):
        return {"low": None, "high": None, "bins": []}
    low, high = float(values.min()), float(values.max())
    bins = np.histogram(values.astype(np.float64), _HISTOGRAM_BINS, (low, high))[0].tolist() if low < high else []
    return {"low": float(f"{low:.4g}"), "high": float(f"{high:.4g}"), "bins": bins}


def check_metadata(metadata: Any) -> None:
    """Raise SetupError for metadata without columns."""
    if metadata is not None and not isinstance(metadata, Mapping) and not hasattr(metadata, "columns"):
        raise SetupError(
            f"metadata is {describe_type(metadata)}; expected a DataFrame or a mapping of columns. Name the columns."
        )


def metadata_columns(metadata: Any, table: PredictionTable) -> dict[str, NDArray[Any]]:
    """Align the columns of a frame or mapping with the rows of a table, by dataset index or else in order.

    Raises SetupError for lengths that fit neither, and for existing column names.
    """
    if metadata is None:
        return {}
    columns = {str(name): _to_column_array(metadata[name]) for name in metadata}
    if existing_names := sorted({*columns} & {*table.columns}):
        raise SetupError(f"metadata has a column {existing_names[0]!r}; expected a name that is not in use. Rename it.")
    return {name: _align_with_rows(name, values, table) for name, values in columns.items()}


def _to_column_array(column: Any) -> NDArray[Any]:
    """Return a column as an array of numbers or texts; missing values are NaN or ""."""
    values = np.asarray(column.detach().cpu() if hasattr(column, "detach") else column)
    if values.dtype.kind in "fiu":
        return values
    if values.dtype.kind == "b":
        return np.where(values, "yes", "no")
    if values.dtype.kind == "O":
        import pandas as pd

        missing = np.asarray(pd.isna(values))
        return np.array(["" if is_missing else str(value) for value, is_missing in zip(values, missing, strict=True)])
    return values.astype(str)


def _align_with_rows(name: str, values: NDArray[Any], table: PredictionTable) -> NDArray[Any]:
    """Return the value of a column for each row of the table."""
    if table.index is not None and len(values) > int(table.index.max(initial=-1)):
        return np.asarray(values[table.index])
    if table.index is None and len(values) == len(table):
        return values
    expected_rows = len(table) if table.index is None else int(table.index.max()) + 1
    raise SetupError(
        f"metadata column {name!r} has {len(values)} rows; expected {expected_rows}, one for each sample of the data "
        "set. Pass all of them, in the order of the data set."
    )
