"""Near copies among the embeddings of the samples: pairs that are apart from all other samples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nbdebug.statistics.intervals import benjamini_hochberg
from nbdebug.tools.data.row_index import RowIndex

_Floats = NDArray[np.float64]
_Matrix = NDArray[np.float32]
_NEIGHBORS, _MAX_COPIES, _MIN_ROWS, _MAX_COLUMNS = 20, 4, 60, 256
_LEVEL, _TAIL, _ROWS_PER_BLOCK = 0.001, 0.05, 1_024
_RESOLUTION = 1e-5  # of the distances, relative to the typical one: embeddings are computed with float32


@dataclass(frozen=True, eq=False)
class EmbeddingPairs:
    """Pairs of rows that are closer to each other than chance explains, the closest first.

    A ratio is the distance of a pair to that of the next row which is no copy. ``detectable_ratio`` is the largest
    ratio of a single pair that would have been selected among ``rows``; 0 if nothing could be told.
    """

    pairs: tuple[tuple[int, int], ...] = ()
    ratios: tuple[float, ...] = ()
    rows: int = 0
    detectable_ratio: float = 0.0


def find_embedding_pairs(embeddings: _Matrix) -> EmbeddingPairs:
    """Find the rows of which up to four others are far closer than all other rows are.

    ``embeddings`` have a row for each sample. Where points are spread evenly in m dimensions, the gaps j · log(T_{j+1}
    / T_j) between the distances to the j-th and the next neighbor are independent and exponential with mean 1/m
    (Facco et al. 2017, doi:10.1038/s41598-017-11873-y, for j = 1). So the gaps behind the fifth to the nineteenth
    neighbor of all rows tell how large the gap behind a copy is by chance, in the data at hand; the tail beyond their
    95% quantile is a generalized Pareto distribution (Pickands 1975). Each gap is relative to the mean gap of the row
    and its neighbors, since the dimension differs between the parts of an embedding. Gaps are selected at a false
    discovery rate of 0.1% (Benjamini and Hochberg). Both rows of a pair must be among the copies of the other. Rows
    that equal more than four others, such as those of a dead layer, tell nothing.
    """
    points = _project(embeddings)
    if len(points) < _MIN_ROWS or not points.shape[1]:
        return EmbeddingPairs()
    distances, neighbors = _exact_neighbors(points)
    floor = _RESOLUTION * float(np.median(distances[:, -1]))  # infinite if most rows have too few neighbors
    usable = np.isfinite(distances[:, -1]) & (distances[:, _MAX_COPIES] > floor)
    if usable.sum() < _MIN_ROWS or not 0 < floor < np.inf:
        return EmbeddingPairs()
    logs = np.log(np.maximum(distances[usable], floor).astype(np.float64))
    gaps: _Floats = np.arange(1.0, _NEIGHBORS) * np.diff(logs, axis=1)
    local = _local_gaps(gaps[:, _MAX_COPIES:].mean(1), usable, neighbors)
    gaps /= local[:, None]
    tail = _Tail.of(gaps[:, _MAX_COPIES:].ravel())
    own = gaps[:, :_MAX_COPIES]
    is_apart = (benjamini_hochberg(tail.p(own.ravel()), own.size) <= _LEVEL).reshape(own.shape)
    copies = np.zeros(len(points), np.int64)
    copies[usable] = np.where(is_apart.any(1), is_apart.argmax(1) + 1, 0)
    pairs = _mutual_pairs(copies, distances, neighbors)
    ordered = sorted(pairs, key=lambda pair: pairs[pair])
    limit = float(np.exp(-tail.quantile(_LEVEL / own.size) * np.median(local)))
    return EmbeddingPairs(tuple(ordered), tuple(pairs[pair] for pair in ordered), int(usable.sum()), limit)


def _exact_neighbors(points: _Matrix) -> tuple[_Matrix, NDArray[np.int64]]:
    """Return distances and rows of the nearest rows; those of the index are rounded, as differences of squares."""
    rounded, neighbors = RowIndex(points).nearest(points, np.arange(len(points)), _NEIGHBORS)
    blocks = np.array_split(np.arange(len(points)), -(-len(points) // _ROWS_PER_BLOCK))
    exact = [np.linalg.norm(points[neighbors[block]] - points[block][:, None], axis=2) for block in blocks]
    distances: _Matrix = np.where(np.isfinite(rounded), np.concatenate(exact), np.inf)
    order = np.argsort(distances, 1, kind="stable")
    return np.take_along_axis(distances, order, 1), np.take_along_axis(neighbors, order, 1)


def _local_gaps(gaps: _Floats, usable: NDArray[np.bool_], neighbors: NDArray[np.int64]) -> _Floats:
    """Return the mean gap around each usable row: that of the row and its neighbors."""
    by_row = np.full(len(usable), np.nan)
    by_row[usable] = gaps
    rows = np.concatenate([np.arange(len(usable))[:, None], neighbors], 1)[usable]
    local: _Floats = np.maximum(np.nanmean(by_row[rows], 1), 1e-12)
    return local


def _mutual_pairs(
    copies: NDArray[np.int64], distances: _Matrix, neighbors: NDArray[np.int64]
) -> dict[tuple[int, int], float]:
    """Return the pairs of which each row is among the ``copies`` nearest of the other, with the larger ratio."""
    nearest = {row: neighbors[row, : copies[row]].tolist() for row in np.flatnonzero(copies).tolist()}
    pairs: dict[tuple[int, int], float] = {}
    for row, others in nearest.items():
        for place, other in enumerate(others):
            if row in nearest.get(other, ()):
                key = (min(row, other), max(row, other))
                ratio = float(distances[row, place] / distances[row, copies[row]])
                pairs[key] = max(ratio, pairs.get(key, 0.0))
    return pairs


@dataclass(frozen=True)
class _Tail:
    """The distribution of many numbers: their own beyond ``start``, and behind it a generalized Pareto tail."""

    ordered: _Floats
    start: float
    scale: float
    shape: float

    @classmethod
    def of(cls, values: _Floats) -> _Tail:
        """Fit the tail by the first two moments of the excesses (Hosking and Wallis 1987), at least exponential."""
        ordered = np.sort(values)
        start = float(ordered[int((1 - _TAIL) * len(ordered))])
        excesses = ordered[ordered > start] - start
        mean = float(excesses.mean()) if len(excesses) else 1e-12
        ratio = mean**2 / max(float(excesses.var()), 1e-24) if len(excesses) > 1 else 1.0
        shape = min(max((1 - ratio) / 2, 0.0), 0.45)
        return cls(ordered, start, max(mean * (1 - shape), 1e-12), shape)

    def p(self, values: _Floats) -> _Floats:
        """Return the probabilities of values as large as these."""
        shares = 1 - np.searchsorted(self.ordered, values, "left") / len(self.ordered)
        excess = np.maximum(values - self.start, 0) / self.scale
        behind = np.exp(-excess) if self.shape == 0 else (1 + self.shape * excess) ** (-1 / self.shape)
        result: _Floats = np.where(values > self.start, _TAIL * behind, shares)
        return result

    def quantile(self, p: float) -> float:
        """Return the value of the tail that is exceeded with a probability."""
        share = p / _TAIL
        excess = -np.log(share) if self.shape == 0 else (share**-self.shape - 1) / self.shape
        return self.start + self.scale * float(excess)


def _project(embeddings: _Matrix) -> _Matrix:
    """Return the columns that vary, of one scale; many of them are projected to 256 (Johnson and Lindenstrauss)."""
    values = np.nan_to_num(embeddings.astype(np.float32), nan=0.0, posinf=0.0, neginf=0.0)
    spread = values.std(0)
    values = (values - values.mean(0))[:, spread > 1e-6 * max(float(spread.max(initial=0.0)), 1e-30)]
    values = values / np.maximum(values.std(0), 1e-30)
    if values.shape[1] > _MAX_COLUMNS:
        weights = np.random.default_rng(0).standard_normal((values.shape[1], _MAX_COLUMNS), np.float32)
        values = values @ weights / _MAX_COLUMNS**0.5
    return np.ascontiguousarray(values, np.float32)
