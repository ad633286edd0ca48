"""The panel of neighbors: distance to the training data, and labels of the nearest training samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.formatting import html_paragraph, html_table, to_json_value
from nbdebug.statistics.intervals import wilson_interval
from nbdebug.tools.errors.training_neighbors import (
    DISAGREE_COLUMN,
    DISTANCE_COLUMN,
    TrainingNeighbors,
    find_training_neighbors,
)
from nbdebug.views.panel import Panel

if TYPE_CHECKING:
    from nbdebug.tools.errors.data import ErrorData

_DEFAULT_K = 8
_DISTANCE_BANDS = ((0.0, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 0.98), (0.98, 1.0))  # shares of the training samples


def _fits(errors: ErrorData) -> bool:
    """Check whether there is a model, training data, and a sample for each row."""
    return errors.setup is not None and errors.table.index is not None and errors.dataset is not None


def state(errors: ErrorData, row: int | None = None, k: int = _DEFAULT_K) -> dict[str, Any]:
    """Return the rows by distance to the training data and by disagreeing neighbors.

    With ``row``, return its nearest training samples.
    """
    neighbors = find_training_neighbors(errors, k)
    return _overview_state(errors, neighbors) if row is None else _row_state(errors, neighbors, int(row))


def _overview_state(errors: ErrorData, neighbors: TrainingNeighbors) -> dict[str, Any]:
    """Return bands of distance and of disagreement, with the number of rows and the share of wrong ones."""
    nearest, right = neighbors.neighbors, errors.table.right
    k, band_edges = neighbors.reference.k, np.array([low for low, _ in _DISTANCE_BANDS[1:]])
    band_indices = np.searchsorted(band_edges, nearest.distance_rank, side="right")
    distance_bands = [
        {
            "name": _band_name(low, high),
            "query": {
                "ranges": {DISTANCE_COLUMN: [*_exact_range(nearest.distance_rank[band_indices == band_index])]},
                "sort": DISTANCE_COLUMN,
            },
        }
        | _error_counts(band_indices == band_index, right)
        for band_index, (low, high) in enumerate(_DISTANCE_BANDS)
    ]
    label_bands = []
    if nearest.label_disagreement is not None:
        for disagreeing in range(k, -1, -1):
            members = np.isclose(nearest.label_disagreement, disagreeing / k)
            query = {
                "ranges": {DISAGREE_COLUMN: [*_exact_range(nearest.label_disagreement[members])]},
                "sort": "loss" if _has_loss(errors) else DISAGREE_COLUMN,
            }
            label_bands.append({"name": f"{disagreeing} of {k}", "query": query, **_error_counts(members, right)})
    return {
        "layer": neighbors.layer,
        "metric": neighbors.reference.metric,
        "k": k,
        "train": len(neighbors.train),
        "far": [band_state for band_state in distance_bands if band_state["count"]],
        "labeled": [band_state for band_state in label_bands if band_state["count"]],
    }


def _has_loss(errors: ErrorData) -> bool:
    return "loss" in errors.table.columns


def _band_name(low: float, high: float) -> str:
    return f"{low:.0%} to {high:.0%}"


def _exact_range(values: NDArray[Any]) -> tuple[float, float]:
    """Return the exact minimum and maximum, so that a query selects the same values."""
    return (float(values.min()), float(values.max())) if len(values) else (2.0, 2.0)


def _error_counts(members: NDArray[np.bool_], right: NDArray[np.bool_] | None) -> dict[str, Any]:
    """Return the number of rows, and the share of wrong ones with its interval."""
    count = int(members.sum())
    if right is None or not count:
        return {"count": count, "wrong": None}
    wrong = int((members & ~right).sum())
    return {"count": count, "wrong": to_json_value([wrong / count, *wilson_interval(wrong, count)])}


def _row_state(errors: ErrorData, neighbors: TrainingNeighbors, row: int) -> dict[str, Any]:
    nearest = neighbors.neighbors
    training_rows = [int(training_row) for training_row in nearest.reference_rows[row]]
    keys = [neighbors.key(training_row) for training_row in training_rows]
    sample_states = neighbors.samples.show_many(keys) if neighbors.samples is not None else [None] * len(keys)
    target = errors.table.describe_row(row).get("target", "")
    names = [neighbors.label(training_row) for training_row in training_rows]
    disagreement = None if nearest.label_disagreement is None else to_json_value(float(nearest.label_disagreement[row]))
    entries = zip(keys, names, nearest.distances[row], sample_states, strict=True)
    return {
        "row": row,
        "target": to_json_value(target),
        "layer": neighbors.layer,
        "k": len(keys),
        "farther": to_json_value(float(nearest.distance_rank[row])),
        "others": disagreement,
        "samples": [
            {
                "key": key,
                "label": to_json_value(name),
                "same": name == target,
                "distance": to_json_value(float(distance)),
                "shown": sample_state,
            }
            for key, name, distance, sample_state in entries
        ],
    }


def _html(state: dict[str, Any]) -> str:
    text = f"Distance to the {state['k']} nearest of {state['train']} training samples, by {state['layer']}."
    head = ("samples", "share wrong")
    return (
        html_paragraph(text)
        + html_table(
            [
                [band_state["name"], str(band_state["count"]), _wrong_share_text(band_state)]
                for band_state in state["far"]
            ],
            ("distance", *head),
        )
        + html_table(
            [
                [band_state["name"], str(band_state["count"]), _wrong_share_text(band_state)]
                for band_state in state["labeled"]
            ],
            ("other label", *head),
        )
    )


def _wrong_share_text(band_state: dict[str, Any]) -> str:
    return "" if band_state["wrong"] is None else f"{band_state['wrong'][0]:.1%}"


PANEL = Panel("neighbors", "Neighbors", _fits, state, _html, quick=False)
