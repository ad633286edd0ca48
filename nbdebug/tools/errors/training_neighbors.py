"""Finds the training samples nearest to each row, their distance and labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import DataLoader, Subset

from nbdebug.exceptions import SetupError
from nbdebug.nearest_neighbors import Metric, Neighbors, TrainingReference, default_layer, describe_layer
from nbdebug.predictions.classification import ClassificationTable
from nbdebug.predictions.collection import collect_predictions
from nbdebug.predictions.table import PredictionTable

if TYPE_CHECKING:
    import pandas

    from nbdebug.sample_display import SampleDisplay
    from nbdebug.setup import Setup
    from nbdebug.tools.errors.data import ErrorData

_MAX_TRAINING_SAMPLES = 50_000  # training samples searched
DISTANCE_COLUMN, DISAGREE_COLUMN = "train_distance", "neighbors_disagree"


@dataclass(frozen=True, eq=False)
class TrainingNeighbors:
    """The training samples nearest to each row; ``near`` refers to rows of ``train``, the training table."""

    layer: str
    reference: TrainingReference
    train: PredictionTable
    neighbors: Neighbors
    samples: SampleDisplay | None

    def key(self, row: int) -> int:
        """Return the key of a training sample: its dataset index, or else its row."""
        return int(row if self.train.index is None else self.train.index[row])

    def label(self, row: int) -> str:
        """Return the label of a training sample."""
        return self.train.describe_row(row).get("target", "")


def find_training_neighbors(
    errors: ErrorData, k: int = 8, layer: Any = None, metric: Metric = "cosine"
) -> TrainingNeighbors:
    """Find the nearest training samples of each row, once, by a pass over the training data and one over the rows.

    Adds the columns ``train_distance`` (the share of training samples that are closer to their own k-th neighbor) and,
    for classes, ``neighbors_disagree`` (the share of the k nearest with another label). Raises SetupError without a
    model or dataset indices.
    """
    settings = (k, layer, metric)
    if errors._cache.get("neighbors", (None,))[0] != settings:
        result = _measure_neighbors(errors, k, layer, metric)
        errors._cache["neighbors"] = (settings, result)
        _add_columns(errors.table, result.neighbors)
    cached: TrainingNeighbors = errors._cache["neighbors"][1]
    return cached


def _add_columns(table: PredictionTable, neighbors: Neighbors) -> None:
    """Add the columns to a table, and clear what it cached from older ones."""
    table.columns[DISTANCE_COLUMN] = neighbors.distance_rank
    if neighbors.label_disagreement is not None:
        table.columns[DISAGREE_COLUMN] = neighbors.label_disagreement
    for cached in ("query_cache", "text_cache"):
        vars(table).pop(cached, None)


def neighbors_frame(errors: ErrorData, key: int | None, k: int, layer: Any, metric: Metric) -> pandas.DataFrame:
    """Return all rows, most disagreeing neighbors and highest loss first, or the neighbors of one sample.

    Raises SetupError for an unknown sample.
    """
    import pandas as pd

    result = find_training_neighbors(errors, k, layer, metric)
    if key is None:
        sort_columns = [
            errors.table.columns[name] for name in ("loss", DISAGREE_COLUMN) if name in errors.table.columns
        ]
        sort_keys = [
            np.nan_to_num(values.astype(float), nan=-1.0)
            for values in (sort_columns or [result.neighbors.distance_rank])
        ]
        return errors.table.take(np.lexsort(sort_keys)[::-1]).to_frame()
    rows = errors.rows_of([key])
    if not len(rows):
        raise SetupError(f"sample is {key}; expected a sample of the table. Take it from the index of to_frame().")
    training_rows, distances = result.neighbors.reference_rows[rows[0]], result.neighbors.distances[rows[0]]
    labels = [result.label(int(row)) for row in training_rows]
    index = pd.Index([result.key(int(row)) for row in training_rows], name="training sample")
    same_label = [name == errors.table.describe_row(int(rows[0])).get("target", "") for name in labels]
    return pd.DataFrame({"target": labels, "same": same_label, "distance": distances}, index=index)


def _measure_neighbors(errors: ErrorData, k: int, layer: Any, metric: Metric) -> TrainingNeighbors:
    setup, table = errors.setup, errors.table
    if setup is None or table.index is None or errors.dataset is None:
        raise SetupError(
            "the result has no model or no dataset indices; expected both to find neighbors. "
            "Run dbg.errors() on a DataLoader."
        )
    embed = default_layer(setup.eager_model) if layer is None else layer
    train = collect_predictions(setup, setup.train_loader, lambda rows: rows >= _MAX_TRAINING_SAMPLES, embed=embed)
    rows = collect_predictions(setup, _row_loader(setup, errors.dataset, table.index), embed=embed)
    if train.embedding is None or rows.embedding is None or len(rows) != len(table):
        raise SetupError(f"layer is {layer!r}; expected a layer with one output row per sample. Choose another layer.")
    reference = TrainingReference(train.embedding, _class_labels(train), metric, k)
    neighbors = reference.find_neighbors(rows.embedding, _class_labels(table), _positions_in_training(errors, train))
    return TrainingNeighbors(describe_layer(embed), reference, train, neighbors, _training_display(errors, train))


def _training_display(errors: ErrorData, train: PredictionTable) -> SampleDisplay | None:
    """Return the display of the training samples; None if their dataset indices are unknown."""
    loader = getattr(errors.setup, "train_loader", None)
    dataset = getattr(loader, "dataset", None)
    if errors.samples is None or train.index is None or dataset is None:
        return None
    if dataset is errors.dataset:
        return errors.samples
    return errors.samples.for_dataset(dataset, near=[getattr(loader, "collate_fn", None)])


def _row_loader(setup: Setup, dataset: Any, index: NDArray[np.int64]) -> DataLoader[Any]:
    """Return a loader of the rows' samples in row order, collated as before."""
    loader = setup.loader_for_dataset(dataset)
    size = getattr(loader, "batch_size", None) or 64
    return DataLoader(Subset(dataset, index.tolist()), size, collate_fn=getattr(loader, "collate_fn", None))


def _class_labels(table: PredictionTable) -> NDArray[np.int32] | None:
    return table.target if isinstance(table, ClassificationTable) else None


def _positions_in_training(errors: ErrorData, train: PredictionTable) -> NDArray[np.int64] | None:
    """Return the position of each row among the training samples, -1 if absent; None for another data set."""
    assert errors.setup is not None
    assert errors.table.index is not None
    if train.index is None or getattr(errors.setup.train_loader, "dataset", None) is not errors.dataset:
        return None
    row_by_index = {int(index): row for row, index in enumerate(train.index)}
    return np.array([row_by_index.get(int(index), -1) for index in errors.table.index], np.int64)
