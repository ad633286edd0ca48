"""Nearest training samples in the feature space of a layer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from nbdebug.exceptions import SetupError
from nbdebug.predictions.embeddings import LayerInput

_LAST_LAYER_TYPES = (nn.Linear, nn.modules.conv._ConvNd)
Metric = Literal["cosine", "euclidean"]
Floats = NDArray[np.float32]
DISTANCES_PER_BLOCK = 8_000_000  # distances in memory at once: 32 MB
_MAX_TYPICAL_SAMPLES = 5_000  # training samples whose distances serve as the typical ones
__all__ = ["TrainingReference", "nearest_rows"]


def default_layer(model: nn.Module) -> LayerInput:
    """Return the input of the last linear layer or, without one, of the last convolution.

    That layer may be the model itself, whose name is empty. Raises SetupError for a model without either.
    """
    for kind in _LAST_LAYER_TYPES:
        if names := [name for name, module in model.named_modules() if isinstance(module, kind)]:
            return LayerInput(names[-1])
    raise SetupError("model has no linear layer; expected one to take its input. Pass the name of a layer.")


def describe_layer(layer: object) -> str:
    """Describe a layer in words."""
    if not isinstance(layer, LayerInput):
        return f"the output of layer {layer}"
    return "the input of the model" if layer.layer == "" else f"the input of layer {layer.layer}"


def nearest_rows(
    queries: Floats, candidates: Floats, count: int, metric: Metric = "cosine", skip: NDArray[np.int64] | None = None
) -> tuple[Floats, NDArray[np.int64]]:
    """Return ascending distances and indices of the ``count`` nearest candidates of each query.

    Queries and candidates have shape (rows, features). ``skip`` holds for each query an index to leave out, such as its
    own, or -1. Non-finite numbers count as 0. Raises SetupError for an unknown metric or if there are fewer rows than
    requested.
    """
    if metric not in ("cosine", "euclidean"):
        raise SetupError(f"metric is {metric!r}; expected 'cosine' or 'euclidean'. Pass one of these.")
    if count > len(candidates) - (skip is not None):
        raise SetupError(f"k is {count}; expected at most {len(candidates) - (skip is not None)} rows. Request fewer.")
    query_points, candidate_points = _prepare_rows(queries, metric), _prepare_rows(candidates, metric)
    if metric == "euclidean":  # far from zero, the differences would be lost to rounding of the squares
        center = candidate_points.mean(0)
        query_points, candidate_points = query_points - center, candidate_points - center
    size = max(DISTANCES_PER_BLOCK // max(len(candidate_points), 1), 1)
    blocks = []
    with torch.inference_mode():
        squares = (candidate_points * candidate_points).sum(1)
        for start in range(0, len(query_points), size):
            block = query_points[start : start + size]
            squared_distances = (
                squares - 2 * block @ candidate_points.T
            )  # the square of the query is the same for all candidates
            if skip is not None:
                own = torch.as_tensor(skip[start : start + size])
                rows = torch.nonzero(own >= 0)[:, 0]
                squared_distances[rows, own[rows]] = torch.inf
            blocks.append(squared_distances.topk(count, largest=False, sorted=True).indices)
        indices = torch.cat(blocks) if blocks else torch.zeros((0, count), dtype=torch.long)
        distances = _exact_distances(query_points, candidate_points, indices, metric)
        order = distances.argsort(dim=1, stable=True)
        return distances.gather(1, order).numpy(), indices.gather(1, order).numpy()


def _prepare_rows(values: Floats, metric: Metric) -> Tensor:
    """Return the rows as finite numbers; for cosine normalized to length one, except rows of zeros."""
    rows = torch.nan_to_num(torch.as_tensor(np.asarray(values, np.float32)), 0.0, 0.0, 0.0)
    return torch.nn.functional.normalize(rows, dim=1) if metric == "cosine" else rows


def _exact_distances(query_points: Tensor, candidate_points: Tensor, indices: Tensor, metric: Metric) -> Tensor:
    """Return the distances of pairs without the rounding error of differences of large squares."""
    parts = []
    for start in range(0, len(query_points), 1024):
        rows = slice(start, start + 1024)
        squares = (query_points[rows, None].double() - candidate_points[indices[rows]].double()).square().sum(2)
        parts.append((squares / 2 if metric == "cosine" else squares.sqrt()).float())
    return torch.cat(parts) if parts else torch.zeros(indices.shape)


@dataclass(frozen=True, eq=False)
class Neighbors:
    """The nearest training samples of each query point, nearest first.

    ``reference_rows`` has shape (points, k), as have their ``distances``. ``distance_rank`` is the share of training
    samples that are closer to their own k-th neighbor than the point is. ``label_disagreement`` is the share of the k
    nearest with a different label than the point: NaN for points without a label, None if there are no labels.
    """

    reference_rows: NDArray[np.int64]
    distances: Floats
    distance_rank: Floats
    label_disagreement: Floats | None


@dataclass(frozen=True, eq=False)
class TrainingReference:
    """Training samples: features from a layer (rows, features), and labels, -1 for none."""

    points: Floats
    labels: NDArray[np.int32] | None = None
    metric: Metric = "cosine"
    k: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.k < len(self.points):
            raise SetupError(f"k is {self.k}; expected 1 to {len(self.points) - 1} training samples. Pass another k.")

    @cached_property
    def typical_distances(self) -> Floats:
        """Return the distances of up to 5,000 training samples to their own k-th neighbor, ascending."""
        count = len(self.points)
        sample = np.arange(count)
        if count > _MAX_TYPICAL_SAMPLES:
            sample = np.random.default_rng(0).choice(count, _MAX_TYPICAL_SAMPLES, replace=False)
        distances, _ = nearest_rows(self.points[sample], self.points, self.k, self.metric, skip=sample)
        return np.sort(distances[:, -1])

    def find_neighbors(
        self, points: Floats, labels: NDArray[np.int32] | None = None, own: NDArray[np.int64] | None = None
    ) -> Neighbors:
        """Find the neighbors of points; ``own`` are their indices among the training samples, -1 for other points."""
        distances, reference_rows = nearest_rows(points, self.points, self.k, self.metric, skip=own)
        distance_rank = np.searchsorted(self.typical_distances, distances[:, -1]) / len(self.typical_distances)
        label_disagreement = None
        if labels is not None and self.labels is not None:
            neighbor_labels = self.labels[reference_rows]
            labeled = (neighbor_labels >= 0).sum(1)
            with np.errstate(invalid="ignore"):
                label_disagreement = ((neighbor_labels != labels[:, None]) & (neighbor_labels >= 0)).sum(1) / labeled
            label_disagreement = np.where((labels >= 0) & (labeled > 0), label_disagreement, np.nan).astype(np.float32)
        return Neighbors(reference_rows, distances, distance_rank.astype(np.float32), label_disagreement)
