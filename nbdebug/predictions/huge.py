"""The worst rows of the few huge cells of a matrix, all in one pass over the table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nbdebug.metrics.confusion import CHUNK
from nbdebug.predictions.extremes import highest

SAMPLE = 4096


def worst_of_huge(
    rows: Mapping[int, NDArray[np.int32]], cell: NDArray[Any], cells: int, badness: NDArray[Any], most: int
) -> dict[int, NDArray[np.int64]]:
    """The worst rows of each of some cells, the worst first; ``rows`` has the rows of these, ``cell`` that of each row.

    What lies above an edge, which a sample of a cell gives, is put in order; a cell of which too few do is left out.
    """
    edges = np.full(cells, np.inf, np.result_type(badness, np.float32))
    for number, behind in rows.items():
        step = len(behind) // SAMPLE + 1
        some = -badness[behind[::step]].astype(edges.dtype)
        rank = min(2 * most // step + 16, len(some) - 1)
        edges[number] = -np.partition(some, rank)[rank]
    above = np.concatenate([beyond(edges, cell, badness, start) for start in range(0, len(cell), CHUNK)])
    own = {number: above[cell[above] == number] for number in rows}
    return {number: one[highest(badness[one], most)] for number, one in own.items() if len(one) >= most}


def beyond(edges: NDArray[Any], cell: NDArray[Any], badness: NDArray[Any], start: int) -> NDArray[np.int64]:
    """The rows of a chunk that are at least as bad as the edge of their cell."""
    chunk = slice(start, start + CHUNK)
    return np.flatnonzero(badness[chunk] >= edges[cell[chunk]]) + start
