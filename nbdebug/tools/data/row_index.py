"""Nearest rows of a matrix by an inverted file, in a time that grows with the number of rows, not with its square."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Rows = NDArray[np.int64]
Floats = NDArray[np.float32]
_ROWS_PER_CELL, _MAX_CENTER_ROWS, _PROBES = 700, 5_000, 3
_ROWS_PER_BLOCK, _COLUMNS_PER_GROUP = 2_048, 8


class RowIndex:
    """Cells of about 700 rows around centers; a query is compared with the rows of the cells that are nearest to it.

    Source: Jégou, Douze and Schmid 2011, Product Quantization for Nearest Neighbor Search, section IV.
    """

    def __init__(self, points: Floats) -> None:
        self.points = torch.as_tensor(points)
        self.centers = _choose_centers(points)
        cells = self._nearest_cells(self.points, 1)[:, 0]
        self.members = [np.flatnonzero(cells == cell) for cell in range(len(self.centers))]

    def nearest(self, queries: Floats, own: Rows, count: int, probes: int = _PROBES) -> tuple[Floats, Rows]:
        """Return distances and rows of the nearest ``count`` rows of each query, without its ``own`` row.

        Where fewer rows are found, the distance is infinite.
        """
        points = torch.as_tensor(queries)
        cells = self._nearest_cells(points, probes)
        shape = (len(queries), cells.shape[1], count)
        distances, rows = np.full(shape, np.inf, np.float32), np.zeros(shape, np.int64)
        for probe in range(cells.shape[1]):
            for cell, members in enumerate(self.members):
                selected = np.flatnonzero(cells[:, probe] == cell)
                for block in np.array_split(selected, -(-len(selected) // _ROWS_PER_BLOCK)) if len(selected) else ():
                    found = self._nearest_members(points[torch.as_tensor(block)], own[block], members, count)
                    distances[block, probe, : found[0].shape[1]], rows[block, probe, : found[0].shape[1]] = found
        return _sort_nearest(distances.reshape(len(queries), -1), rows.reshape(len(queries), -1), count)

    def _nearest_members(self, queries: Tensor, own: Rows, members: Rows, count: int) -> tuple[Floats, Rows]:
        distances = torch.cdist(queries, self.points[torch.as_tensor(members)]).numpy()
        positions = np.minimum(np.searchsorted(members, own), len(members) - 1)
        itself = np.flatnonzero(members[positions] == own)
        distances[itself, positions[itself]] = np.inf
        columns = _smallest_columns(distances, min(count, len(members)))
        return np.take_along_axis(distances, columns, 1), members[columns]

    def _nearest_cells(self, points: Tensor, probes: int) -> Rows:
        count = min(probes, len(self.centers))
        blocks = torch.split(points, 4 * _ROWS_PER_BLOCK)
        nearest = [torch.cdist(block, self.centers).topk(count, largest=False).indices for block in blocks]
        cells: Rows = torch.cat(nearest).numpy()
        return cells


def keep_nearest(distances: Floats, rows: Rows, count: int) -> tuple[Floats, Rows]:
    """Return the ``count`` smallest distances of each line with their rows, each row once."""
    by_row = np.lexsort((distances, rows))
    distances, rows = np.take_along_axis(distances, by_row, 1), np.take_along_axis(rows, by_row, 1)
    distances[:, 1:][rows[:, 1:] == rows[:, :-1]] = np.inf
    return _sort_nearest(distances, rows, count)


def _sort_nearest(distances: Floats, rows: Rows, count: int) -> tuple[Floats, Rows]:
    """Return the ``count`` smallest distances of each line in their order, with their rows."""
    nearest = np.argsort(distances, 1, kind="stable")[:, :count]
    return np.take_along_axis(distances, nearest, 1), np.take_along_axis(rows, nearest, 1)


def _smallest_columns(values: Floats, count: int) -> Rows:
    """Return the columns of the ``count`` smallest values of each line, in any order.

    They are in the ``count`` groups of columns whose smallest values are the smallest, so that only these groups are
    searched.
    """
    width = values.shape[1] // _COLUMNS_PER_GROUP
    if width <= count:
        return np.argpartition(values, count - 1, 1)[:, :count] if count < values.shape[1] else _all_columns(values)
    grouped = values[:, : width * _COLUMNS_PER_GROUP].reshape(len(values), _COLUMNS_PER_GROUP, width)
    groups = np.argpartition(grouped.min(1), count - 1, 1)[:, :count]
    columns = (groups[:, None] + width * np.arange(_COLUMNS_PER_GROUP)[:, None]).reshape(len(values), -1)
    rest = np.arange(width * _COLUMNS_PER_GROUP, values.shape[1])
    columns = np.concatenate([columns, np.broadcast_to(rest, (len(values), len(rest)))], 1)
    nearest = np.argpartition(np.take_along_axis(values, columns, 1), count - 1, 1)[:, :count]
    return np.take_along_axis(columns, nearest, 1)


def _all_columns(values: Floats) -> Rows:
    columns: Rows = np.broadcast_to(np.arange(values.shape[1]), values.shape)
    return columns


def _choose_centers(points: Floats) -> Tensor:
    """Return the centers of the cells, by k-means on up to 5,000 rows."""
    count = max(len(points) // _ROWS_PER_CELL, 1)
    if count == 1:
        return torch.as_tensor(points[:1])
    from sklearn.cluster import MiniBatchKMeans

    sample = np.random.default_rng(0).permutation(len(points))[:_MAX_CENTER_ROWS]
    clusters = MiniBatchKMeans(count, n_init=1, max_iter=20, random_state=0).fit(points[sample])
    return torch.as_tensor(clusters.cluster_centers_.astype(np.float32))
