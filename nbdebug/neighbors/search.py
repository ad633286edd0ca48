"""Nearest rows by matrix products, block by block."""

from __future__ import annotations

from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from nbdebug.exceptions import SetupError

Metric = Literal["cosine", "euclidean"]
Floats = NDArray[np.float32]
BLOCK = 8_000_000  # distances that are held at once: 32 MB


def nearest(
    queries: Floats, among: Floats, count: int, metric: Metric = "cosine", skip: NDArray[np.int64] | None = None
) -> tuple[Floats, NDArray[np.int64]]:
    """The ``count`` nearest of ``among`` (rows × features) for each query: distances, rising, and places.

    ``skip`` holds for each query a place that does not count, as its own, or -1. Numbers that are not finite count as
    0. Raises SetupError for an unknown metric, and where there are fewer rows than are asked for.
    """
    if metric not in ("cosine", "euclidean"):
        raise SetupError(f"metric is {metric!r}; expected 'cosine' or 'euclidean'. Pass one of these.")
    if count > len(among) - (skip is not None):
        raise SetupError(f"k is {count}; expected at most {len(among) - (skip is not None)} rows. Ask for fewer.")
    near, far = ready(queries, metric), ready(among, metric)
    if metric == "euclidean":  # far from zero the squares would swallow the differences
        middle = far.mean(0)
        near, far = near - middle, far - middle
    size = max(BLOCK // max(len(far), 1), 1)
    found = []
    with torch.inference_mode():
        squares = (far * far).sum(1)
        for start in range(0, len(near), size):
            block = near[start : start + size]
            apart = squares - 2 * block @ far.T  # the query's own square is the same for all
            if skip is not None:
                own = torch.as_tensor(skip[start : start + size])
                rows = torch.nonzero(own >= 0)[:, 0]
                apart[rows, own[rows]] = torch.inf
            found.append(apart.topk(count, largest=False, sorted=True).indices)
        places = torch.cat(found) if found else torch.zeros((0, count), dtype=torch.long)
        distances = exactly(near, far, places, metric)
        order = distances.argsort(dim=1, stable=True)
        return distances.gather(1, order).numpy(), places.gather(1, order).numpy()


def ready(values: Floats, metric: Metric) -> Tensor:
    """Rows as finite numbers, for cosine of length one; a row of zeros stays so."""
    found = torch.nan_to_num(torch.as_tensor(np.asarray(values, np.float32)), 0.0, 0.0, 0.0)
    return torch.nn.functional.normalize(found, dim=1) if metric == "cosine" else found


def exactly(near: Tensor, far: Tensor, places: Tensor, metric: Metric) -> Tensor:
    """The distances of pairs without the rounding that differences of large squares suffer."""
    parts = []
    for start in range(0, len(near), 1024):
        rows = slice(start, start + 1024)
        squares = (near[rows, None].double() - far[places[rows]].double()).square().sum(2)
        parts.append((squares / 2 if metric == "cosine" else squares.sqrt()).float())
    return torch.cat(parts) if parts else torch.zeros(places.shape)
